"""Which records of a chain have null where their schema requires a value? No writer of the original takes those (SEMANTICS A9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import Objects, StructColumns, Values
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType
from kafka_s3.model.files import Role


def missing_required(run: Run) -> dict[int, str]:
    """The rows of a run whose value or key has such a null, with why.

    Transforms do not check what they make (InsertField with `timestamp.field=n!` and a record without a timestamp), converters do.
    A header may be null, unless headers are stored.
    """
    found: dict[int, str] = {}
    keys = (run.sidecars[Role.KEY],) if Role.KEY in run.sidecars else ()
    for part in (Sidecar(run.values, run.schema), *keys):
        if part.schema is not None:
            found = _missing(part.values, part.schema) | found
    return found


def _missing(values: Values, schema: ConnectSchema) -> dict[int, str]:
    if isinstance(values, StructColumns):
        columns = zip(values.table.columns, values.table.schema, strict=True)
        if all(field.nullable or not column.null_count for column, field in columns):
            return {}
    elif not isinstance(values, Objects):
        return {}
    places = ((row, _null_place(item, schema)) for row, item in enumerate(values.objects()))
    return {row: f"{place}: null for a field that is required." for row, place in places if place is not None}


def _null_place(value: Any, schema: ConnectSchema, where: str = "") -> str | None:
    """The first place with a null that the schema does not allow; the whole value may be null."""
    if value is None:
        return where if where and not schema.optional and schema.default is None else None
    for item, inner, place in _members(value, schema, where):
        found = _null_place(item, inner, place)
        if found is not None:
            return found
    return None


def _members(value: Any, schema: ConnectSchema, where: str) -> Iterator[tuple[Any, ConnectSchema, str]]:
    """What is in a struct, list or map: values, their schemas and places."""
    if schema.kind is SchemaType.STRUCT:
        for field in schema.fields:
            yield value.get(field.name), field.schema, f"{where}.{field.name}" if where else field.name
    elif schema.kind is SchemaType.ARRAY and schema.items is not None:
        yield from ((item, schema.items, f"{where}[]") for item in value)
    elif schema.kind is SchemaType.MAP and schema.values is not None:
        yield from ((item, schema.values, f"{where}[]") for _, item in value)
