"""How is kept what has no column? Mode `rescue`: as JSON in the column `_rescued_data` of the same record, at the source.

Every record has that column, null where all of it has its place. Of a struct the members that the table knows stay, the others are rescued
below their parent's name: `{"at": {"y": "later"}}`. In lists and maps nothing is taken apart: where one differs, it is rescued whole.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.task.table_guard.columns import RESCUED, TableColumns, delta_type, is_name
from kafka_s3.engine.task.table_guard.fitting import fit

Kept: TypeAlias = tuple[pa.Array, ConnectSchema]
FIELD: Final = Field(RESCUED, ConnectSchema(SchemaType.STRING, optional=True))


def rescued_values(
    table: pa.Table, schema: ConnectSchema, known: TableColumns | None
) -> tuple[pa.Table, ConnectSchema]:
    """The rows in the columns of the table, and `_rescued_data`. Without a table yet, everything has its column."""
    kept: dict[str, pa.Array] = {}
    fields: list[Field] = []
    rest: dict[str, Sequence[Any]] = {}
    for one in schema.fields:
        column = table.column(one.name).combine_chunks()
        if one.name == RESCUED:  # the producer's own: ours takes its place
            rest[RESCUED] = column.to_pylist()
            continue
        own, left = _split(one.name, column, one.schema, known) if known is not None else ((column, one.schema), None)
        if own is not None:
            kept[one.name] = own[0]
            fields.append(Field(one.name, own[1]))
        if left is not None:
            rest[one.name] = left
    kept[RESCUED] = pa.array(rescued_text(rest, table.num_rows), pa.string())
    fields.append(FIELD)
    types = pa.schema([pa.field(one.name, kept[one.name].type, nullable=one.schema.optional) for one in fields])
    return pa.Table.from_arrays(list(kept.values()), schema=types), replace(schema, fields=tuple(fields))


def _split(
    name: str, column: pa.Array, schema: ConnectSchema, known: TableColumns
) -> tuple[Kept | None, Sequence[Any] | None]:
    """What of a column the table has, and the rest as Python values; None for nothing."""
    own, type_ = delta_type(column.type), known.type_of(name)
    if own is None or not is_name(name):  # Delta has no form for it, whatever the mode: it stays in the file alone
        return (column, schema), None
    if type_ is None or known.by_directory(name):
        return None, column.to_pylist()
    if fit(TableColumns.of({name: type_}), TableColumns.of({name: own})).exact:
        return (column, schema), None
    if schema.kind is SchemaType.STRUCT and isinstance(type_, Mapping) and type_["type"] == "struct":
        return _split_struct(column, schema, type_)
    return None, column.to_pylist()


def _split_struct(
    column: pa.Array, schema: ConnectSchema, type_: Mapping[str, Any]
) -> tuple[Kept | None, Sequence[Any] | None]:
    members = TableColumns({one["name"]: one for one in type_["fields"]})
    kept: dict[str, Kept] = {}
    rest: dict[str, Sequence[Any]] = {}
    for one in schema.fields:
        own, left = _split(one.name, pc.struct_field(column, one.name), one.schema, members)
        if own is not None:
            kept[one.name] = own
        if left is not None:
            rest[one.name] = left
    if not kept:
        return None, column.to_pylist()
    types = [pa.field(name, array.type, nullable=own.optional) for name, (array, own) in kept.items()]
    array = pa.StructArray.from_arrays([array for array, _ in kept.values()], fields=types, mask=column.is_null())
    fields = tuple(Field(name, own) for name, (_, own) in kept.items())
    return (array, replace(schema, fields=fields)), [_present(rest, row) or None for row in range(len(column))]


def rescued_text(rest: Mapping[str, Sequence[Any]], rows: int) -> list[str | None]:
    """The JSON of what is left of each row, None where that is nothing."""
    found = [_present(rest, row) for row in range(rows)] if rest else [None] * rows
    return [
        json.dumps(one, ensure_ascii=False, separators=(",", ":"), default=_plain) if one else None for one in found
    ]


def _present(rest: Mapping[str, Sequence[Any]], row: int) -> dict[str, Any]:
    return {name: _json(values[row]) for name, values in rest.items() if values[row] is not None}


def _json(value: Any) -> Any:
    """A value of Arrow as JSON has it: maps, which Arrow gives as pairs, as objects."""
    if isinstance(value, dict):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(inner, tuple) for inner in value)
        return {str(key): _json(inner) for key, inner in value} if pairs else [_json(inner) for inner in value]
    return value


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(type(value).__name__)
