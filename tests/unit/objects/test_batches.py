"""An object's records come as the columns that a reader wants, or an error says which value has no place in them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.objects import batches
from kafka_s3.objects.batches import Bytes, Columns, OtherFields, object_schema, record_batches
from kafka_s3.objects.block_gzip_form import Lines
from kafka_s3.objects.readers import ObjectUnreadable, StoredObject
from kafka_s3.store.memory import MemoryStore

TIME = pa.timestamp("us", tz="UTC")


def json_object(rows: list[Any]) -> bytes:
    return gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def parquet_object(rows: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=2)
    return out.getvalue()


def avro_object(rows: list[Any], fields: list[dict[str, Any]] | None = None) -> bytes:
    out = io.BytesIO()
    found = fields or [{"name": name, "type": ["null", "long"]} for name in rows[0]]
    fastavro.writer(out, {"type": "record", "name": "R", "fields": found}, rows, codec="deflate")
    return out.getvalue()


MAKERS: Mapping[str, Callable[[list[Any]], bytes]] = {
    "json": json_object,
    "parquet": parquet_object,
    "avro": avro_object,
}


def stored(content: bytes, form: str) -> tuple[MemoryStore, StoredObject]:
    store, key = MemoryStore(), f"topics/t/partition=0/t+0+0000000000.{form}" + (".gz" if form == "json" else "")
    store.put(key, content)
    return store, StoredObject(key, len(content), form)


def read(content: bytes, form: str, columns: Columns, *, records: int = 10) -> list[dict[str, Any]]:
    found = record_batches(*stored(content, form), columns, records=records, form=Bytes(b"\n", Lines()))
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("form", MAKERS)
def test_columns_are_found_by_name_and_one_that_is_not_there_is_null_or_the_directorys(form: str) -> None:
    content = MAKERS[form]([{"a": 1, "b": None}, {"a": 2, "b": 3}, {"a": 3, "b": None}])
    schema = pa.schema([("b", pa.int64()), ("c", pa.string()), ("day", pa.int32()), ("a", pa.float64())])
    found = read(content, form, Columns(schema, fills={"day": "07", "a": "9"}))
    assert found == [
        {"b": None, "c": None, "day": 7, "a": 1.0}, {"b": 3, "c": None, "day": 7, "a": 2.0}, {"b": None, "c": None, "day": 7, "a": 3.0},
    ]  # fmt: skip


@pytest.mark.parametrize("form", MAKERS)
def test_a_field_without_a_column_is_left_out_only_where_the_user_chose_the_columns(form: str) -> None:
    content, schema = MAKERS[form]([{"a": 1, "late": 2}]), pa.schema([("a", pa.int64())])
    assert read(content, form, Columns(schema)) == [{"a": 1}]
    with pytest.raises(ObjectUnreadable, match=rf"t\+0\+0000000000\.{form}.*late.*is not among those that were found"):
        read(content, form, Columns(schema, OtherFields.REFUSED))


@pytest.mark.parametrize("form", MAKERS)
def test_a_value_that_its_column_cannot_hold_is_an_error_and_never_another_value(form: str) -> None:
    content = MAKERS[form]([{"a": 2**40}])
    with pytest.raises(ObjectUnreadable, match=rf"\.{form}.*: column a .*int32.*Give the columns that are wanted"):
        read(content, form, Columns(pa.schema([("a", pa.int32())])))
    assert read(content, form, Columns(pa.schema([("a", pa.string())]))) == [{"a": str(2**40)}]


@pytest.mark.parametrize("form", [*MAKERS, "bytearray"])
def test_damage_is_said_with_the_object(form: str) -> None:
    content = MAKERS[form]([{"a": n} for n in range(50)])[:-9] if form in MAKERS else b"no end"
    with pytest.raises(ObjectUnreadable, match=rf"\.{form}.* cannot be read as {form}.*kafka-s3 verify"):
        read(content, form, Columns(pa.schema([("a", pa.int64())])))


def test_structs_within_gain_and_lack_members() -> None:
    wanted = pa.schema(
        [("at", pa.struct([("y", pa.string()), ("x", pa.int64())])), ("many", pa.list_(pa.struct([("x", pa.int64())])))]
    )
    rows = [{"at": {"x": 1}, "many": [{"x": 1}, None]}, {"at": None, "many": None}]
    expected = [{"at": {"y": None, "x": 1}, "many": [{"x": 1}, None]}, {"at": None, "many": None}]
    for form in ("json", "parquet"):
        assert read(MAKERS[form](rows), form, Columns(wanted, OtherFields.REFUSED)) == expected
    more = [{"at": {"x": 1, "z": 2}, "many": []}]
    for form in ("json", "parquet"):
        with pytest.raises(ObjectUnreadable, match=r"at\.z.*is not among those"):
            read(MAKERS[form](more), form, Columns(wanted, OtherFields.REFUSED))


JSON_TYPES: list[tuple[pa.DataType, Any, Any]] = [
    (TIME, 1_705_312_800_123, datetime(2024, 1, 15, 10, 0, 0, 123_000, UTC)),
    (TIME, "2024-01-15T11:00:00+01:00", datetime(2024, 1, 15, 10, tzinfo=UTC)),
    (pa.timestamp("us"), "2024-01-15T10:00:00", datetime(2024, 1, 15, 10)),  # noqa: DTZ001
    (pa.date32(), 1, date(1970, 1, 2)),
    (pa.date32(), "1970-01-02", date(1970, 1, 2)),
    (pa.decimal128(10, 2), "1.20", Decimal("1.20")),
    (pa.decimal128(10, 2), 3, Decimal("3.00")),
    (pa.binary(), "AP8=", b"\x00\xff"),
    (pa.float64(), "NaN", None),
    (pa.float64(), 3, 3.0),
    (pa.string(), {"a": [1, 2.5]}, '{"a":[1,2.5]}'),
    (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
    (pa.map_(pa.int64(), pa.string()), [[1, "a"]], [(1, "a")]),
    (pa.bool_(), False, False),
]


@pytest.mark.parametrize(("kind", "value", "expected"), JSON_TYPES)
def test_json_has_the_types_that_connect_writes_into_it(kind: pa.DataType, value: Any, expected: Any) -> None:
    [row] = read(json_object([{"a": value}]), "json", Columns(pa.schema([("a", kind)])))
    assert row["a"] == expected or (value == "NaN" and row["a"] != row["a"])


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        (TIME, 253_402_300_800_000, 253_402_300_800_000_000), (pa.timestamp("ms"), -99_999_999_999_999, -99_999_999_999_999),
        (pa.date32(), 2_932_897, 2_932_897),
    ],
)  # fmt: skip
def test_numbers_beyond_the_years_of_python_are_times_all_the_same(kind: pa.DataType, value: int, number: int) -> None:
    store, found = stored(json_object([{"a": value}]), "json")
    [batch] = record_batches(store, found, Columns(pa.schema([("a", kind)])), records=1, form=Bytes(b"\n", Lines()))
    assert batch.column("a").equals(pa.array([number], kind))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5), (pa.int64(), True), (pa.int64(), "1"), (pa.bool_(), 1), (pa.float64(), "1.5"), (TIME, "soon"),
        (pa.binary(), "%"), (pa.decimal128(4, 1), "x"), (pa.decimal128(4, 1), 1.25), (pa.list_(pa.int64()), 1), (pa.date32(), 1.5),
        (pa.struct([("x", pa.int64())]), [1]),
    ],
)  # fmt: skip
def test_json_of_another_type_is_refused_with_its_value(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(ObjectUnreadable, match=r"column a"):
        read(json_object([{"a": value}]), "json", Columns(pa.schema([("a", kind)])))


def test_decimals_of_json_are_exact() -> None:
    text = b'{"a":0.1234567890123456789,"b":0.5}\n'
    schema = pa.schema([("a", pa.decimal128(38, 19)), ("b", pa.float64())])
    assert read(text, "json", Columns(schema)) == [{"a": Decimal("0.1234567890123456789"), "b": 0.5}]


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_bytes_are_one_column(values: list[bytes]) -> None:
    content = b"".join(value.replace(b"\n", b"") + b"\n" for value in values)
    found = read(content, "bytearray", Columns(pa.schema([("value", pa.binary())])))
    assert [row["value"] for row in found] == [value.replace(b"\n", b"") for value in values]


def test_values_without_fields_are_one_column() -> None:
    for form, content in (("json", json_object(["x", None, "y"])),):
        assert object_schema(*stored(content, form)).names == ["value"]
        found = read(content, form, Columns(pa.schema([("value", pa.string())])))
        assert [row["value"] for row in found] == ["x", None, "y"]
    with pytest.raises(ObjectUnreadable, match="a record is not an object"):
        read(json_object([1]), "json", Columns(pa.schema([("a", pa.int64())])))
    out = io.BytesIO()
    fastavro.writer(out, "string", ["x", "y"])
    assert [row["value"] for row in read(out.getvalue(), "avro", Columns(pa.schema([("value", pa.string())])))] == [
        "x",
        "y",
    ]


def test_an_objects_columns_are_those_that_spark_has_types_for() -> None:
    fields = [
        {"name": "t", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 3}},
        {"name": "s", "type": "string"},
    ]
    content = avro_object([{"t": datetime(2024, 1, 1, 0, 0, 1).time(), "d": Decimal("1.500"), "s": "x"}], fields)  # noqa: DTZ001
    schema = object_schema(*stored(content, "avro"))
    assert schema == pa.schema([("t", pa.int32()), ("d", pa.decimal128(38, 3)), ("s", pa.string())])
    assert read(content, "avro", Columns(schema)) == [{"t": 1000, "d": Decimal("1.500"), "s": "x"}]


def test_large_text_comes_in_batches_of_bounded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 1000)
    content = json_object([{"a": "x" * 100} for _ in range(95)])
    sizes: Iterator[int] = (
        len(one)
        for one in record_batches(
            *stored(content, "json"), Columns(pa.schema([("a", pa.string())])), records=95, form=Bytes(b"", Lines())
        )
    )
    assert list(sizes) == [10] * 9 + [5]


def deep_fields(levels: int) -> list[dict[str, Any]]:
    kind: Any = "long"
    for level in range(levels):
        kind = {"type": "record", "name": f"L{level}", "fields": [{"name": "a", "type": kind}]}
    return [{"name": "a", "type": kind}]


@pytest.mark.parametrize("form", MAKERS)
def test_what_is_nested_deeper_than_spark_can_be_sent_is_json_text(form: str) -> None:
    row: Any = {"a": 1}
    for _ in range(70):
        row = {"a": row}
    content = avro_object([row], deep_fields(70)) if form == "avro" else MAKERS[form]([row])
    schema = object_schema(*stored(content, form))
    (batch,) = record_batches(*stored(content, form), Columns(schema), records=1, form=Bytes(b"\n", Lines()))
    with pa.ipc.new_stream(pa.BufferOutputStream(), batch.schema) as writer:
        writer.write_batch(batch)
    found = batch.to_pylist()[0]
    while isinstance(found, dict):
        found = found["a"]
    assert json.loads(found)["a"]
    assert found.count("a") == 70 - batches.MOST_LEVELS
