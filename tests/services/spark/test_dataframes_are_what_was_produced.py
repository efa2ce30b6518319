"""Formats x partitioners x schema changes: what was produced is what Spark reads from the objects, by the log and from the Delta table."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from chispa import assert_df_equality

from kafka_s3.run.java.jars import kafka_package, spark_jars
from kafka_s3.spark import read_committed
from tests.support.configurations import PARTITIONER, TIME
from tests.support.kafka import Given, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafka_s3_testing.services.registry import EmbeddedRegistry
    from tests.support.surroundings import Surroundings

TEN = 1_705_312_800_000  # 2024-01-15T10:00:00Z
HOUR = 3_600_000
FORMATS = {
    "parquet": {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "delta.enable": "true"},
    "avro": {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat", "avro.codec": "deflate"},
    "json": {
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat", "s3.compression.type": "gzip", "json.decimal.format": "NUMERIC",
    },
}  # fmt: skip
PARTITIONERS: Mapping[str, tuple[dict[str, str], str]] = {
    "default": ({}, "partition string"),
    "field": ({"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "country"}, ""),
    "time": ({**TIME, "path.format": "'year'=YYYY/'hour'=HH"}, "year string, hour string"),
}
"""Each with the columns that only its directories say: the field partitioner's is a column of the records."""
CHANGES = ("none", "added", "widened")
CELLS = list(itertools.product(FORMATS, PARTITIONERS, CHANGES))
QUICK = list(zip(FORMATS, PARTITIONERS, CHANGES, strict=True))
"""Each format, each partitioner and each change once. The other 24 cells are for the nightly run."""

COLUMNS = (
    "id long, country string, ratio double, ok boolean, tags array<string>, address struct<city: string, zip: int>, "
    "amount int, price decimal(10,2), at timestamp, day date, raw binary, stock map<string, int>"
)


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


ADDRESS = {"type": "record", "name": "Address", "fields": [field("city", "string"), field("zip", optional("int"))]}
FIRST = [
    field("id", "long"), field("country", "string"), field("ratio", optional("double")), field("ok", "boolean"),
    field("tags", {"type": "array", "items": "string"}),
    field("address", optional(ADDRESS)),
    field("amount", "int"), field("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    field("at", {"type": "long", "logicalType": "timestamp-millis"}), field("day", {"type": "int", "logicalType": "date"}),
    field("raw", optional("bytes")), field("stock", {"type": "map", "values": "int"}),
]  # fmt: skip
SECOND = {
    "none": FIRST,
    "added": [*FIRST, {**field("note", optional("string")), "default": None}],
    "widened": [{**one, "type": "long"} if one["name"] == "amount" else one for one in FIRST],
}


def order(n: int, change: str) -> dict[str, Any]:
    """What a producer means; from the sixth order on by the second schema."""
    later = n >= 5
    return {
        "id": n, "country": ("DE", "FR")[n % 2], "ratio": None if n % 3 == 0 else n / 4, "ok": n % 2 == 0,
        "tags": [f"t{i}" for i in range(n % 3)], "address": None if n % 4 == 3 else {"city": f"c{n}", "zip": None if n % 2 else n},
        "amount": 2**40 + n if later and change == "widened" else n, "price": Decimal(n * 100 + 99).scaleb(-2),
        "at": datetime(2024, 1, 15, 10, n, 0, 123_000, UTC), "day": date(2024, 1, n + 1), "raw": None if n % 5 == 0 else bytes([n, 0, 255]),
        "stock": {"a": n}, **({"note": f"n{n}" if later and n % 2 == 0 else None} if change == "added" else {}),
    }  # fmt: skip


class Cell:
    """A topic of ten orders by two schemas, worked off by a sink."""

    def __init__(
        self, here: Surroundings, registry: EmbeddedRegistry, topic: str, form: str, by: str, change: str
    ) -> None:
        self.here, self.topic, self.form, self.change = here, topic, form, change
        self.more, self.directories = PARTITIONERS[by]
        self.orders = [order(n, change) for n in range(10)]
        self._produce(registry)
        self.config = here.config(
            topic,
            **{
                "value.converter": "io.confluent.connect.avro.AvroConverter",
                "value.converter.schema.registry.url": registry.url,
            },
            **{"flush.size": "3", **FORMATS[form], **self.more},
        )
        here.drain(self.config)

    def _produce(self, registry: EmbeddedRegistry) -> None:
        for orders, fields in ((self.orders[:5], FIRST), (self.orders[5:], SECOND[self.change])):
            schema = {"type": "record", "name": "Order", "fields": fields}
            number = registry.register(f"{self.topic}-value", json.dumps(schema))
            parsed = fastavro.parse_schema(schema)
            given = []
            for one in orders:
                out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
                out.seek(5)
                fastavro.schemaless_writer(out, parsed, one)
                given.append(Given(out.getvalue(), timestamp_ms=TEN + one["id"] % 2 * HOUR))
            produce(self.here.servers, self.topic, given)

    @property
    def columns(self) -> str:
        changed = COLUMNS.replace("amount int", "amount long") if self.change == "widened" else COLUMNS
        return f"{changed}, note string" if self.change == "added" else changed

    def expect(self, found: DataFrame, columns: str, directories: str = "") -> None:
        """Row by row, type by type, what was produced."""
        names = [one.split()[0] for one in columns.replace("(10,2)", "").split(", ") if ":" not in one]
        names = [name for name in self.orders[0] if name in names or name == "address"]
        values = {"partition": lambda _: "0", "year": lambda _: "2024", "hour": lambda n: str(10 + n % 2)}
        beside = [one.split()[0] for one in directories.split(", ") if one]
        rows = [(*(one[name] for name in names), *(values[name](one["id"]) for name in beside)) for one in self.orders]
        schema = f"{columns}, {directories}" if directories else columns
        expected = self.here.spark.createDataFrame(rows, schema).orderBy("id")
        assert_df_equality(found.select(*expected.columns).orderBy("id"), expected, ignore_nullable=True)

    def objects(self, folder: Path) -> DataFrame:
        """The objects as a user of Spark reads them, who knows of no log: a topic whose types were widened with the types of now."""
        reader = self.here.spark.read.option("recursiveFileLookup", True)
        if self.form == "parquet":
            reader = reader.schema(self.columns) if self.change == "widened" else reader.option("mergeSchema", True)
            return reader.parquet(*map(str, folder.rglob("*.parquet")))
        if self.form == "avro":
            for jar in spark_jars([kafka_package().replace("spark-sql-kafka-0-10", "spark-avro")]):
                self.here.spark.sql(f"ADD JAR '{jar}'")
            newest = json.dumps({"type": "record", "name": "Order", "fields": SECOND[self.change]})
            return reader.format("avro").option("avroSchema", newest).load(str(folder))
        times_are_numbers = self.columns.replace("at timestamp, day date", "at long, day int")
        return (
            reader.schema(times_are_numbers)
            .json(str(folder))
            .selectExpr("* EXCEPT (at, day)", "timestamp_millis(at) AS at", "date_from_unix_date(day) AS day")
        )

    def saved(self, folder: Path) -> Path:
        """The topic's objects on local disk: this Spark has no file system for S3."""
        for key in self.here.bucket.listing():
            if key.startswith(f"topics/{self.topic}/"):
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                (folder / key).write_bytes(self.here.bucket.get(key))
        return folder / "topics" / self.topic


@pytest.mark.parametrize(
    ("form", "by", "change"),
    [pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.nightly) for cell in CELLS],
)
def test_what_was_produced_is_read_from_objects_by_the_log_and_from_the_table(
    here: Surroundings,
    schema_registry: EmbeddedRegistry,
    topic: Callable[..., str],
    tmp_path: Path,
    form: str,
    by: str,
    change: str,
) -> None:
    cell = Cell(here, schema_registry, topic("orders"), form, by, change)
    given = f"{cell.columns}, {cell.directories}" if cell.directories else cell.columns
    found = read_committed(here.spark, cell.config, cell.topic, schema=given if form == "json" else None)
    cell.expect(found, cell.columns, cell.directories)

    folder = cell.saved(tmp_path)
    cell.expect(cell.objects(folder), cell.columns)
    if form == "parquet":
        cell.expect(here.spark.read.format("delta").load(str(folder)), cell.columns)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_bytes_are_records_of_one_column(here: Surroundings, topic: Callable[..., str], compression: str) -> None:
    name = topic("bytes")
    values = [b"\0\1\2", b"", b"text"]
    produce(here.servers, name, [Given(value) for value in values])
    config = here.config(
        name,
        **{"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat", "flush.size": "2"},
        **{
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "format.bytearray.separator": "||",
        },
        **{"s3.compression.type": compression},
    )
    here.drain(config)
    found = read_committed(here.spark, config, name, with_metadata=True).select("_offset", "value")
    expected = here.spark.createDataFrame(
        [(n, bytearray(value)) for n, value in enumerate(values)], "_offset long, value binary"
    )
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def test_columns_without_a_common_type_are_named_with_their_objects(
    here: Surroundings, schema_registry: EmbeddedRegistry, topic: Callable[..., str]
) -> None:
    from kafka_s3.spark import location_of

    cell = Cell(here, schema_registry, topic("conflict"), "parquet", "default", "none")
    other = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    number = schema_registry.register(f"{cell.topic}-other-value", json.dumps(other))
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(other), {"id": "x"})
    until = location_of(cell.config).log().state.version
    produce(here.servers, cell.topic, [Given(out.getvalue())])
    here.drain({**cell.config, "delta.enable": "false"})
    with pytest.raises(
        Exception, match=r"No type holds a column of both .*: column id is long, in the table string. Give the schema"
    ):
        read_committed(here.spark, cell.config, cell.topic)
    assert read_committed(here.spark, cell.config, cell.topic, until_entry=until).count() == 10
    texts = read_committed(here.spark, cell.config, cell.topic, schema="id string")
    assert sorted(row.id for row in texts.collect()) == sorted([*map(str, range(10)), "x"])
