"""What does Debezium's `ExtractNewRecordState` make of a change event? The row as it is now, with what is asked of the event beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_s3.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.transforms.fields import distinct
from kafka_s3.transforms.record import ILLEGAL, Header, Record, Refused, bare, field_value

ENVELOPE: Final = "Envelope"
OF_THE_EVENT: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})
DELETED: Final = Field("__deleted", ConnectSchema(SchemaType.STRING, optional=True))


class Deletes(StrEnum):
    """What becomes of delete events and of the tombstones that follow them (`delete.tombstone.handling.mode`, and the older keys')."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"
    DROP_WITH_TOMBSTONE = "drop, tombstones stay"
    BOTH = "delete to null, tombstones stay"


REWRITING: Final = (Deletes.REWRITE, Deletes.REWRITE_WITH_TOMBSTONE)
DROPPING: Final = (Deletes.DROP, Deletes.DROP_WITH_TOMBSTONE)
KEEPING: Final = (
    Deletes.REWRITE_WITH_TOMBSTONE, Deletes.DELETE_TO_TOMBSTONE, Deletes.DROP_WITH_TOMBSTONE, Deletes.BOTH,
)  # fmt: skip


class Reference(NamedTuple):
    """A field of the event (`within` None) or of one of its structs, and the name that it gets."""

    within: str | None
    field: str
    name: str


def reference(text: str, prefix: str) -> Reference:
    """`field`, `struct.field`, each with `:name` if wanted. Raises ValueError."""
    path, _, wanted = text.strip().partition(":")
    parts = path.split(".")
    if len(parts) > 2 or not all(parts):
        raise ValueError(f"Unexpected field value: {path}")
    within = parts[0] if len(parts) == 2 else None if path in OF_THE_EVENT else "source"
    return Reference(within, parts[-1], prefix + (wanted or "_".join(parts)))


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Unwraps change events, told by their schema's name; everything else passes. `route` names the field that says the topic."""

    deletes: Deletes
    route: str
    fields: tuple[Reference, ...]
    headers: tuple[Reference, ...]
    drop_header: str
    drop_from_key: bool
    keep_compatible: bool

    def apply(self, record: Record) -> Record | None:
        """The row, or what the delete mode makes of a delete; None for what it drops."""
        schema = record.value_schema
        if record.value is None:
            return record if self.deletes in KEEPING else None
        if not is_envelope(schema):
            return record
        assert schema is not None
        event = record.value
        added = tuple(Header(one.name, _said(one, event, schema), _schema(one, schema)) for one in self.headers)
        record = replace(record, headers=(*record.headers, *added))
        after, before = event.get("after"), event.get("before")
        if after is None and before is None:
            return None
        if after is not None:
            return self._row(record, event, after, state="after")
        if self.deletes in DROPPING:
            return None
        if self.deletes in REWRITING:
            return self._row(record, event, before, state="before")
        record = self._routed(record, before)
        return replace(record, value=None, value_schema=_state(schema, "after"))

    def _row(self, record: Record, event: dict[str, Any], row: dict[str, Any], *, state: str) -> Record:
        schema = record.value_schema
        assert schema is not None
        inner = _state(schema, state)
        own = {field.name: field_value(row, field.name, field.schema, defaults=True) for field in inner.fields}
        fields = [*inner.fields]
        if self.drop_header:
            record, fields, own = self._without(record, fields, own)
        for one in self.fields:
            fields.append(Field(one.name, _schema(one, schema)))
            own[one.name] = _said(one, event, schema)
        if self.deletes in REWRITING:
            fields.append(DELETED)
            own[DELETED.name] = "true" if state == "before" else "false"
        record = self._routed(record, own)
        return replace(record, value=own, value_schema=bare(inner, fields=distinct(fields)))

    def _routed(self, record: Record, row: dict[str, Any]) -> Record:
        topic = row.get(self.route) if self.route else None
        return record if topic is None else replace(record, topic=str(topic))

    def _without(
        self, record: Record, fields: list[Field], own: dict[str, Any]
    ) -> tuple[Record, list[Field], dict[str, Any]]:
        """The record without the fields that its header names."""
        header = next((one for one in reversed(record.headers) if one.key == self.drop_header), None)
        dropped = set(header.value) if header is not None and isinstance(header.value, list) else set()
        gone = {field.name for field in fields if self._goes(field, dropped)}
        kept = [field for field in fields if field.name not in gone]
        if self.drop_from_key and record.key_schema is not None and record.key_schema.kind is SchemaType.STRUCT:
            record = self._key_without(record, record.key_schema, dropped)
        return record, kept, {name: value for name, value in own.items() if name not in gone}

    def _goes(self, field: Field, dropped: set[Any]) -> bool:
        return field.name in dropped and (field.schema.optional or not self.keep_compatible)

    def _key_without(self, record: Record, schema: ConnectSchema, dropped: set[Any]) -> Record:
        kept = [field for field in schema.fields if not self._goes(field, dropped)]
        key = {field.name: record.key.get(field.name) for field in kept}
        return replace(record, key=key, key_schema=bare(schema, fields=tuple(kept)))


def is_envelope(schema: ConnectSchema | None) -> bool:
    """Whether a value's schema is that of a change event."""
    return schema is not None and (schema.name or "").endswith(ENVELOPE) and schema.kind is SchemaType.STRUCT


def _state(schema: ConnectSchema, name: str) -> ConnectSchema:
    found = schema.field(name)
    if found is None:
        raise Refused(f"Unknown field: {name}", ILLEGAL)
    return found.schema


def _schema(one: Reference, schema: ConnectSchema) -> ConnectSchema:
    """The schema of what a reference says, always optional."""
    found = next(_steps(one, schema), None)
    if found is None:
        raise Refused(f"Unexpected field name: {one.field}", ILLEGAL)
    return replace(found, optional=True, default=None)


def _steps(one: Reference, schema: ConnectSchema) -> Iterator[ConnectSchema]:
    path = (one.field,) if one.within is None else (one.within, one.field)
    found = schema.at(path)
    if found is not None:
        yield found


def _said(one: Reference, event: dict[str, Any], schema: ConnectSchema) -> Any:
    holder = event if one.within is None else event.get(one.within)
    found = _schema(one, schema) and schema.at((one.field,) if one.within is None else (one.within, one.field))
    if holder is None or found is None:
        return None
    return field_value(holder, one.field, found, defaults=True)
