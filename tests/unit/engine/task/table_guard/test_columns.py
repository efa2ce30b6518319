"""Columns of Parquet files in Delta's and Iceberg's types, and which of two types holds both."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import Schema

from kafka_s3.engine.task.table_guard.columns import (
    PARQUET_ID,
    Mode,
    TableColumns,
    arrow_of,
    compare_columns,
    file_columns,
    iceberg_columns,
    promoted,
    read_columns,
)

ARROW = pa.schema([
    ("flag", pa.bool_()), ("small", pa.int32()), ("big", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("text", pa.string()),
    ("raw", pa.binary()), ("day", pa.date32()), ("at", pa.timestamp("ms", tz="UTC")), ("money", pa.decimal128(12, 2)),
    ("in", pa.struct([("x", pa.int64()), ("deep", pa.list_(pa.struct([("y", pa.string())])))])), ("tags", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


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


@pytest.mark.parametrize(
    ("table", "file", "both"),
    [
        ("integer", "long", "long"), ("float", "double", "double"), ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("integer", "double", None), ("decimal(10,2)", "decimal(12,4)", None),
    ],
)  # fmt: skip
def test_columns_of_iceberg_widen_by_its_own_rules(table: str, file: str, both: str | None) -> None:
    own, other = (
        TableColumns.of({"in": {"type": "struct", "fields": list(TableColumns.of({"c": one}).fields.values())}})
        for one in (table, file)
    )
    found = compare_columns(promoted(own), other)
    assert (list(found.wider), list(found.conflicts)) == ((["in.c"], []) if both else ([], ["in.c"]))


def test_columns_of_iceberg_have_the_files_numbers_and_no_times_of_day() -> None:
    numbered = pa.field(
        "in",
        pa.struct([pa.field("x", pa.int64(), metadata={PARQUET_ID: "8"}), ("t", pa.time32("ms"))]),
        metadata={PARQUET_ID: "7"},
    )
    found = iceberg_columns(
        pa.schema([numbered, ("t", pa.time32("ms")), ("list", pa.list_(pa.time32("ms"))), ("n", pa.int64())])
    )
    assert list(found.fields) == ["in", "n"]
    assert [text.partition(":")[0] for text in found.omitted] == ["in", "t", "list"]
    other = pa.field(
        "in", pa.struct([pa.field("x", pa.int64(), metadata={PARQUET_ID: "9"})]), metadata={PARQUET_ID: "7"}
    )
    clash = compare_columns(found, iceberg_columns(pa.schema([other])))
    assert clash.conflicts == {"in.x": "column in.x has another field id than the table's"}


def test_a_column_of_directories_and_one_whose_type_stays_are_conflicts() -> None:
    table = TableColumns.of({"day": "string", "n": "integer"})
    assert list(compare_columns(table.marked(["day", "unknown"]), TableColumns.of({"day": "string"})).conflicts) == [
        "day"
    ]
    wider = compare_columns(table.fixed(), TableColumns.of({"n": "long"}))
    assert (list(wider.conflicts), wider.columns.type_of("n")) == (["n"], "integer")
    assert list(compare_columns(table, TableColumns.of({"N": "integer"})).conflicts) == ["N"]


def test_keys_and_values_of_maps_are_compared_and_all_is_plain_without_marks() -> None:
    def of(value: str) -> TableColumns:
        map_ = {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": False}
        return TableColumns.of({"m": map_, "a": {"type": "array", "elementType": "long", "containsNull": False}})

    found = compare_columns(of("integer"), of("long"))
    assert list(found.wider) == ["m.value"]
    plain = promoted(of("long")).plain()
    assert [plain.fields[name]["metadata"] for name in ("m", "a")] == [{}, {}]
    assert (plain.fields["m"]["type"]["valueContainsNull"], plain.fields["a"]["type"]["containsNull"]) == (True, True)
