"""Which Arrow type and values does a Connect schema give? The Parquet mapping of SEMANTICS A8.3."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import scale_of

DECIMAL_PRECISION = 64
SIMPLE = {
    SchemaType.INT8: pa.int32(), SchemaType.INT16: pa.int32(), SchemaType.INT32: pa.int32(), SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(), SchemaType.FLOAT64: pa.float64(), SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(), SchemaType.BYTES: pa.binary(),
}  # fmt: skip
LOGICAL = {TIMESTAMP: pa.timestamp("ms", tz="UTC"), DATE: pa.date32(), TIME: pa.time32("ms")}


def arrow_type(schema: ConnectSchema) -> pa.DataType:
    """The Arrow type of a Connect schema."""
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    if schema.name == DECIMAL:
        precision, scale = precision_of(schema), scale_of(schema)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    match schema.kind:
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
    """Structs as a table. Raises SchemaError where the schema is no struct, or a number is beyond its column."""
    if schema.kind is not SchemaType.STRUCT:
        raise SchemaError(f"Parquet needs structs; the value's schema is {schema.kind}.")
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
    plain = [_without_times(field.type) for field in table.schema]
    if plain != table.schema.types:
        names = table.column_names
        table = pa.table([column.cast(kind) for column, kind in zip(table.columns, plain, strict=True)], names=names)
    rows: list[Any] = table.to_pylist()
    return rows


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_times(kind.key_type), kind.item_field.with_type(_without_times(kind.item_type)))
    return kind
