"""Which Arrow columns do values get? Those of their Connect schema (the Parquet mapping of SEMANTICS A8.3), or, without one, of the values.

Inference is our extension; the original refuses schemaless values for Parquet. The rule, per file: a field's type is the narrowest that
holds all its values. Integers beside fractions become double; any other conflict (a number beside a string, an object beside a list)
makes the field a string that holds each value's JSON text. A field that is null or absent in every record, and an empty object, has no
type and becomes a string column of nulls or `{}`; records without any field give the one column `value` with `{}`. Text stays text, also
where it looks like a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Recursion,
    SchemaError,
    SchemaType,
)
from kafka_s3.connect.schemas.json_form import scale_of


def infer_table(items: list[Any]) -> pa.Table:
    """A table of the top-level fields of Python values; a value that is not an object gives one field `value`."""
    rows = [item if isinstance(item, dict) else {"value": item} for item in items]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: infer_array([row.get(name) for row in rows]) for name in names}
    return pa.table(columns) if columns else pa.Table.from_struct_array(pa.array(rows, pa.struct([])))


def infer_array(items: list[Any]) -> pa.Array:
    """An array of the narrowest type that holds all values; what is null or empty in all of them has Arrow's type of that, within, too."""
    try:
        return pa.array(items)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([as_text(item) for item in items], pa.string())


def plain_strings(schema: pa.Schema) -> pa.Schema:
    """The schema with each time that Arrow's JSON reader saw in text put back to text."""
    texts = partial(map_leaves, leaf=lambda leaf: pa.string() if pa.types.is_temporal(leaf) else leaf)
    return pa.schema([pa.field(field.name, texts(field.type)) for field in schema])


def unify(tables: list[pa.Table]) -> pa.Table:
    """One table of all rows, in order, whose columns have the types that hold the values of all the tables."""
    schema = pa.schema([])
    for table in tables:
        known = {field.name: field.type for field in schema}
        for field in table.schema:
            known[field.name] = wider(known.get(field.name, pa.null()), field.type)
        schema = pa.schema(list(known.items()))
    if not len(schema):
        return pa.table({"value": ["{}"] * sum(table.num_rows for table in tables)})
    schema = pa.schema([pa.field(field.name, final_type(field.type)) for field in schema])
    return pa.concat_tables([conform(table, schema) for table in tables])


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The narrowest type that holds both; string where nothing narrower does."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields = {field.name: field.type for field in left}
        for field in right:
            fields[field.name] = wider(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(wider(left.value_type, right.value_type))
    return pa.string()


def final_type(kind: pa.DataType) -> pa.DataType:
    """The type with string in place of what has no type: null and empty objects."""
    return map_leaves(kind, lambda leaf: pa.string() if pa.types.is_null(leaf) or pa.types.is_struct(leaf) else leaf)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the columns of the schema."""
    if table.schema == schema:
        return table
    columns = [
        _converted(table.column(field.name).combine_chunks(), field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def as_text(value: Any) -> str | None:
    """A value as a string column holds it: text as it is, anything else as JSON."""
    return (
        value
        if value is None or isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_null(array.type) or {array.type, kind} == {pa.int64(), pa.float64()}:
        return array.cast(kind, safe=False)
    items = array.to_pylist()
    return pa.array([_shaped(item, kind) for item in items], kind)


def _shaped(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _shaped(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_shaped(item, kind.value_type) for item in value]
    return as_text(value) if pa.types.is_string(kind) else value


def map_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with other types for what holds no others: empty structs are among these."""
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([field.with_type(map_leaves(field.type, leaf)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(map_leaves(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        return pa.map_(map_leaves(kind.key_type, leaf), kind.item_field.with_type(map_leaves(kind.item_type, leaf)))
    return leaf(kind)


DECIMAL_PRECISION = 64
SIMPLE = {
    SchemaType.INT8: pa.int32(), SchemaType.INT16: pa.int32(), SchemaType.INT32: pa.int32(), SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(), SchemaType.FLOAT64: pa.float64(), SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(), SchemaType.BYTES: pa.binary(),
}  # fmt: skip
LOGICAL = {TIMESTAMP: pa.timestamp("ms", tz="UTC"), DATE: pa.date32(), TIME: pa.time32("ms")}


def arrow_type(schema: ConnectSchema) -> pa.DataType:
    """Return the Arrow type of a Connect schema. Raises SchemaError for a type that contains itself."""
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    if schema.name == DECIMAL:
        precision, scale = precision_of(schema), scale_of(schema)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    match schema.kind:
        case SchemaType.STRUCT if isinstance(schema.fields, Recursion):
            raise SchemaError(f"The type {schema.label()} contains itself, so it has no columns.")
        case SchemaType.STRUCT:
            return pa.struct([arrow_field(field.name, field.schema) for field in schema.fields])
        case SchemaType.ARRAY:
            assert schema.items is not None
            return pa.list_(arrow_field("element", schema.items))
        case SchemaType.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            return pa.map_(arrow_field("key", schema.keys).type, arrow_field("value", schema.values))
        case _:
            return SIMPLE[schema.kind]


def precision_of(schema: ConnectSchema) -> int:
    """The digits of a Decimal schema (SEMANTICS A8.3). Raises ValueError where the parameter is no number."""
    return int(dict(schema.parameters).get("connect.decimal.precision", DECIMAL_PRECISION))


def arrow_field(name: str, schema: ConnectSchema) -> pa.Field:
    """A column of that name; nullable where the schema is optional."""
    return pa.field(name, arrow_type(schema), nullable=schema.optional)


def arrow_table(items: list[Any], schema: ConnectSchema) -> pa.Table:
    """Structs as a table. Raises SchemaError where the schema is not a struct, or a number is beyond its column."""
    if schema.kind is not SchemaType.STRUCT:
        raise SchemaError(f"Parquet needs structs; the value's schema is {schema.kind}.")
    if not schema.fields:  # from no arrays a table would have no rows
        rows = pa.array([{}] * len(items), pa.struct([]))
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
    columns = []
    for field in schema.fields:
        kind = arrow_type(field.schema)
        try:
            columns.append(pa.array([item.get(field.name) for item in items], kind))
        except OverflowError as error:
            raise SchemaError(f"{field.name}: {error}.") from error
    fields = [arrow_field(field.name, field.schema) for field in schema.fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def python_rows(table: pa.Table) -> list[Any]:
    """The rows of a table as Python values: dicts, pairs for maps, numbers for dates and times."""
    plain = [map_leaves(field.type, _number_type) for field in table.schema]
    if plain != table.schema.types:
        names = table.column_names
        table = pa.table([column.cast(kind) for column, kind in zip(table.columns, plain, strict=True)], names=names)
    rows: list[Any] = table.to_pylist()
    return rows


def python_values(array: pa.Array) -> list[Any]:
    """Return the values as Python values; a value with a date or time beyond the years 1 to 9999 has numbers for its dates and times."""
    try:
        values: list[Any] = array.to_pylist()
    except OverflowError:
        numbers = array.cast(map_leaves(array.type, _number_type))
        return [_python_value(value, number) for value, number in zip(array, numbers, strict=True)]
    return values


def _python_value(value: pa.Scalar, number: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except OverflowError:
        return number.as_py()


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else kind
