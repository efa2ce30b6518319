"""What does Debezium's `ExtractNewRecordState` make of a change event? The row as it is now, with what is asked of the event beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.transforms.fields import InsertField, Insertion, ReplaceField, distinct_fields
from kafka_s3.connect.transforms.record import (
    ILLEGAL,
    ConnectRecord,
    Header,
    RecordPart,
    Refused,
    Schema,
    bare,
    field_value,
    require_fields,
)

ENVELOPE: Final = ".Envelope"
WITHIN: Final = {
    **dict.fromkeys(("op", "ts_ms", "ts_us", "ts_ns"), None),
    **dict.fromkeys(("id", "total_order", "data_collection_order"), "transaction"),
    "updateDescription": "updateDescription",
}
"""Where fields are that are named without their struct; all others are in `source`."""
DELETED: Final = "__deleted"
STRING: Final = ConnectSchema(SchemaType.STRING)


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
    Deletes.REWRITE_WITH_TOMBSTONE, Deletes.DROP_WITH_TOMBSTONE, Deletes.BOTH,
)  # fmt: skip


class FieldReference(NamedTuple):
    """A field of the event (`within` None) or of one of its structs, and the name that it gets."""

    within: str | None
    field: str
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        """The way to it."""
        return (self.field,) if self.within is None else (self.within, self.field)


def reference(text: str, prefix: str) -> FieldReference:
    """`field`, `struct.field`, each with `:name` if wanted. Raises ValueError."""
    path, _, wanted = text.strip().partition(":")
    parts = path.split(".")
    if len(parts) > 2 or not all(parts):
        raise ValueError(f"Unexpected field value: {path}")
    within = parts[0] if len(parts) == 2 else WITHIN.get(path, "source")
    return FieldReference(within, parts[-1], prefix + (wanted or "_".join(parts)))


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Unwraps change events, recognised by their schema's name; everything else passes. `route` names the field that says the topic."""

    deletes: Deletes
    route: str
    fields: tuple[FieldReference, ...]
    headers: tuple[FieldReference, ...]
    drop_header: str
    drop_from_key: bool
    keep_compatible: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The row, or what the delete mode makes of a delete; None for what it drops."""
        schema = record.value_schema
        if record.value is None:
            return self._tombstone(record) if self.deletes in KEEPING else None
        if schema is None or not is_envelope(schema):
            return record
        event = record.value
        record = replace(record, headers=(*record.headers, *self._headers(event, schema)))
        after, before = event.get("after"), event.get("before")
        if after is None and before is None:
            return None
        if after is not None:
            row = self._marked(replace(record, value=after, value_schema=_state(schema, "after")), "false")
            row = self._routed(row, row.value, row.value_schema)
            return self._without(self._with_fields(row, event, schema))
        if self.deletes in DROPPING:
            return None
        if self.deletes in REWRITING:
            row = self._marked(replace(record, value=before, value_schema=_state(schema, "before")), "true")
            row = self._routed(row, before, _state(schema, "before"))
            return self._with_fields(self._without(row), event, schema)
        other = None if self.deletes is Deletes.DELETE_TO_TOMBSTONE else _state(schema, "after")
        gone = replace(record, value=None, value_schema=other)
        return self._without(self._routed(gone, before, _state(schema, "before")))

    def _tombstone(self, record: ConnectRecord) -> ConnectRecord:
        """The tombstone, with the only header that it can have."""
        added = (Header(one.name, "d", STRING) for one in self.headers if one.path == ("op",))
        return replace(record, headers=(*record.headers, *added))

    def _headers(self, event: dict[str, Any], schema: ConnectSchema) -> Iterator[Header]:
        for one in self.headers:
            found = schema.at_path(one.path)
            if found is not None:
                yield Header(one.name, _event_value(one, event), replace(bare_value(found), optional=True))

    def _marked(self, row: ConnectRecord, deleted: str) -> ConnectRecord:
        """The row with `__deleted`, where deletes are rewritten."""
        if self.deletes not in REWRITING:
            return row
        mark = InsertField(RecordPart.VALUE, (Insertion("static", DELETED, True),), deleted, defaults=True)
        return mark.apply(row)

    def _routed(self, record: ConnectRecord, row: dict[str, Any], schema: Schema) -> ConnectRecord:
        if not self.route:
            return record
        field = schema.field(self.route) if schema is not None else None
        if field is None:
            raise Refused(f"{self.route} is not a valid field name")
        if field.schema.kind is not SchemaType.STRING:
            raise Refused(f"Field '{self.route}' is not of type STRING")
        topic = field_value(row, self.route, field.schema, defaults=True)
        return record if topic is None else replace(record, topic=topic)

    def _with_fields(self, row: ConnectRecord, event: dict[str, Any], schema: ConnectSchema) -> ConnectRecord:
        """The row with fields of the event behind its own; those that the event does not have are left out."""
        inner = row.value_schema
        assert inner is not None
        known = [(one, found) for one in self.fields if (found := schema.at_path(one.path)) is not None]
        fields = [Field(one.name, replace(bare_value(found), optional=True)) for one, found in known]
        other = bare(inner, fields=distinct_fields([*inner.fields, *fields]))
        values = {one.name: _event_value(one, event) for one, _ in known}
        return replace(row, value={**row.value, **values}, value_schema=other)

    def _without(self, row: ConnectRecord) -> ConnectRecord:
        """The row, and the key where asked, without the fields that a header names."""
        header = next((one for one in reversed(row.headers) if one.key == self.drop_header), None)
        if not self.drop_header or header is None or not isinstance(header.value, list) or not header.value:
            return row
        for part in (RecordPart.KEY, RecordPart.VALUE):
            value, schema = part.value_of(row)
            if value is None or schema is None or (part is RecordPart.KEY and not self.drop_from_key):
                continue
            fields = require_fields(schema).fields if self.keep_compatible else ()
            gone = [one.name for one in fields if one.schema.optional and one.name in header.value]
            exclude = frozenset(gone if self.keep_compatible else header.value)
            if exclude:
                row = ReplaceField(part, exclude, frozenset(), {}, defaults=True).apply(row)
        return row


def is_envelope(schema: ConnectSchema) -> bool:
    """Whether a value's schema is that of a change event."""
    return schema.kind is SchemaType.STRUCT and (schema.name or "").endswith(ENVELOPE)


def bare_value(schema: ConnectSchema) -> ConnectSchema:
    """A schema without default, required."""
    return replace(schema, optional=False, default=None)


def _state(schema: ConnectSchema, name: str) -> ConnectSchema:
    found = schema.field(name)
    if found is None:
        raise Refused(f"Unknown field: {name}", ILLEGAL)
    return found.schema


def _event_value(one: FieldReference, event: dict[str, Any]) -> Any:
    holder = event if one.within is None else event.get(one.within)
    return None if holder is None else holder.get(one.field)
