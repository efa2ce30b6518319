"""Who can read our objects? Everybody: each format and codec, written by the real sink, opened by readers that share no code with it.

What a reader cannot read for a reason of its own stands in `REFUSALS` with its words: the column is left out of the file that this reader
gets, and a file with that column alone shows the refusal, so that nothing is skipped silently.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

from kafka_s3.run.java.jars import resolve, spark_jars
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.memory import MemoryRecord
from tests.services.objects.duckdb_reader import duckdb_rows
from tests.support.memory_world import ORDERS, START_MS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
CONNECT = "org.apache.kafka.connect.data."
CONFLUENT = "io.confluent.connect.avro."
FORMATS = "io.confluent.connect.s3.format."
AVRO_CODECS = ("null", "deflate", "snappy", "bzip2")
PARQUET_CODECS = ("none", "snappy", "gzip", "brotli", "lz4_raw", "zstd")
GZIP_LEVELS = (-1, 0, 1, 6, 9)
WIDE = Context(prec=100)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Column:
    """A field: its Connect schema, the Avro type by SEMANTICS A8.2 (without `connect.*` properties), and a value per row."""

    name: str
    connect: dict[str, Any]
    avro: Any
    values: Sequence[Any]


def kind(type_: str, /, **more: Any) -> dict[str, Any]:
    return {"type": type_, **more}


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "optional": True}


def record(name: str, /, **fields: dict[str, Any]) -> dict[str, Any]:
    return kind("struct", name=name, fields=[{"field": field, **schema} for field, schema in fields.items()])


def array(items: dict[str, Any]) -> dict[str, Any]:
    return kind("array", items=items)


def mapping(keys: dict[str, Any], values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return kind("map", keys=keys, values=values, **more)


def decimal(scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    return kind("bytes", name=CONNECT + "Decimal", version=1, parameters=parameters)


def enum(name: str, *symbols: str) -> dict[str, Any]:
    mark = "io.confluent.connect.avro.Enum"
    return kind("string", parameters={mark: name} | {f"{mark}.{symbol}": symbol for symbol in symbols})


def avro_record(name: str, /, **fields: Any) -> dict[str, Any]:
    namespace, _, short = name.rpartition(".")
    found = [{"name": field, "type": type_, **nothing(type_)} for field, type_ in fields.items()]
    return {"type": "record", "name": short, "namespace": namespace, "fields": found}


def nothing(avro: Any) -> dict[str, Any]:
    return {"default": None} if isinstance(avro, list) else {}


def avro_decimal(scale: int, precision: int) -> dict[str, Any]:
    return {"type": "bytes", "scale": scale, "precision": precision, "logicalType": "decimal"}


I32, I64, TEXT = kind("int32"), kind("int64"), kind("string")
DATE, TIME, TIMESTAMP = (
    kind(t, name=CONNECT + n, version=1) for t, n in (("int32", "Date"), ("int32", "Time"), ("int64", "Timestamp"))
)
AT = {"type": "long", "logicalType": "timestamp-millis"}
POINT = record("test.Point", x=I32, label=optional(TEXT))
DEEP = record("test.Outer", number=I32, inner=record("test.Inner", tags=array(TEXT), at=optional(TIMESTAMP)))
COLUMNS = [
    Column("i8", kind("int8"), "int", [0, -128, 127, 5]),
    Column("i16", kind("int16"), "int", [0, -32768, 32767, 5]),
    Column("i32", I32, "int", [0, -(2**31), 2**31 - 1, 5]),
    Column("i64", I64, "long", [0, -(2**63), 2**63 - 1, 5]),
    Column("f32", kind("float"), "float", [0.0, 1.5, -0.1, 3.0e38]),
    Column("f64", kind("double"), "double", [0.1, -1e300, 2.5e-300, 123456.789]),
    Column("flag", kind("boolean"), "boolean", [True, False, True, False]),
    Column("text", TEXT, "string", ["", "äöü € 😀", 'quote " back \\ line \n tab \t', "x" * 5000]),
    Column("raw", kind("bytes"), "bytes", [b"", b"\x00\xff", bytes(range(256)), b"abc"]),
    Column(
        "money", decimal(2, 18), avro_decimal(2, 18),
        [Decimal(n) for n in ("0.00", "-1.23", "1234567890123456.78", "99.90")],
    ),
    Column(
        "exact", decimal(10, 38), avro_decimal(10, 38),
        [Decimal(n) for n in ("0E-10", "-1.0000000001", "9" * 28 + "." + "9" * 10, "7")],
    ),
    Column("wide", decimal(4), avro_decimal(4, 64), [Decimal(n) for n in ("0.0000", "-1.2345", "9" * 60 + ".9999", "5")]),
    Column(
        "day", DATE, {"type": "int", "logicalType": "date"},
        [dt.date(1970, 1, 1), dt.date(1900, 2, 28), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    ),
    Column(
        "clock", TIME, {"type": "int", "logicalType": "time-millis"},
        [dt.time(0), dt.time(23, 59, 59, 999000), dt.time(12, 30), dt.time(1, 2, 3, 4000)],
    ),
    Column(
        "at", TIMESTAMP, AT,
        [EPOCH, EPOCH - dt.timedelta(milliseconds=1), dt.datetime(2024, 2, 29, 10, 0, 0, 123000, dt.UTC),
         dt.datetime(2200, 1, 1, tzinfo=dt.UTC)],
    ),
    Column("numbers", array(I32), {"type": "array", "items": "int"}, [[], [1, 2, 3], [0], [-5]]),
    Column("gaps", array(optional(TEXT)), {"type": "array", "items": ["null", "string"]}, [["a", None], [], [None], ["b"]]),
    Column(
        "points", array(POINT),
        {"type": "array", "items": avro_record("test.Point", x="int", label=["null", "string"])},
        [[], [{"x": 1, "label": "one"}, {"x": 2, "label": None}], [{"x": 3, "label": "three"}], []],
    ),
    Column("counts", mapping(TEXT, I64), {"type": "map", "values": "long"}, [{}, {"a": 1, "b": 2}, {"ä": 3}, {"a": 4}]),
    Column(
        "powers", mapping(I32, I64, name="test.Powers"),
        {"type": "array", "items": avro_record("test.Powers", key="int", value="long")},
        [{}, {1: 10, 2: 100}, {-3: 1000}, {0: 1}],
    ),
    Column(
        "names", mapping(I32, TEXT, name="test.Names"),
        {"type": "array", "items": avro_record("test.Names", key="int", value="string")},
        [{}, {1: "one", 2: "two"}, {-3: "minus three"}, {0: "zero"}],
    ),
    Column(
        "outer", DEEP,
        avro_record("test.Outer", number="int", inner=avro_record(
            "test.Inner", tags={"type": "array", "items": "string"}, at=["null", AT])),
        [{"number": n, "inner": {"tags": ["t"] * n, "at": EPOCH if n % 2 else None}} for n in range(4)],
    ),
    Column("maybe_number", optional(I32), ["null", "int"], [None, 1, None, -1]),
    Column("maybe_text", optional(TEXT), ["null", "string"], ["", None, "here", None]),
    Column("maybe_raw", optional(kind("bytes")), ["null", "bytes"], [None, b"", b"\x01\xfe", None]),
    Column(
        "maybe_money", optional(decimal(3, 12)), ["null", avro_decimal(3, 12)],
        [Decimal("1.250"), None, Decimal("-0.001"), None],
    ),
    Column("maybe_at", optional(TIMESTAMP), ["null", AT], [None, EPOCH, None, EPOCH]),
    Column("maybe_list", optional(array(I64)), ["null", {"type": "array", "items": "long"}], [None, [], [1], None]),
    Column(
        "maybe_map", optional(mapping(TEXT, TEXT)), ["null", {"type": "map", "values": "string"}],
        [None, {"k": "v"}, None, {"k": "w"}],
    ),
    Column(
        "maybe_struct", optional(record("test.Maybe", x=I32, label=optional(TEXT))),
        ["null", avro_record("test.Maybe", x="int", label=["null", "string"])],
        [None, {"x": 1, "label": None}, {"x": 2, "label": "two"}, None],
    ),
    Column(
        "colour", enum("test.Colour", "BLUE", "GREEN", "RED"),
        {"type": "enum", "name": "Colour", "namespace": "test", "symbols": ["BLUE", "GREEN", "RED"]},
        ["RED", "BLUE", "RED", "GREEN"],
    ),
]  # fmt: skip
ROWS = 4


def sent(value: Any, schema: dict[str, Any], *, numeric: bool = False) -> Any:
    """The JSON converter's form of a value, in an envelope and in JSON objects alike (SEMANTICS A8.1)."""
    if value is None:
        return None
    match schema:
        case {"type": "struct", "fields": fields}:
            return {field["field"]: sent(value[field["field"]], field, numeric=numeric) for field in fields}
        case {"type": "array", "items": items}:
            return [sent(item, items, numeric=numeric) for item in value]
        case {"type": "map", "values": values, "keys": {"type": "string"}}:
            return {key: sent(item, values, numeric=numeric) for key, item in value.items()}
        case {"type": "map", "values": values}:
            return [[key, sent(item, values, numeric=numeric)] for key, item in value.items()]
    match value:
        case Decimal() if numeric:
            return float(value)
        case Decimal():
            unscaled = int(WIDE.scaleb(value, int(schema["parameters"]["scale"])))
            return base64.b64encode(
                unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
            ).decode()
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            return (value - EPOCH) // dt.timedelta(milliseconds=1)
        case dt.date():
            return (value - EPOCH.date()).days
        case dt.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value


def plain(value: Any, schema: dict[str, Any]) -> Any:
    """What a reader gave, in the form of `Column.values`: readers differ in how they show maps, bytes, dates and times, not in more."""
    if value is None:
        return None
    match schema:
        case {"type": "struct", "fields": fields}:
            assert set(value) == {field["field"] for field in fields}
            return {field["field"]: plain(value[field["field"]], field) for field in fields}
        case {"type": "array", "items": items}:
            return [plain(item, items) for item in value]
        case {"type": "map", "keys": keys, "values": values}:
            pairs = value.items() if isinstance(value, dict) else [_pair(pair) for pair in value]
            return {plain(key, keys): plain(item, values) for key, item in pairs}
        case {"type": "float"}:
            return value  # compared as float32 by `same`
        case {"name": name} if name == CONNECT + "Timestamp":
            return EPOCH + dt.timedelta(milliseconds=value) if isinstance(value, int) else _aware(value)
        case {"name": name} if name == CONNECT + "Date":
            return (EPOCH + dt.timedelta(days=value)).date() if isinstance(value, int) else value
        case {"name": name} if name == CONNECT + "Time":
            clock = (EPOCH + dt.timedelta(milliseconds=value)).time() if isinstance(value, int) else value
            assert clock.tzinfo in (None, dt.UTC)  # DuckDB takes the annotation isAdjustedToUTC at its word
            return clock.replace(tzinfo=None)
        case {"name": name, "parameters": {"scale": scale}} if name == CONNECT + "Decimal" and isinstance(value, str):
            return WIDE.scaleb(Decimal(int.from_bytes(value.encode("latin-1"), "big", signed=True)), -int(scale))
        case {"type": "bytes"} if isinstance(value, str):
            return value.encode("latin-1")
        case {"type": "bytes", "name": _}:
            return value
        case {"type": "bytes"}:
            return bytes(value)
    return value


def _pair(pair: Any) -> tuple[Any, Any]:
    return (pair["key"], pair["value"]) if isinstance(pair, dict) else (pair[0], pair[1])


def _aware(value: dt.datetime) -> dt.datetime:
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def same(found: Sequence[Row], columns: Sequence[Column]) -> None:
    """All rows, in order, all columns, equal values."""
    assert len(found) == ROWS
    for at, row in enumerate(found):
        assert set(row) == {column.name for column in columns}
        for column in columns:
            value, wanted = plain(row[column.name], column.connect), column.values[at]
            if column.connect["type"] == "float":
                value, wanted = struct.pack("f", value), struct.pack("f", wanted)
            assert value == wanted, f"{column.name} of row {at}"
            assert type(value) is type(wanted), f"{column.name} of row {at}"


def same_json(found: Sequence[Row], columns: Sequence[Column], *, numeric: bool = False) -> None:
    """The same of a JSON reader: the converter's forms. Readers make structs of objects: a key that a map lacks is null there."""
    assert len(found) == ROWS
    for at, row in enumerate(found):
        assert set(row) == {column.name for column in columns}
        for column in columns:
            value, wanted = row[column.name], sent(column.values[at], column.connect, numeric=numeric)
            if column.connect["type"] == "map" and isinstance(value, dict):
                value = {key: item for key, item in value.items() if item is not None}
            assert value == wanted, f"{column.name} of row {at}"


def all_but(*names: str) -> list[Column]:
    """The columns without those of these names."""
    return [column for column in COLUMNS if column.name not in names]


def only(*names: str) -> list[Column]:
    """The columns of these names."""
    return [column for column in COLUMNS if column.name in names]


def written(folder: Path, columns: Sequence[Column], **config: str) -> Path:
    """The object that the sink makes of the rows, as a file under its own name."""
    schema = record("test.Everything", **{column.name: column.connect for column in columns})
    rows = [{column.name: sent(column.values[at], column.connect) for column in columns} for at in range(ROWS)]
    values = [json.dumps({"schema": schema, "payload": row}).encode() for row in rows]
    return delivered(folder, values, **{"value.converter.schemas.enable": "true", **config})


def delivered(folder: Path, values: Sequence[bytes], **config: str) -> Path:
    """The one object of these Kafka values."""
    world = World({"flush.size": str(len(values)), "topics.dir": "t", **config})
    for offset, value in enumerate(values):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    sink = world.start()
    sink.poll_and_commit()
    ((key, data),) = [(key, data) for key, data in world.store.objects.items() if key.startswith("t/")]
    path = folder / Path(key).name
    path.write_bytes(data)
    return path


def parquet(folder: Path, columns: Sequence[Column], codec: str = "snappy") -> Path:
    return written(folder, columns, **{"format.class": FORMATS + "parquet.ParquetFormat", "parquet.codec": codec})


def avro(folder: Path, columns: Sequence[Column], codec: str = "null") -> Path:
    return written(folder, columns, **{"format.class": FORMATS + "avro.AvroFormat", "avro.codec": codec})


def json_lines(folder: Path, columns: Sequence[Column], **config: str) -> Path:
    return written(folder, columns, **{"format.class": FORMATS + "json.JsonFormat", **config})


ODDITIES: dict[tuple[str, str], dict[str, str | list[Any]]] = {
    # No engine but pyarrow has a decimal of more than 38 digits; DuckDB documents that it reads such Parquet columns as DOUBLE.
    ("parquet", "duckdb"): {"wide": [0.0, -1.2345, 1e60, 5.0]},
    # Spark 4.0 has no type for a time of day; in Avro it reads the number below it.
    ("parquet", "spark"): {
        "wide": "Decimal precision 64 exceeds max precision 38",
        "clock": r"Illegal Parquet type: INT32 \(TIME\(MILLIS",
    },
    ("avro", "spark"): {"wide": "Decimal precision 64 exceeds max precision 38"},
    # Pairs of a number and a text are an array of two types, which columns have not: an error, the texts, or JSON texts.
    ("json", "pyarrow"): {"names": r"Column\(/names/\[\]/\[\]\) changed from number to string"},
    ("json", "spark"): {"names": [[], [["1", "one"], ["2", "two"]], [["-3", "minus three"]], [["0", "zero"]]]},
    ("json", "duckdb"): {"names": [[], [["1", '"one"'], ["2", '"two"']], [["-3", '"minus three"']], [["0", '"zero"']]]},
}
"""By format and reader, the columns that it refuses (a pattern of its words) or shows as something else (the values)."""
LACKING = {("parquet", "spark"): ("brotli", "BrotliCodec was not found")}
"""By format and reader, the codec that it lacks, and a pattern of its words."""
Read = Callable[[Path], list[Row]]


def fastavro_rows(path: Path) -> list[Row]:
    with path.open("rb") as file:
        return [row for row in fastavro.reader(file) if isinstance(row, dict)]


READERS: dict[tuple[str, str], Read] = {
    ("parquet", "pyarrow"): lambda path: pq.ParquetFile(path).read().to_pylist(),
    ("parquet", "duckdb"): lambda path: duckdb_rows("read_parquet", path),
    ("avro", "fastavro"): fastavro_rows,
    ("json", "pyarrow"): lambda path: pj.read_json(path).to_pylist(),
    ("json", "duckdb"): lambda path: duckdb_rows("read_json", path),
}


@pytest.fixture(scope="session")
def spark_with_avro(spark: SparkSession) -> SparkSession:
    for jar in spark_jars(["org.apache.spark:spark-avro_2.13:4.0.0"]):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def reading(request: pytest.FixtureRequest) -> Callable[[str, str], Read]:
    """The reader of a format by name; Spark starts when it is asked for."""

    def found(file_format: str, name: str) -> Read:
        if name != "spark":
            return READERS[file_format, name]
        source = request.getfixturevalue("spark_with_avro").read.format(file_format)
        return lambda path: [row.asDict(recursive=True) for row in source.load(str(path)).collect()]

    return found


def check(
    make: Callable[[Path, Sequence[Column]], Path], read: Read, *, oddities: dict[str, Any], equal: Any, folder: Path
) -> None:
    """The rest as it was sent, in one file; each odd column, in a file of its own, as the reader's makers say."""
    readable = all_but(*oddities)
    equal(read(make(folder, readable)), readable)
    for name, odd in oddities.items():
        path = make(new(folder, name), only(name))
        if isinstance(odd, str):
            with pytest.raises(Exception, match=odd):
                read(path)
        else:
            assert [row[name] for row in read(path)] == odd


def new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


@pytest.mark.parametrize("codec", PARQUET_CODECS)
@pytest.mark.parametrize("reader", ["pyarrow", "duckdb", "spark"])
def test_parquet_is_read_back(reader: str, codec: str, reading: Callable[[str, str], Read], tmp_path: Path) -> None:
    _check_codec("parquet", reader, make=parquet, codec=codec, read=reading("parquet", reader), folder=tmp_path)


@pytest.mark.parametrize("codec", AVRO_CODECS)
@pytest.mark.parametrize("reader", ["fastavro", "spark"])
def test_avro_is_read_back(reader: str, codec: str, reading: Callable[[str, str], Read], tmp_path: Path) -> None:
    _check_codec("avro", reader, make=avro, codec=codec, read=reading("avro", reader), folder=tmp_path)


def _check_codec(
    file_format: str,
    reader: str,
    *,
    make: Callable[[Path, Sequence[Column], str], Path],
    codec: str,
    read: Read,
    folder: Path,
) -> None:
    lacking, words = LACKING.get((file_format, reader), ("", ""))
    if codec == lacking:
        with pytest.raises(Exception, match=words):
            read(make(folder, only("i32"), codec))
        return
    oddities = ODDITIES.get((file_format, reader), {})
    check(lambda place, columns: make(place, columns, codec), read, oddities=oddities, equal=same, folder=folder)


@pytest.mark.parametrize("config", [{}, {"s3.compression.type": "gzip"}], ids=["plain", "gzip"])
@pytest.mark.parametrize("reader", ["pyarrow", "duckdb", "spark"])
def test_json_lines_are_read_back(
    reader: str, config: dict[str, str], reading: Callable[[str, str], Read], tmp_path: Path
) -> None:
    def make(place: Path, columns: Sequence[Column]) -> Path:
        return json_lines(place, columns, **config)

    check(make, reading("json", reader), oddities=ODDITIES["json", reader], equal=same_json, folder=tmp_path)


@pytest.mark.parametrize("reader", ["pyarrow", "duckdb", "spark"])
def test_decimals_as_numbers_are_numbers_for_every_reader(
    reader: str, reading: Callable[[str, str], Read], tmp_path: Path
) -> None:
    columns = only("i32", "money", "maybe_money")
    path = json_lines(tmp_path, columns, **{"json.decimal.format": "NUMERIC"})
    same_json(reading("json", reader)(path), columns, numeric=True)


@pytest.mark.parametrize("level", GZIP_LEVELS)
def test_the_gzip_tool_finds_one_sound_member_of_the_very_lines(level: int, tmp_path: Path) -> None:
    compressed = {"s3.compression.type": "gzip", "s3.compression.level": str(level)}
    path = json_lines(tmp_path, COLUMNS, **compressed)
    lines = [json.loads(line) for line in unzipped(path).decode().rstrip("\n").split("\n")]
    assert lines == [{column.name: sent(column.values[at], column.connect) for column in COLUMNS} for at in range(ROWS)]
    assert unzipped(path) == json_lines(new(tmp_path, "plain"), COLUMNS).read_bytes()


def unzipped(path: Path) -> bytes:
    """What the command line tool makes of a file that it finds sound."""
    subprocess.run(["gzip", "--test", path], check=True, capture_output=True)
    return subprocess.run(["gzip", "--decompress", "--stdout", path], check=True, capture_output=True).stdout


TEXTS = [b"one", b"two words", b"", "drei äöü".encode(), b"5" * 3000]
BYTES = {
    "format.class": FORMATS + "bytearray.ByteArrayFormat",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


@pytest.mark.parametrize("level", [None, *GZIP_LEVELS])
def test_bytes_are_read_back(level: int | None, tmp_path: Path) -> None:
    extra = {} if level is None else {"s3.compression.type": "gzip", "s3.compression.level": str(level)}
    separator = {"format.bytearray.separator": "\n", "format.bytearray.extension": ".txt"}
    path = delivered(tmp_path, TEXTS, **BYTES, **separator, **extra)
    wanted = b"".join(text + b"\n" for text in TEXTS)
    assert path.name.endswith(".txt" if level is None else ".txt.gz")
    with pa.input_stream(path) as stream:  # the compression by the name
        assert stream.read() == wanted
    if level is None:
        assert path.read_bytes() == wanted
        assert duckdb_rows("read_blob", path)[0]["content"] == wanted
    else:
        assert unzipped(path) == wanted


@pytest.mark.parametrize("extra", [{}, {"s3.compression.type": "gzip"}], ids=["plain", "gzip"])
def test_spark_reads_bytes_as_lines(extra: dict[str, str], spark: SparkSession, tmp_path: Path) -> None:
    separator = {"format.bytearray.separator": "\n", "format.bytearray.extension": ".txt"}
    path = delivered(tmp_path, TEXTS, **BYTES, **separator, **extra)
    assert [row.value for row in spark.read.text(str(path)).collect()] == [text.decode() for text in TEXTS]


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_the_avro_tools_of_java_read_the_rows(codec: str, tmp_path: Path) -> None:
    text = avro_tools("tojson", avro(tmp_path, COLUMNS, codec))
    rows = [json.loads(line) for line in text.rstrip("\n").split("\n")]
    same([{column.name: unpacked(row[column.name], column.connect) for column in COLUMNS} for row in rows], COLUMNS)


def test_the_avro_tools_of_java_read_the_schema(tmp_path: Path) -> None:
    schema = json.loads(avro_tools("getschema", avro(tmp_path, COLUMNS)))
    assert (schema["namespace"], schema["name"]) == ("test", "Everything")
    for member, column in zip(schema["fields"], COLUMNS, strict=True):
        assert normal(member["type"], "test") == normal(column.avro), column.name
        assert member.get("default", 0) == nothing(column.avro).get("default", 0)
    int8, int16 = (member["type"] for member in schema["fields"][:2])
    assert (int8, int16) == ({"type": "int", "connect.type": "int8"}, {"type": "int", "connect.type": "int16"})


def test_an_enum_keeps_the_order_of_its_symbols(tmp_path: Path) -> None:
    column = Column("suit", enum("test.Suit", "SPADES", "HEARTS"), None, ["SPADES"] * ROWS)
    (member,) = json.loads(avro_tools("getschema", avro(tmp_path, [column])))["fields"]
    assert member["type"]["symbols"] == ["SPADES", "HEARTS"]


def avro_tools(tool: str, file: Path) -> str:
    """What Apache's tools in Java print."""
    jars = resolve(["org.apache.avro:avro-tools:1.12.0"])[0].parent
    command = [find_java().executable, "-cp", f"{jars}/*", "org.apache.avro.tool.Main", tool, file]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def unpacked(value: Any, schema: dict[str, Any]) -> Any:
    """Avro's JSON: a union's value stands in an object with the name of its type."""
    if value is None:
        return None
    if schema.get("optional"):
        ((_, value),) = value.items()
    match schema:
        case {"type": "struct", "fields": fields}:
            return {field["field"]: unpacked(value[field["field"]], field) for field in fields}
        case {"type": "array", "items": items}:
            return [unpacked(item, items) for item in value]
    return value


def normal(avro_type: Any, namespace: str = "") -> Any:
    """An Avro type without `connect.*` properties, in its long form with full names."""
    if isinstance(avro_type, list):
        return [normal(branch, namespace) for branch in avro_type]
    if isinstance(avro_type, str):
        return {"type": avro_type}
    found = {key: value for key, value in avro_type.items() if not key.startswith("connect.")}
    if "name" in found:
        namespace = found.pop("namespace", namespace)
        found["name"] = f"{namespace}.{found['name']}"
    if "fields" in found:
        found["fields"] = [{**field, "type": normal(field["type"], namespace)} for field in found["fields"]]
    for part in ("items", "values"):
        if part in found:
            found[part] = normal(found[part], namespace)
    return found
