"""Does a column keep its number, and its values, where an Avro schema gives its field a newer name and calls the old one an alias?"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafka_s3.connect.naming.field_ids import field_id
from kafka_s3.followers.iceberg.maintain import check_table, rebuild
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables
from kafka_s3.run.wiring.table_guard import open_tables
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryRecord
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.iceberg_world import IcebergWorld, bucket_settings
from tests.support.memory_world import ORDERS, START_MS

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.schema.inference": "false",
    "flush.size": "1",
}
TEXTS = {"type": "array", "items": "string"}


def column(name: str, type_: Any, *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": type_, **({"aliases": list(aliases)} if aliases else {})}


def at(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "At", "fields": list(fields)}


FIRST = (column("n", "long"), column("name", TEXTS), column("at", at(column("street", "string"))))
SECOND = (
    column("n", "long"), column("full_name", TEXTS, "name"), column("place", at(column("road", "string", "street")), "at"),
)  # fmt: skip
THIRD = (column("n", "long"), column("title", TEXTS, "full_name"), column("place", at(column("road", "string"))))


class Avro:
    """A sink of Avro records, whose schemas a registry has."""

    def __init__(self, registry: EmbeddedRegistry, folder: Path, **config: str) -> None:
        self.registry = registry
        place = {"value.converter.schema.registry.url": registry.url}
        self.world = IcebergWorld(folder, **AVRO, **place, **config)

    def run(self, fields: tuple[dict[str, Any], ...], *values: Mapping[str, Any]) -> None:
        self.add(fields, *values)
        self.world.run()
        assert self.world.warnings.texts == []

    def add(self, fields: tuple[dict[str, Any], ...], *values: Mapping[str, Any]) -> None:
        schema = {"type": "record", "name": "Order", "fields": list(fields)}
        number = self.registry.register("orders-value", json.dumps(schema))
        for value in values:
            content = io.BytesIO()
            fastavro.schemaless_writer(content, fastavro.parse_schema(schema), dict(value))
            offset = len(self.world.kafka.records[ORDERS])
            payload = struct.pack(">bI", 0, number) + content.getvalue()
            self.world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, payload))

    def ids(self) -> dict[str, int]:
        schema = self.world.table().schema()
        return {schema.find_column_name(number) or "": number for number in schema.field_ids}


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


def first(n: int) -> dict[str, Any]:
    return {"n": n, "name": [f"a{n}"], "at": {"street": f"s{n}"}}


def second(n: int) -> dict[str, Any]:
    return {"n": n, "full_name": [f"a{n}"], "place": {"road": f"s{n}"}}


def third(n: int) -> dict[str, Any]:
    return {"n": n, "title": [f"a{n}"], "place": {"road": f"s{n}"}}


def expected(*numbers: int, name: str = "full_name") -> list[dict[str, Any]]:
    return [{"n": n, name: [f"a{n}"], "place": {"road": f"s{n}"}, "partition": "0"} for n in numbers]


def numbers_in_objects(world: IcebergWorld) -> set[tuple[str, int]]:
    assert isinstance(world.store, MemoryStore)
    found = [
        pq.read_schema(io.BytesIO(content)) for key, content in world.store.objects.items() if key.endswith(".parquet")
    ]
    return {(one.name, int(one.metadata[b"PARQUET:field_id"])) for schema in found for one in schema}


def test_a_renamed_field_keeps_its_column_and_all_of_its_values(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    avro.run(FIRST, first(0), first(1))
    before = avro.ids()
    avro.run(SECOND, second(2))
    assert avro.world.rows() == expected(0, 1, 2)
    now = avro.ids()
    assert now["full_name"] == before["name"] == field_id("name")
    assert now["full_name.element"] == before["name.element"]
    assert (now["place"], now["place.road"]) == (before["at"], before["at.street"])
    assert len(now) == len(before)
    assert numbers_in_objects(avro.world) >= {("name", field_id("name")), ("full_name", field_id("name"))}
    pruned = avro.world.table().scan(row_filter="place.road = 's1'").plan_files()
    assert len(list(pruned)) == 1


def test_records_of_the_old_schema_may_still_come(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    avro.run(FIRST, first(0))
    avro.run(SECOND, second(1))
    avro.run(FIRST, first(2))
    avro.run(SECOND, second(3))
    assert avro.world.rows() == expected(0, 1, 2, 3)


def test_a_field_may_be_renamed_again_by_its_last_name(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    for fields, value in (
        (FIRST, first(0)),
        (SECOND, second(1)),
        (THIRD, third(2)),
        (FIRST, first(3)),
        (SECOND, second(4)),
    ):
        avro.run(fields, value)
    assert avro.world.rows() == expected(0, 1, 2, 3, 4, name="title")
    assert avro.ids()["title"] == field_id("name")


def test_both_schemas_may_come_before_there_is_a_table(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    avro.add(FIRST, first(0))
    avro.run(SECOND, second(1))
    assert len(avro.world.table().metadata.snapshots) == 1
    avro.add(SECOND, second(2))
    avro.run(FIRST, first(3))
    assert avro.world.rows() == expected(0, 1, 2, 3)


def test_a_table_that_is_gone_is_made_again_with_the_same_numbers(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    for fields, value in ((FIRST, first(0)), (SECOND, second(1)), (THIRD, third(2))):
        avro.run(fields, value)
    before, rows = avro.ids(), avro.world.rows()
    avro.world.catalog().drop_table("kafka.orders")
    table = iceberg_tables(avro.world.settings, avro.world.store, warn=pytest.fail)("orders")
    planner = iceberg_planner(avro.world.settings, avro.world.store)
    rebuild(avro.world.log(), planner, table, topic="orders", clock_ms=lambda: avro.world.now)
    assert (avro.ids(), avro.world.rows()) == (before, rows)
    assert check_table(avro.world.log(), planner, table, topic="orders").findings == []
    avro.run(FIRST, first(3))
    assert len(avro.world.rows()) == 4


def test_a_field_that_takes_the_old_name_is_a_column_of_its_own(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    avro.run(FIRST, first(0))
    avro.run(SECOND, second(1))
    again = (*SECOND, column("name", ["null", "string"]))
    avro.run(again, {**second(2), "name": "new"})
    avro.run(again, {**second(3), "name": "newer"})
    rows = avro.world.rows()
    assert [row["full_name"] for row in rows] == [["a0"], ["a1"], ["a2"], ["a3"]]
    assert [row["name"] for row in rows] == [None, None, "new", "newer"]


@pytest.mark.parametrize("mode", ["failOnNewColumns", "rescue", "none"])
def test_where_columns_stay_the_values_come_under_the_old_name(
    mode: str, registry: EmbeddedRegistry, tmp_path: Path
) -> None:
    avro = Avro(registry, tmp_path, **{"iceberg.schema.evolution.mode": mode})
    avro.run(FIRST, first(0))
    avro.run(SECOND, second(1))
    found = [{name: row[name] for name in ("n", "name", "at")} for row in avro.world.rows()]
    assert found == [first(0), first(1)]
    assert all(row.get("_rescued_data") is None for row in avro.world.rows())


def test_a_hidden_partition_follows_its_column(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    by_field = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "n", "iceberg.partition.by": "bucket(16, code)",
    }  # fmt: skip
    avro = Avro(registry, tmp_path, **by_field)
    old, new = (column("n", "long"), column("code", "string")), (column("n", "long"), column("sku", "string", "code"))
    avro.run(old, {"n": 0, "code": "a"})
    avro.run(new, {"n": 1, "sku": "a"})
    tasks = list(avro.world.table().scan().plan_files())
    assert len({tuple(task.file.partition) for task in tasks}) == 1
    assert {task.file.spec_id for task in tasks} == {avro.world.table().metadata.default_spec_id}
    assert [row["n"] for row in avro.world.rows(row_filter="sku = 'a'")] == [0, 1]


def test_the_new_schema_may_be_the_first_that_comes(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path)
    avro.run(SECOND, second(0))
    avro.run(FIRST, first(1))
    avro.run(SECOND, second(2))
    assert avro.world.rows() == expected(0, 1, 2)
    assert avro.ids()["full_name"] == field_id("name")


def test_objects_without_numbers_are_read_by_every_name(registry: EmbeddedRegistry, tmp_path: Path) -> None:
    avro = Avro(registry, tmp_path, **{"iceberg.enable": "false"})
    avro.run(FIRST, first(0))
    avro.world.configure(**{"iceberg.enable": "true"})
    avro.run(FIRST, first(1))
    avro.run(SECOND, second(2))
    assert avro.world.rows() == expected(0, 1, 2)


def test_a_delta_table_over_the_same_objects_has_a_column_for_each_name(
    registry: EmbeddedRegistry, objects: EmbeddedS3, own_bucket: str, tmp_path: Path
) -> None:
    avro = Avro(registry, tmp_path, **bucket_settings(objects.endpoint_url, own_bucket), **{"delta.enable": "true"})
    avro.world.store = avro.world.kafka.store = S3Store(store_options(avro.world.settings))
    for fields, value in ((FIRST, first(0)), (SECOND, second(1)), (FIRST, first(2)), (SECOND, second(3))):
        avro.run(fields, value)
    assert avro.world.rows() == expected(0, 1, 2, 3)
    found = open_tables(avro.world.settings, avro.world.store, pytest.fail)
    assert found.delta is not None
    delta = found.delta("orders")
    state = delta.state()
    assert state is not None
    assert set(state.columns.fields) == {"n", "name", "at", "full_name", "place", "partition"}
    assert delta.count_rows() == 4
