"""How do headers come and go? `DropHeaders`, `HeaderFrom`, `InsertHeader`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.transforms.record import (
    NULL_POINTER,
    ConnectRecord,
    Header,
    RecordPart,
    Refused,
    bare,
    field_value,
    require_map,
    require_struct,
)  # fmt: skip

MISSING: Final = (
    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
)


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Drops headers by name."""

    names: frozenset[str]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the other headers, in their order."""
        return replace(record, headers=tuple(one for one in record.headers if one.key not in self.names))


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Adds one header behind the others."""

    header: Header

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the header."""
        return replace(record, headers=(*record.headers, self.header))


@dataclass(frozen=True, slots=True)
class HeaderFrom:
    """Copies fields of a part into headers, or moves them (`moves`): the n-th field into the n-th header."""

    part: RecordPart
    fields: tuple[str, ...]
    names: tuple[str, ...]
    moves: bool
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the headers; a field that a value without schema does not have gives a header of null."""
        value, schema = self.part.of(record)
        purpose = f"header {'move' if self.moves else 'copy'}"
        if schema is None:
            found = require_map(value, purpose)
            added = [Header(name, found.get(field), None) for field, name in zip(self.fields, self.names, strict=True)]
            rest = {name: member for name, member in found.items() if name not in self.fields}
            return self._put(record, rest if self.moves else found, None, added)
        members = require_struct(value, schema, purpose)
        own = {f.name: field_value(members, f.name, f.schema, defaults=self.defaults) for f in schema.fields}
        added = [
            self._header(schema, own, field, name=name) for field, name in zip(self.fields, self.names, strict=True)
        ]
        if not self.moves:
            return self._put(record, members, schema, added)
        rest = {name: member for name, member in own.items() if name not in self.fields}
        kept = bare(schema, fields=tuple(field for field in schema.fields if field.name in rest))
        return self._put(record, rest, kept, added)

    def _header(self, schema: ConnectSchema, own: dict[str, object], field: str, *, name: str) -> Header:
        found = schema.field(field)
        if found is None:
            raise Refused(MISSING, NULL_POINTER)
        return Header(name, own[field], found.schema)

    def _put(
        self, record: ConnectRecord, value: object, schema: ConnectSchema | None, added: list[Header]
    ) -> ConnectRecord:
        return self.part.put(replace(record, headers=(*record.headers, *added)), value, schema)
