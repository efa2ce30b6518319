"""Which records does a table take, in which form, and what of them is rescued? Run by run, without a table being there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Nulls, Objects, Plain, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_table
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.task.table_guard.columns import (
    RESCUED,
    DeltaType,
    Evolution,
    Mode,
    TableColumns,
    delta_field,
)
from kafka_s3.engine.task.table_guard.record_filter import RecordFilter, without_null_members

LONG, TEXT = ConnectSchema(SchemaType.INT64, optional=True), ConnectSchema(SchemaType.STRING, optional=True)


def struct(**fields: ConnectSchema) -> ConnectSchema:
    return ConnectSchema(
        SchemaType.STRUCT, optional=True, fields=tuple(Field(name, one) for name, one in fields.items())
    )


def delta_struct(**types: DeltaType) -> DeltaType:
    return {"type": "struct", "fields": [delta_field(name, type_) for name, type_ in types.items()]}


def run_of(values: Any, schema: ConnectSchema | None) -> Run:
    rows = np.arange(len(values), dtype=np.int64)
    return Run(rows, rows, values, schema)


def inferred(*documents: dict[str, Any]) -> Run:
    """Documents with the columns that Arrow infers, as the JSON converter hands them on."""
    table = pa.Table.from_pylist(list(documents))
    return run_of(JsonText(pa.array([json.dumps(one) for one in documents]), table), None)


def columns(**types: DeltaType) -> TableColumns:
    return TableColumns.of(types)


def rows(run: Run) -> list[Any]:
    table = run.values.table  # type: ignore[attr-defined]
    return list(table.to_pylist())


def rescued(run: Run) -> list[Any]:
    return [None if one[RESCUED] is None else json.loads(one[RESCUED]) for one in rows(run)]


@pytest.mark.parametrize(
    "run",
    [
        run_of(Nulls(2), None), run_of(Objects([{"n": "x"}]), None), run_of(Plain(pa.array([1])), LONG),
    ],
    ids=["tombstones", "values without a schema or columns", "values that are no structs"],
)  # fmt: skip
@pytest.mark.parametrize("mode", Mode)
def test_what_has_no_columns_passes_as_it_is(run: Run, mode: Mode) -> None:
    passed, refused = RecordFilter(Evolution(mode), columns(n="long")).passed(run)
    assert passed is run
    assert refused == []


def test_of_a_producers_schema_all_records_are_refused_or_none_and_each_schema_is_compared_once() -> None:
    records = RecordFilter(Evolution(Mode.ADD), columns(n="long"))
    schema = struct(n=TEXT)
    run = run_of(StructColumns(arrow_table([{"n": "a"}, {"n": "b"}], schema)), schema)
    text = "The table cannot hold the value: column n is string, in the table long."
    assert records.passed(run) == (run, [(0, text), (1, text)])
    assert records.passed(run)[1] == [(0, text), (1, text)]
    assert RecordFilter(Evolution(Mode.ADD), None).passed(run) == (run, [])


def test_new_columns_pass_under_every_mode_but_wider_ones_only_where_tables_may_grow() -> None:
    schema = struct(n=LONG, more=TEXT)
    run = run_of(StructColumns(arrow_table([{"n": 1, "more": "x"}], schema)), schema)
    refusals = {
        mode: RecordFilter(Evolution(mode), columns(n="integer")).passed(run)[1]
        for mode in (Mode.ADD, Mode.FAIL, Mode.NONE)
    }
    wider = "The table cannot hold the value: column n is long, in the table integer."
    assert refusals == {Mode.ADD: [], Mode.FAIL: [], Mode.NONE: [(0, wider)]}


def test_a_table_whose_types_stay_takes_no_wider_one() -> None:
    schema = struct(n=LONG)
    run = run_of(StructColumns(arrow_table([{"n": 1}], schema)), schema)
    assert RecordFilter(Evolution(Mode.ADD), columns(n="integer").fixed()).passed(run)[1] != []


def test_members_that_a_table_lacks_are_rescued_below_their_column_and_others_stay() -> None:
    schema = struct(n=LONG, at=struct(x=LONG, y=TEXT), new=TEXT, whole=struct(z=LONG))
    values = [
        {"n": 1, "at": {"x": 2, "y": "far"}, "new": "a", "whole": {"z": 3}}, {"n": 4, "at": None, "new": None, "whole": None},
        {"n": None, "at": {"x": None, "y": None}, "new": None, "whole": {"z": None}},
    ]  # fmt: skip
    run = run_of(Objects(values), schema)
    table = columns(n="long", at=delta_struct(x="long"), whole=delta_struct(other="long"))
    passed, refused = RecordFilter(Evolution(Mode.RESCUE), table).passed(run)
    assert refused == []
    assert [(row["n"], row["at"]) for row in rows(passed)] == [(1, {"x": 2}), (4, None), (None, {"x": None})]
    assert rescued(passed) == [
        {"at": {"y": "far"}, "new": "a", "whole": {"z": 3}}, None, {"whole": {"z": None}},
    ]  # fmt: skip


def test_what_is_rescued_is_json_whatever_its_type() -> None:
    at = datetime(2024, 1, 15, 10, tzinfo=UTC)
    table = pa.table({
        "n": [1], "raw": pa.array([b"\xff"]), "day": pa.array([date(2024, 1, 15)]), "at": pa.array([at], pa.timestamp("ms", "UTC")),
        "money": pa.array([Decimal("1.50")]), "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "list": [[1, 2]], "in": [{"deep": [{"x": "y"}]}],
    })  # fmt: skip
    kinds = {
        "raw": ConnectSchema(SchemaType.BYTES, optional=True), "tags": ConnectSchema(SchemaType.MAP, optional=True, keys=TEXT, values=LONG),
        "list": ConnectSchema(SchemaType.ARRAY, optional=True, items=LONG),
        "in": struct(deep=ConnectSchema(SchemaType.ARRAY, optional=True, items=struct(x=TEXT))),
    }  # fmt: skip
    schema = struct(**{name: kinds.get(name, LONG) for name in table.column_names})
    passed, _ = RecordFilter(Evolution(Mode.RESCUE), columns(n="long")).passed(run_of(StructColumns(table), schema))
    assert rescued(passed) == [{
        "raw": "/w==", "day": "2024-01-15", "at": "2024-01-15T10:00:00+00:00", "money": "1.50", "tags": {"a": 1}, "list": [1, 2],
        "in": {"deep": [{"x": "y"}]},
    }]  # fmt: skip


def test_times_beyond_the_year_9999_are_rescued_as_numbers_and_the_rows_beside_them_as_ever() -> None:
    times = pa.array([253_402_300_800_000, 0], pa.timestamp("ms", "UTC"))
    days = pa.array([2_932_897, 0], pa.date32())
    table = pa.table({"n": [1, 2], "at": times, "days": pa.array([[one] for one in days], pa.list_(pa.date32()))})
    schema = struct(n=LONG, at=LONG, days=ConnectSchema(SchemaType.ARRAY, optional=True, items=LONG))
    passed, _ = RecordFilter(Evolution(Mode.RESCUE), columns(n="long")).passed(run_of(StructColumns(table), schema))
    assert rescued(passed) == [
        {"at": 253_402_300_800_000, "days": [2_932_897]}, {"at": "1970-01-01T00:00:00+00:00", "days": ["1970-01-01"]},
    ]  # fmt: skip


@pytest.mark.parametrize("ms", [0, 253_402_300_800_000, 2**63 - 1])
def test_a_record_keeps_the_time_of_its_metadata_beside_a_table_whatever_that_is(ms: int) -> None:
    kind = pa.struct([("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC"))])
    table = pa.table({"n": [1], "_kafka": pa.array([{"offset": 7, "timestamp": ms}], kind)})
    run = run_of(JsonText(pa.array([json.dumps({"n": 1})]), table), None)
    known = columns(n="long", _kafka=delta_struct(offset="long", timestamp="timestamp"))
    passed, refused = RecordFilter(Evolution(Mode.ADD), known).passed(run)
    assert not refused
    assert passed.values.table.column("_kafka").equals(table.column("_kafka"))  # type: ignore[attr-defined]


def test_a_producers_own_rescued_data_is_rescued_too_and_a_column_of_a_directory_with_it() -> None:
    schema = struct(**{RESCUED: TEXT, "day": TEXT, "n": LONG})
    run = run_of(StructColumns(arrow_table([{RESCUED: "mine", "day": "mon", "n": 1}], schema)), schema)
    table = columns(day="string", n="long").marked(["day"])
    passed, _ = RecordFilter(Evolution(Mode.RESCUE), table).passed(run)
    assert [row["n"] for row in rows(passed)] == [1]
    assert rescued(passed) == [{RESCUED: "mine", "day": "mon"}]


def test_what_delta_has_no_form_for_stays_in_the_file_alone() -> None:
    schema = struct(n=LONG, wide=LONG)
    values = StructColumns(pa.table({"n": [1], "wide": pa.array([Decimal(1)], pa.decimal256(40, 2))}))
    passed, _ = RecordFilter(Evolution(Mode.RESCUE), columns(n="long")).passed(run_of(values, schema))
    assert rows(passed) == [{"n": 1, "wide": Decimal(1), RESCUED: None}]


def test_a_directorys_field_that_does_not_fit_is_refused_where_all_else_is_rescued() -> None:
    schema = struct(city=LONG)
    run = run_of(StructColumns(arrow_table([{"city": 1}], schema)), schema)
    records = RecordFilter(Evolution(Mode.RESCUE, frozenset(["city"])), columns(city="string"))
    text = "The table cannot hold the value: column city is long, in the table string."
    assert records.passed(run) == (run, [(0, text)])


@pytest.mark.parametrize(
    ("type_", "value", "kept"),
    [
        ("boolean", True, True), ("integer", 7, 7), ("integer", 7.0, 7), ("double", 7, 7.0),
        ({"type": "array", "elementType": "long", "containsNull": True}, [1, None], [1, None]),
        (delta_struct(x="long"), {"x": 1, "y": None}, {"x": 1}),
    ],
)  # fmt: skip
def test_a_documents_value_takes_the_form_of_the_tables_column(type_: DeltaType, value: Any, kept: Any) -> None:
    passed, refused = RecordFilter(Evolution(Mode.NONE), columns(c=type_)).passed(made_text({"c": value}))
    assert refused == []
    assert rows(passed) == [{"c": kept}]


@pytest.mark.parametrize(
    ("type_", "value", "kind"),
    [
        ("boolean", 1, "a number"), ("integer", 2**31, "a number"), ("integer", 7.5, "a number"), ("double", True, "true or false"),
        ("long", "seven", "text"), ({"type": "array", "elementType": "long", "containsNull": True}, [1, "two"], "a list"),
        (delta_struct(x="long"), {"x": 1, "y": 2}, "an object"),
    ],
)  # fmt: skip
def test_a_documents_value_that_has_no_such_form_is_refused_and_under_rescue_kept_beside(
    type_: DeltaType, value: Any, kind: str
) -> None:
    run = made_text({"c": value})
    passed, ((row, text),) = RecordFilter(Evolution(Mode.NONE), columns(c=type_)).passed(run)
    assert (row, rows(passed)) == (0, [{"c": None}])
    assert text.startswith(f"The table cannot hold the value: column c is {kind}, in the table ")
    beside, refused = RecordFilter(Evolution(Mode.RESCUE), columns(c=type_)).passed(run)
    assert refused == []
    ((kept, rest),) = [(one["c"], json.loads(one[RESCUED])["c"]) for one in rows(beside)]
    assert (kept, rest) == (({"x": 1}, {"y": 2}) if isinstance(value, dict) else (None, value))


def test_documents_that_are_no_objects_are_the_column_value() -> None:
    run = inferred({"value": 1}, {"value": 2})
    texts = replace(run.values, texts=pa.array(["1", '"two"']), table=pa.table({"value": ["1", "two"]}))  # type: ignore[type-var]
    passed, refused = RecordFilter(Evolution(Mode.NONE), columns(value="long")).passed(replace(run, values=texts))
    assert [row["value"] for row in rows(passed)] == [1, None]
    assert [row for row, _ in refused] == [1]


def test_of_inferred_columns_whole_numbers_join_a_column_of_others_and_nulls_any() -> None:
    run = inferred({"price": 1, "late": None}, {"price": 2, "late": None})
    passed, refused = RecordFilter(Evolution(Mode.ADD), columns(price="double", late="string")).passed(run)
    assert (rows(passed), refused) == ([{"price": 1.0, "late": None}, {"price": 2.0, "late": None}], [])


def test_a_column_that_is_null_throughout_is_none_until_it_has_a_type() -> None:
    passed, refused = RecordFilter(Evolution(Mode.ADD), columns(n="long")).passed(
        inferred({"late": None}, {"late": None})
    )
    assert (rows(passed), refused) == ([{}, {}], [])


def test_a_directorys_column_and_a_type_of_other_writers_take_no_documents_value() -> None:
    table = columns(day="string", odd="interval", n="long").marked(["day"])
    passed, refused = RecordFilter(Evolution(Mode.NONE), table).passed(inferred({"n": 1, "day": "mon", "odd": 1}))
    assert rows(passed) == [{"n": 1}]
    assert [text for _, text in refused] == [
        "The table cannot hold the value: column odd is a number, in the table of another kind."
    ]


def test_without_a_table_every_column_of_documents_is_kept_and_nothing_is_rescued() -> None:
    passed, refused = RecordFilter(Evolution(Mode.RESCUE), None).passed(inferred({"n": 1}, {"n": 2}))
    assert (rows(passed), refused) == ([{"n": 1, RESCUED: None}, {"n": 2, RESCUED: None}], [])


def test_a_type_without_members_is_text_and_members_of_nothing_are_left_out() -> None:
    kinds = pa.schema([
        ("empty", pa.struct([])), ("nothing", pa.struct([("x", pa.null())])), ("some", pa.struct([("x", pa.null()), ("y", pa.int64())])),
        ("list", pa.list_(pa.null())), ("lists", pa.list_(pa.struct([("x", pa.null())]))), ("null", pa.null()),
    ])  # fmt: skip
    assert {one.name: without_null_members(one.type) for one in kinds} == {
        "empty": pa.string(), "nothing": pa.string(), "some": pa.struct([("y", pa.int64())]), "list": pa.list_(pa.string()),
        "lists": pa.list_(pa.string()), "null": pa.null(),
    }  # fmt: skip


def made_text(document: dict[str, Any]) -> Run:
    """A document whose columns were inferred as text: another one of its batch has a text there."""
    texts = pa.table({name: pa.array([json.dumps(value)]) for name, value in document.items()})
    return run_of(JsonText(pa.array([json.dumps(document)]), texts), None)
