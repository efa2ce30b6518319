"""Schema compatibility: the decisions of SEMANTICS A6, projection of values and of columns, and schemas that hold those of two."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.schemas.arrow import arrow_field, arrow_table, python_rows
from kafka_s3.connect.schemas.compatibility import (
    Compatibility,
    SchemaDecision,
    project_table,
    projection,
    schema_decision,
    unified,
)
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIMESTAMP, ConnectSchema, Field, SchemaError, SchemaType

NONE, BACKWARD, FORWARD, FULL = Compatibility
WRITE, ROLL, PROJECT, REJECT = SchemaDecision
ENUM = "io.confluent.connect.avro.Enum"


def project(value: Any, record: ConnectSchema, file: ConnectSchema) -> Any:
    return projection(record, file)(value)


def of(kind: SchemaType, **more: Any) -> ConnectSchema:
    return ConnectSchema(kind, **more)


INT, LONG, STRING = of(SchemaType.INT32), of(SchemaType.INT64), of(SchemaType.STRING)


def record(
    version: int | None = 1, /, *, schema: dict[str, Any] | None = None, **fields: ConnectSchema
) -> ConnectSchema:
    members = tuple(Field(name, field) for name, field in fields.items())
    return ConnectSchema(SchemaType.STRUCT, version=version, fields=members, **({"name": "record"} | (schema or {})))


def enum(*names: str) -> ConnectSchema:
    return of(SchemaType.STRING, name="color", parameters=((ENUM, "color"), *((f"{ENUM}.{n}", n) for n in names)))


V1 = record(1, int=INT, long=LONG)
V2 = record(2, int=INT, long=LONG, string=of(SchemaType.STRING, default='"abc"'))
V2_OPTIONAL = record(2, int=INT, long=LONG, extra=of(SchemaType.STRING, optional=True))
V2_REQUIRED = record(2, int=INT, long=LONG, extra=STRING)


@pytest.mark.parametrize("mode", Compatibility)
def test_records_without_schema_share_a_file_but_not_with_those_that_have_one(mode: Compatibility) -> None:
    assert schema_decision(None, None, mode) is WRITE
    assert schema_decision(V1, None, mode) is REJECT
    assert schema_decision(None, V1, mode) is REJECT


@pytest.mark.parametrize("mode", Compatibility)
def test_an_equal_schema_is_written_with_and_without_version(mode: Compatibility) -> None:
    assert schema_decision(V1, record(1, int=INT, long=LONG), mode) is WRITE
    assert schema_decision(V1.unversioned(), V1.unversioned(), mode) is WRITE


def test_a_schema_without_version_is_rejected_unless_nothing_is_compared() -> None:
    for pair in ((V1.unversioned(), V1), (V1, V1.unversioned()), (V1.unversioned(), V2.unversioned())):
        assert schema_decision(*pair, NONE) is ROLL
        assert {schema_decision(*pair, mode) for mode in (BACKWARD, FORWARD, FULL)} == {REJECT}


@pytest.mark.parametrize(
    ("file", "value", "none", "backward", "forward"),
    [
        (V1, V2, ROLL, ROLL, PROJECT),
        (V2, V1, ROLL, PROJECT, ROLL),
        (V1, V2_OPTIONAL, ROLL, ROLL, PROJECT),
        (V2_OPTIONAL, V1, ROLL, PROJECT, ROLL),
        (V2_REQUIRED, V1, ROLL, ROLL, ROLL),  # a required field without default is missing
        (V1, V2_REQUIRED, ROLL, ROLL, PROJECT),
        (V1, replace(V1, doc="a comment"), ROLL, PROJECT, PROJECT),
        (V1, replace(V1, name="other"), ROLL, ROLL, ROLL),
        (V1, replace(V1, optional=True), ROLL, ROLL, ROLL),
        (replace(V1, optional=True), V1, ROLL, PROJECT, PROJECT),
        (V1, replace(V1, parameters=(("x", "y"),)), ROLL, ROLL, ROLL),
        (
            V1,
            replace(V1, parameters=(("connect.record.doc", "d"), ("io.confluent.connect.avro.field.doc.int", "z"))),
            ROLL,
            PROJECT,
            PROJECT,
        ),
        (V1, record(1, int=STRING, long=LONG), ROLL, ROLL, ROLL),
        (record(2, int=LONG, long=LONG), V1, ROLL, PROJECT, ROLL),
        (V1, record(2, int=LONG, long=LONG), ROLL, ROLL, ROLL),  # numbers only ever widen
        (of(SchemaType.STRING, name="record", version=1), V1, ROLL, ROLL, ROLL),
        (record(1, color=enum("RED", "BLUE")), record(1, color=enum("RED")), ROLL, PROJECT, PROJECT),
        (record(1, color=enum("RED")), record(1, color=enum("RED", "BLUE")), ROLL, ROLL, ROLL),
        (
            of(SchemaType.ARRAY, version=1, items=LONG), of(SchemaType.ARRAY, version=1, items=INT), ROLL, PROJECT, PROJECT,
        ),
        (of(SchemaType.ARRAY, version=1, items=INT), of(SchemaType.ARRAY, version=1, items=STRING), ROLL, ROLL, ROLL),
        (
            of(SchemaType.MAP, version=1, keys=STRING, values=V1), of(SchemaType.MAP, version=1, keys=STRING, values=replace(V1, name="x")),
            ROLL, ROLL, ROLL,
        ),
        (of(SchemaType.MAP, version=1, keys=INT, values=INT), of(SchemaType.MAP, version=1, keys=LONG, values=INT), ROLL, ROLL, ROLL),
        (record(1, inner=V2_REQUIRED), record(1, inner=V1), ROLL, ROLL, ROLL),
        (record(1, inner=record(1, deep=INT)), record(1, inner=record(1, deep=replace(INT, optional=True))), ROLL, ROLL, ROLL),
    ],
)  # fmt: skip
def test_a_change_of_schema_rolls_the_file_or_projects_the_record(
    file: ConnectSchema, value: ConnectSchema, none: SchemaDecision, backward: SchemaDecision, forward: SchemaDecision
) -> None:
    assert schema_decision(value, file, NONE) is none
    assert schema_decision(value, file, BACKWARD) is backward
    assert schema_decision(value, file, FULL) is backward
    assert schema_decision(value, file, FORWARD) is forward


def test_an_unknown_compatibility_acts_as_none() -> None:
    assert [Compatibility.named(text) for text in ("FULL", "backward", "FULL_TRANSITIVE")] == [FULL, NONE, NONE]


def test_projection_widens_numbers_fills_in_what_is_missing_and_drops_the_rest() -> None:
    old = record(1, n=INT, gone=STRING, nulled=of(SchemaType.STRING, optional=True))
    new = record(
        2,
        added=of(SchemaType.STRING, default='"abc"'),
        n=of(SchemaType.FLOAT64),
        absent=replace(STRING, optional=True),
        nulled=of(SchemaType.STRING, default='"filled"'),
    )
    found = project({"n": 7, "gone": "x", "nulled": None}, old, new)
    assert found == {"added": "abc", "n": 7.0, "absent": None, "nulled": "filled"}
    assert list(found) == ["added", "n", "absent", "nulled"]
    assert isinstance(found["n"], float)


def test_projection_reaches_into_lists_maps_and_structs() -> None:
    inner, wide = record(1, n=INT), record(1, n=LONG, s=of(SchemaType.STRING, optional=True))
    old = record(1, list=of(SchemaType.ARRAY, items=inner), map=of(SchemaType.MAP, keys=STRING, values=inner))
    new = record(
        2,
        list=of(SchemaType.ARRAY, items=wide),
        map=of(SchemaType.MAP, keys=STRING, values=replace(wide, optional=True)),
    )
    found = project({"list": [{"n": 1}], "map": [("k", {"n": 2})]}, old, new)
    assert found == {"list": [{"n": 1, "s": None}], "map": [("k", {"n": 2, "s": None})]}


def test_an_integer_becomes_the_nearest_float_of_java() -> None:
    assert project(16777217, INT, of(SchemaType.FLOAT32)) == 16777216.0


def test_what_cannot_be_projected_is_an_error_that_names_the_place() -> None:
    with pytest.raises(SchemaError, match=r"value\.extra: it is missing, but is required without a default"):
        project({"int": 1, "long": 2}, V1, V2_REQUIRED)
    with pytest.raises(SchemaError, match=r"value\.int: int64 cannot become int32"):
        project({"int": 1, "long": 2}, record(1, int=LONG, long=LONG), V1)
    with pytest.raises(SchemaError, match=r"value\.long is null"):
        project({"int": 1, "long": None}, V1, replace(V1, version=2))


def table(items: list[Any], schema: ConnectSchema) -> pa.Table:
    return arrow_table(items, schema)


def test_columns_are_projected_by_casts_and_added_columns() -> None:
    inner = record(1, n=INT, drop=STRING)
    wide = record(
        1, m=of(SchemaType.STRING, default='"d"'), n=LONG, when=of(SchemaType.INT64, name=TIMESTAMP, optional=True)
    )
    old = record(1, a=of(SchemaType.INT8), inner=replace(inner, optional=True), tags=of(SchemaType.ARRAY, items=STRING))
    new = record(
        2,
        inner=replace(wide, optional=True),
        a=of(SchemaType.FLOAT32),
        day=of(SchemaType.INT32, name=DATE, default="3"),
        price=of(SchemaType.BYTES, name=DECIMAL, parameters=(("scale", "2"),), default='"MDk="'),
        tags=of(SchemaType.ARRAY, items=STRING),
    )
    rows = [{"a": 1, "inner": {"n": 5, "drop": "x"}, "tags": ["t"]}, {"a": 2, "inner": None, "tags": []}]
    found = project_table(table(rows, old), old, new)
    assert found is not None
    assert found.schema == pa.schema([arrow_field(field.name, field.schema) for field in new.fields])
    assert python_rows(found) == [project(row, old, new) for row in rows]
    assert found.column("price").to_pylist() == [Decimal("123.45")] * 2
    sliced = project_table(table(rows, old).slice(1), old, new)
    assert sliced is not None
    assert python_rows(sliced) == [project(rows[1], old, new)]


def test_columns_that_need_a_look_at_each_value_are_left_to_the_slow_path() -> None:
    old, new = record(1, n=replace(INT, optional=True)), record(2, n=replace(INT, default="5"))
    assert project_table(table([{"n": None}], old), old, new) is None
    assert project_table(table([{"n": 1}], old), old, new) is not None
    lists = record(1, n=of(SchemaType.ARRAY, items=INT)), record(2, n=of(SchemaType.ARRAY, items=LONG))
    assert project_table(table([{"n": [1]}], lists[0]), *lists) is None
    assert project_table(table([{"int": 1, "long": 1}], V1), V1, V2_REQUIRED) is None


def test_a_unified_schema_has_the_fields_of_both() -> None:
    left = record(3, a=INT, b=STRING, c=of(SchemaType.STRING, default='"x"'))
    right = record(5, d=STRING, a=LONG, e=of(SchemaType.INT32, default="1"))
    assert unified(left, right) == record(
        5, a=LONG, b=replace(STRING, optional=True), c=of(SchemaType.STRING, default='"x"'),
        d=replace(STRING, optional=True), e=of(SchemaType.INT32, default="1"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (record(1, a=INT), record(2, a=STRING)),
        (record(1, a=INT), replace(record(2, a=INT), name="other")),
        (record(1, a=LONG), record(2, a=of(SchemaType.FLOAT64))),  # a double cannot hold every long
        (record(1, a=of(SchemaType.INT64, name="id")), record(2, a=of(SchemaType.INT32, name="id"))),
        (record(1, a=of(SchemaType.INT64, name=TIMESTAMP)), record(2, a=LONG)),
        (
            record(1, a=replace(INT, parameters=(("unit", "m"),))),
            record(2, a=replace(INT, parameters=(("unit", "s"),))),
        ),
        (record(1, a=of(SchemaType.ARRAY, items=INT)), record(2, a=of(SchemaType.ARRAY, items=STRING))),
        (record(1, a=of(SchemaType.ARRAY, items=INT)), record(2, a=of(SchemaType.MAP, keys=STRING, values=INT))),
    ],
)
def test_schemas_in_conflict_have_no_unified_one(left: ConnectSchema, right: ConnectSchema) -> None:
    assert unified(left, right) is None
    assert unified(right, left) is None


def test_integers_and_floats_meet_in_the_type_that_holds_both_exactly() -> None:
    short, integer, single, double = (
        of(kind) for kind in (SchemaType.INT16, SchemaType.INT32, SchemaType.FLOAT32, SchemaType.FLOAT64)
    )
    assert unified(short, single) == single
    assert unified(integer, single) == double
    assert unified(double, integer) == double


def test_enums_are_unified_to_all_their_symbols_in_the_order_of_the_first() -> None:
    assert unified(enum("RED", "GREEN"), enum("BLUE", "RED")) == enum("RED", "GREEN", "BLUE")


def test_a_default_that_only_one_schema_has_makes_the_field_optional_so_that_a_third_one_finds_its_records() -> None:
    without, with_default, required = record(1), record(2, x=replace(INT, default="1")), record(3, x=INT)
    first = unified(without, with_default)
    assert first is not None
    last = unified(first, required)
    assert last == record(3, x=replace(INT, optional=True))
    assert project({}, without, last) == {"x": None}
    assert project({"x": 4}, with_default, last) == {"x": 4}


SCALARS = {
    SchemaType.INT8: st.integers(-128, 127),
    SchemaType.INT16: st.integers(-(2**15), 2**15 - 1),
    SchemaType.INT32: st.integers(-(2**31), 2**31 - 1),
    SchemaType.INT64: st.integers(-(2**63), 2**63 - 1),
    SchemaType.FLOAT32: st.floats(width=32, allow_nan=False),
    SchemaType.FLOAT64: st.floats(allow_nan=False),
    SchemaType.BOOLEAN: st.booleans(),
    SchemaType.STRING: st.text(max_size=3),
    SchemaType.BYTES: st.binary(max_size=3),
}


def structs(inner: st.SearchStrategy[ConnectSchema]) -> st.SearchStrategy[ConnectSchema]:
    fields = st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3)
    optional = st.booleans()
    return st.tuples(fields, optional).map(lambda pair: replace(record(1, **pair[0]), optional=pair[1]))


DEFAULTED = st.tuples(
    st.sampled_from([SchemaType.INT8, SchemaType.INT32, SchemaType.FLOAT64]), st.sampled_from(["1", "2"]), st.booleans()
)
SCALAR = st.tuples(st.sampled_from(list(SCALARS)), st.booleans()).map(lambda pair: of(pair[0], optional=pair[1]))
LEAVES = SCALAR | DEFAULTED.map(lambda found: of(found[0], default=found[1], optional=found[2]))
INNER = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        structs(inner),
        SCALAR.map(lambda item: of(SchemaType.ARRAY, items=item)),
        SCALAR.map(lambda value: of(SchemaType.MAP, keys=STRING, values=value)),
    ),
    max_leaves=4,
)
ROWS = st.dictionaries(st.sampled_from("abcd"), INNER, min_size=1, max_size=4).map(lambda found: record(1, **found))


def values(schema: ConnectSchema) -> st.SearchStrategy[Any]:
    match schema.kind:
        case SchemaType.STRUCT:
            found: st.SearchStrategy[Any] = st.fixed_dictionaries({f.name: values(f.schema) for f in schema.fields})
        case SchemaType.ARRAY:
            assert schema.items is not None
            found = st.lists(values(schema.items), max_size=2)
        case SchemaType.MAP:
            assert schema.values is not None
            found = st.lists(
                st.tuples(st.text(max_size=2), values(schema.values)), max_size=2, unique_by=lambda p: p[0]
            )
        case _:
            found = SCALARS[schema.kind]
    return st.none() | found if schema.optional else found


def survives(value: Any, after: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(after, dict) and all(survives(member, after[name]) for name, member in value.items())
    return bool(value == after)


@given(st.data())
def test_values_of_both_sides_survive_in_the_unified_schema(data: st.DataObject) -> None:
    left, right = data.draw(ROWS), data.draw(ROWS)
    wide = unified(left, right)
    if wide is None:
        assert unified(right, left) is None
        return
    for side in (left, right):
        value = data.draw(values(side))
        after = project(value, side, wide)
        assert survives(value, after)
        again = unified(wide, side)
        assert again == wide
        columns = project_table(arrow_table([value], side), side, wide)
        if columns is not None:
            assert python_rows(columns) == python_rows(arrow_table([after], wide))


@given(st.data())
def test_values_of_the_first_schema_survive_a_third(data: st.DataObject) -> None:
    first, second, third = data.draw(ROWS), data.draw(ROWS), data.draw(ROWS)
    wide = unified(first, second)
    widest = unified(wide, third) if wide is not None else None
    if widest is not None:
        value = data.draw(values(first))
        assert survives(value, project(value, first, widest))
