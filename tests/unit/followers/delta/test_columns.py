"""Columns of Parquet files in Delta's types, which of two types holds both, and statistics from footers."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema

from kafka_s3.engine.task.table_guard.columns import (
    Mode,
    TableColumns,
    arrow_of,
    compare_columns,
    file_columns,
    read_columns,
)
from kafka_s3.followers.delta.planner import TAIL_BYTES, read_footer
from kafka_s3.model.errors import StorageError
from kafka_s3.store.memory import MemoryStore

ARROW = pa.schema([
    ("flag", pa.bool_()), ("small", pa.int32()), ("big", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("text", pa.string()),
    ("raw", pa.binary()), ("day", pa.date32()), ("at", pa.timestamp("ms", tz="UTC")), ("money", pa.decimal128(12, 2)),
    ("in", pa.struct([("x", pa.int64()), ("deep", pa.list_(pa.struct([("y", pa.string())])))])), ("tags", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


def store_of(table: pa.Table, **options: Any) -> tuple[MemoryStore, int]:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, store_schema=False, **options)
    store = MemoryStore()
    store.put("key", buffer.getvalue())
    return store, len(buffer.getvalue())


def stats(table: pa.Table, **options: Any) -> dict[str, Any]:
    store, size = store_of(table, **options)
    found: dict[str, Any] = json.loads(read_footer(store, "key", size).stats())
    return found


def test_every_type_of_ours_has_its_form_in_delta_and_comes_back() -> None:
    columns = file_columns(ARROW)
    assert columns.omitted == ()
    assert Schema.from_json(columns.schema_string()).to_arrow() is not None  # delta-rs reads it
    assert read_columns(columns.schema_string()) == columns
    for name, one in columns.fields.items():
        if name != "at":  # Delta has no milliseconds
            assert arrow_of(one["type"]) == ARROW.field(name).type


def test_what_delta_has_no_form_for_is_named_and_left_out() -> None:
    columns = file_columns(
        pa.schema([
            ("ok", pa.int64()), ("wide", pa.decimal256(64, 2)), ("two words", pa.int64()), ("OK", pa.int64()),
            ("in", pa.struct([("wide", pa.decimal256(40, 2))])), ("list", pa.list_(pa.decimal256(40, 2))),
        ])
    )  # fmt: skip
    assert list(columns.fields) == ["ok"]
    assert [text.partition(":")[0] for text in columns.omitted] == [
        "wide", "'two words'", "OK", "in.wide", "list.element",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "file", "both"),
    [
        ("integer", "long", "long"), ("long", "integer", "long"), ("float", "double", "double"), ("integer", "double", "double"),
        ("decimal(10,2)", "decimal(8,4)", "decimal(12,4)"),
        ("long", "double", None), ("double", "long", None), ("string", "long", None), ("decimal(38,2)", "decimal(38,4)", None),
        ("date", "timestamp", None), ({"type": "array", "elementType": "long", "containsNull": True}, "string", None),
    ],
)  # fmt: skip
def test_a_type_that_holds_both_or_a_conflict(table: Any, file: Any, both: str | None) -> None:
    found = compare_columns(TableColumns.of({"c": table}), TableColumns.of({"c": file}))
    assert found.columns.type_of("c") == (both or table)
    assert list(found.conflicts) == ([] if both else ["c"])
    assert list(found.wider) == (["c"] if both not in (None, table) else [])


def test_nested_differences_are_named_by_their_path() -> None:
    before = file_columns(pa.schema([("a", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])))]))
    after = file_columns(
        pa.schema([("a", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64()), ("z", pa.bool_())])))])
    )
    found = compare_columns(before, after)
    assert (list(found.wider), list(found.conflicts), list(found.new)) == (
        ["a.element.x"],
        ["a.element.y"],
        ["a.element.z"],
    )
    assert found.refusals(Mode.ADD) == ["column a.element.y is long, in the table string"]
    assert len(found.refusals(Mode.NONE)) == 2
    assert len(found.refusals(Mode.FAIL)) == 3


def test_statistics_come_from_all_row_groups_of_the_footer() -> None:
    table = pa.table(
        {
            "n": pa.array([3, None, 1, 2]), "day": [date(2024, 1, day) for day in (4, 2, 3, 1)], "none": pa.array([None] * 4, pa.int64()),
            "in": [{"x": n} for n in (5, 6, None, 4)], "list": [[1]] * 4, "money": pa.array([Decimal("1.25")] * 4),
        }
    )  # fmt: skip
    assert stats(table, row_group_size=2) == {
        "numRecords": 4,
        "minValues": {"n": 1, "day": "2024-01-01", "in": {"x": 4}},
        "maxValues": {"n": 3, "day": "2024-01-04", "in": {"x": 6}},
        "nullCount": {"n": 1, "day": 0, "none": 4, "in": {"x": 1}, "money": 0},
    }


def test_bounds_never_exclude_a_value_that_is_there() -> None:
    at = datetime(2024, 1, 1, 12, 0, 0, 1500, tzinfo=UTC)
    table = pa.table(
        {
            "long": ["a" * 40, "z" * 40], "top": ["b", "c" * 32 + "\U0010ffff"], "f": [1.0, float("nan")],
            "at": pa.array([at, at], pa.timestamp("us", tz="UTC")),
        }
    )  # fmt: skip
    found = stats(table)
    assert found["minValues"] == {"long": "a" * 32, "top": "b", "f": 1.0, "at": "2024-01-01T12:00:00.001Z"}
    assert found["maxValues"] == {"long": "z" * 32 + "\U0010ffff", "at": "2024-01-01T12:00:00.002Z"}


def test_only_the_first_columns_have_statistics_as_with_deltas_own_writers() -> None:
    found = stats(pa.table({f"c{n:02}": [n] for n in range(40)}))
    assert len(found["nullCount"]) == 32


def test_a_footer_larger_than_the_first_request_is_read_whole() -> None:
    store, size = store_of(pa.table({f"a column with a long name {n}": [n] for n in range(1500)}))
    footer = read_footer(store, "key", size)
    assert size > TAIL_BYTES
    assert footer.records == 1
    assert len(footer.schema) == 1500


def test_an_object_that_is_no_parquet_is_refused_by_name() -> None:
    store = MemoryStore()
    store.put("key", b"nothing of the kind")
    with pytest.raises(StorageError, match="Object key is no Parquet file"):
        read_footer(store, "key", 19)
