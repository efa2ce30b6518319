"""How are fields replaced, extracted, hoisted and copied into the key? `ReplaceField`, `ExtractField`, `HoistField`, `ValueToKey`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from kafka_s3.connect.java.hashing import hash_order
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.transforms.columns import Struct, mapped, struct_of
from kafka_s3.connect.transforms.record import (
    ILLEGAL,
    ConnectRecord,
    RecordPart,
    Refused,
    Schema,
    bare,
    field_value,
    java_class,
    require_fields,
    require_map,
    require_struct,
)  # fmt: skip
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

DUPLICATE: Final = "org.apache.kafka.connect.errors.SchemaBuilderException"
REPLACEMENT: Final = "field replacement"
EXTRACTION: Final = "field extraction"
NESTED_ACCESS: Final = "nested field access"
TO_KEY: Final = "copying fields from value to key"


def distinct(fields: list[Field]) -> tuple[Field, ...]:
    """The fields of a struct, whose names must differ. Raises Refused."""
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise Refused(f"Cannot create field because of field name duplication {field.name}", DUPLICATE)
        seen.add(field.name)
    return tuple(fields)


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Leaves fields out, or keeps only some, and renames."""

    part: RecordPart
    exclude: frozenset[str]
    include: frozenset[str]
    renames: Mapping[str, str]
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with other fields, in the order of its schema."""
        value, schema = self.part.of(record)
        if value is None:
            return record
        if schema is None:
            found = require_map(value, REPLACEMENT)
            return self.part.put(record, {self._name(name): found[name] for name in self._order(found)}, None)
        members = require_struct(value, schema, REPLACEMENT)
        other = bare(
            schema, fields=distinct([Field(self._name(field.name), field.schema) for field in self._kept(schema)])
        )
        out = {field.name: self._value(members, schema, field) for field in other.fields}
        return self.part.put(record, out, other)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """Other columns."""
        return mapped(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        kept = [Field(self._name(field.name), field.schema) for field in self._kept(value.schema)]
        arrays = [value.named(field.name) for field in self._kept(value.schema)]
        new = set(self.renames.values())
        if len({field.name for field in kept}) < len(kept) or any(
            f.name in new and not self._own(f, value.schema) for f in kept
        ):
            return None
        return value.with_fields(list(zip(kept, arrays, strict=True)), bare(value.schema))

    def _own(self, field: Field, schema: ConnectSchema) -> bool:
        """Whether a field of the new struct is the renamed one, and no other one that has its name."""
        old = [one for one, new in self.renames.items() if new == field.name]
        return len(old) == 1 and self._stays(old[0]) and schema.field(old[0]) is not None

    def _value(self, members: dict[str, Any], schema: ConnectSchema, field: Field) -> Any:
        """The value of a field of the new struct, looked for as the original does: under the old name of its name, whatever that holds."""
        name = {new: old for old, new in self.renames.items()}.get(field.name, field.name)
        source = schema.field(name)
        if source is None:
            raise Refused(f"{name} is not a valid field name")
        found = field_value(members, name, source.schema, defaults=self.defaults)
        if found is None and not field.schema.optional and field.schema.default is None:
            raise Refused(null_used(field))
        if found is not None and java_class(found, source.schema) != java_class(found, field.schema):
            kind, java = java_kind(field.schema), java_class(found, source.schema)
            raise Refused(f'Invalid Java object for schema with type {kind}: class {java} for field: "{field.name}"')
        return found

    def _order(self, found: dict[str, Any]) -> list[str]:
        """The names that stay; as Java's maps go through them where two get one name, and the last one wins."""
        stay = [name for name in found if self._stays(name)]
        clash = bool(self.renames) and len({self._name(name) for name in stay}) < len(stay)
        return [name for name in hash_order(found) if name in stay] if clash else stay

    def _stays(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)

    def _kept(self, schema: ConnectSchema) -> list[Field]:
        return [field for field in schema.fields if self._stays(field.name)]

    def _name(self, name: str) -> str:
        return self.renames.get(name, name)


@dataclass(frozen=True, slots=True)
class ExtractField:
    """Puts one field in the place of the whole part; `path` has several names with version 2 of the syntax, `text` is it as given."""

    part: RecordPart
    path: tuple[str, ...]
    text: str
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the field's value, null below null."""
        value, schema = self.part.of(record)
        if schema is None:
            return self.part.put(record, self._from_map(value), None)
        if value is not None:
            require_struct(value, schema, EXTRACTION)
        elif schema.kind is not SchemaType.STRUCT:
            raise Refused("Cannot look up fields on non-struct type")
        found = self._field(schema)
        if found is None:
            raise Refused(f"Unknown field: {self.text}", ILLEGAL)
        return self.part.put(record, self._from_struct(value, schema), found.schema)

    def _from_map(self, value: Any) -> Any:
        for depth, name in enumerate(self.path):
            if value is None:
                return None
            value = require_map(value, NESTED_ACCESS if depth else EXTRACTION).get(name)
        return value

    def _field(self, schema: ConnectSchema) -> Field | None:
        found: Field | None = None
        for name in self.path:
            inner = schema if found is None else found.schema
            if inner.kind is not SchemaType.STRUCT:
                raise Refused("Cannot look up fields on non-struct type")
            found = inner.field(name)
            if found is None:
                return None
        return found

    def _from_struct(self, value: Any, schema: ConnectSchema) -> Any:
        for name in self.path:
            field = schema.field(name)
            if value is None or field is None:
                return None
            value, schema = field_value(value, name, field.schema, defaults=self.defaults), field.schema
        return value

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The members of a struct in place of the struct, where no row lacks it; other fields are values of their own, one by one."""
        struct = struct_of(run, self.part)
        found = struct.schema.field(self.path[0]) if struct is not None and len(self.path) == 1 else None
        if (
            struct is None
            or found is None
            or found.schema.kind is not SchemaType.STRUCT
            or found.schema.default is not None
        ):
            return None
        array = struct.named(found.name)
        if array.null_count or not found.schema.fields:
            return None
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in array.chunks])
        arrays = tuple(table.columns)
        changed = Struct(found.schema, arrays)
        return mapped(run, self.part, lambda _: changed, defaults=False)


@dataclass(frozen=True, slots=True)
class HoistField:
    """Puts the whole part into a field of a new struct, or map; null, too."""

    part: RecordPart
    field: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record one level deeper."""
        value, schema = self.part.of(record)
        if schema is None:
            return self.part.put(record, {self.field: value}, None)
        if value is None and not schema.optional and schema.default is None:
            raise Refused(null_used(Field(self.field, schema)))
        return self.part.put(record, {self.field: value}, self._schema(schema))

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """One column of structs."""
        return mapped(run, self.part, self._columns, defaults=False)

    def _columns(self, value: Struct) -> Struct:
        fields = [arrow_field(field.name, field.schema) for field in value.schema.fields]
        arrays = [array.combine_chunks() for array in value.arrays]
        array = pa.StructArray.from_arrays(arrays, fields=fields)
        return Struct(self._schema(value.schema), (pa.chunked_array([array]),))

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        return ConnectSchema(SchemaType.STRUCT, fields=(Field(self.field, schema),))


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """Copies fields of the value into a new key."""

    fields: tuple[str, ...]
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with that key; a field that a value without schema does not have is null in it."""
        schema = record.value_schema
        if schema is None:
            found = require_map(record.value, TO_KEY)
            return replace(record, key={name: found.get(name) for name in self.fields}, key_schema=None)
        members = require_struct(record.value, schema, TO_KEY)
        chosen = [self._field(schema, name) for name in self.fields]
        key = {field.name: field_value(members, field.name, field.schema, defaults=self.defaults) for field in chosen}
        return replace(record, key=key, key_schema=ConnectSchema(SchemaType.STRUCT, fields=distinct(chosen)))

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The value's columns as the key's."""
        struct = struct_of(run, RecordPart.VALUE)
        struct = struct.with_defaults() if struct is not None and self.defaults else struct
        chosen = [] if struct is None else [struct.schema.field(name) for name in self.fields]
        fields = [field for field in chosen if field is not None]
        if struct is None or len(fields) < len(self.fields) or len(set(self.fields)) < len(self.fields):
            return None
        table = pa.Table.from_arrays(
            [struct.named(field.name) for field in fields],
            schema=pa.schema([arrow_field(field.name, field.schema) for field in fields]),
        )
        sidecar = Sidecar(StructColumns(table), ConnectSchema(SchemaType.STRUCT, fields=tuple(fields)))
        return replace(run, sidecars={**run.sidecars, Role.KEY: sidecar})

    @staticmethod
    def _field(schema: ConnectSchema, name: str) -> Field:
        found = require_fields(schema).field(name)
        if found is None:
            raise Refused(f"Field does not exist: {name}")
        return found


def null_used(field: Field) -> str:
    """What Connect says of a null where none may be."""
    return f'Invalid value: null used for required field: "{field.name}", schema type: {java_kind(field.schema)}'


def java_kind(schema: Schema) -> str:
    """A type as Java's enum names it."""
    if schema is None:
        return java_class(None)
    return {SchemaType.FLOAT32: "FLOAT32", SchemaType.FLOAT64: "FLOAT64"}.get(schema.kind, schema.kind.upper())
