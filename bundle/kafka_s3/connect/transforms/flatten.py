"""How are nested fields brought to one level? Names joined by a delimiter; a field is optional if anything around it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import default_value, to_json
from kafka_s3.connect.transforms.fields import distinct, java_kind
from kafka_s3.connect.transforms.record import (
    NESTED,
    ConnectRecord,
    JavaDate,
    RecordPart,
    Refused,
    Struct,
    bare,
    field_value,
    java_class,
    mapped,
    require_map,
    require_struct,
    scalar,
)  # fmt: skip
from kafka_s3.model.offsets import TopicPartition

PURPOSE: Final = "flattening"


@dataclass(frozen=True, slots=True)
class Flatten:
    """Flattens a part; arrays stay as they are."""

    part: RecordPart
    delimiter: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record on one level; null stays null."""
        value, schema = self.part.of(record)
        if value is None:
            return record
        if schema is None:
            return self.part.put(record, dict(self._members(require_map(value, PURPOSE), "")), None)
        members = require_struct(value, schema, PURPOSE)
        other = self._schema(schema)
        out = dict.fromkeys((field.name for field in other.fields), None) | dict(self._values(members, schema, ""))
        return self.part.put(record, out, other)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The members of struct columns as columns."""
        return mapped(run, self.part, self._columns, defaults=False)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.delimiter}{name}" if prefix else name

    def _members(self, value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, member in value.items():
            name = self._name(prefix, key)
            if isinstance(member, JavaDate | Decimal):
                known = "which is not supported by Connect's data API"
                raise Refused(f"Flatten transformation was passed a value of type class {java_class(member)} {known}")
            if isinstance(member, dict):
                yield from self._members(member, name)
            else:
                yield name, member

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = list(self._fields(schema, "", optional=schema.optional, default=default_value(schema)))
        return bare(schema, fields=distinct(fields))

    def _fields(self, schema: ConnectSchema, prefix: str, *, optional: bool, default: Any) -> Iterator[Field]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            looser = optional or field.schema.optional
            own = default_value(field.schema)
            if own is None and default is not None:
                own = field_value(default, field.name, field.schema, defaults=True)
            if field.schema.kind is SchemaType.STRUCT:
                yield from self._fields(field.schema, name, optional=looser, default=own)
            elif field.schema.kind is SchemaType.MAP:
                kind = java_kind(field.schema)
                raise Refused(
                    f"Flatten transformation does not support {kind} for record with schemas (for field {name})."
                )
            else:
                text = None if own is None else json.dumps(to_json(own, field.schema))
                yield Field(name, replace(field.schema, optional=looser, default=text))

    def _values(self, value: Any, schema: ConnectSchema, prefix: str) -> Iterator[tuple[str, Any]]:
        if value is None:
            return
        for field in schema.fields:
            name = self._name(prefix, field.name)
            member = field_value(value, field.name, field.schema, defaults=True)
            if field.schema.kind is SchemaType.STRUCT:
                yield from self._values(member, field.schema, name)
            else:
                yield name, member

    def _columns(self, value: Struct) -> Struct | None:
        try:
            schema = self._schema(value.schema)
        except Refused:
            return None
        arrays: list[pa.ChunkedArray] = []
        for field, array in zip(value.schema.fields, value.arrays, strict=True):
            if not _flattened(field.schema, array, None, arrays):
                return None
        return Struct(schema, tuple(arrays))


def _flattened(
    schema: ConnectSchema, array: pa.ChunkedArray, inside: pa.ChunkedArray | None, out: list[pa.ChunkedArray]
) -> bool:
    """Adds the leaves of a column; False where a default is nested. `inside` says which rows have the struct around it."""
    if schema.default is not None and array.null_count:
        if schema.kind in NESTED:
            return False
        filled = array.fill_null(scalar(default_value(schema), array.type))
        array = filled if inside is None else pc.if_else(inside, filled, pa.scalar(None, array.type))
    if schema.kind is not SchemaType.STRUCT:
        out.append(array)
        return True
    here = array.is_valid() if array.null_count else inside
    return all(_flattened(field.schema, pc.struct_field(array, field.name), here, out) for field in schema.fields)
