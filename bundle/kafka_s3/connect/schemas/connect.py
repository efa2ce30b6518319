"""What is a Kafka Connect schema? The data model of Connect, as the JSON converter writes it in an envelope.

`schema_document` writes a schema down whole, so that it reads back equal: for open files that another process goes on with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import NoneType
from typing import Any, Final

from kafka_s3.model.errors import SinkError

PREFIX = "org.apache.kafka.connect.data."
DECIMAL, DATE, TIME, TIMESTAMP = (PREFIX + name for name in ("Decimal", "Date", "Time", "Timestamp"))


class SchemaError(SinkError):
    """A schema is not a Connect schema, or a value does not fit its schema."""


class SchemaType(StrEnum):
    """Connect's types, by the names of the JSON converter."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """A named member of a struct.

    `aliases` are names that it had, as Avro's schemas say; Connect knows none, so that schemas are compared without them.
    """

    name: str
    schema: ConnectSchema
    aliases: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """A schema, compared by value. `default` is the JSON form of the default, `parameters` pairs `in_order`."""

    kind: SchemaType
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()
    items: ConnectSchema | None = None
    keys: ConnectSchema | None = None
    values: ConnectSchema | None = None

    def field(self, name: str) -> Field | None:
        """The struct's member of that name."""
        return next((field for field in self.fields if field.name == name), None)

    def label(self) -> str:
        """The schema's name and version for people: `orders v3`, or its type."""
        return (self.name or str(self.kind)) + (f" v{self.version}" if self.version is not None else "")

    def unversioned(self) -> ConnectSchema:
        """The schema without its own version number."""
        return replace(self, version=None)

    def at_path(self, path: tuple[str, ...]) -> ConnectSchema | None:
        """The schema of a nested member, None where there is no such member."""
        found: ConnectSchema | None = self
        for name in path:
            member = found.field(name) if found is not None else None
            found = member.schema if member is not None else None
        return found


def inner_schema(schema: ConnectSchema | None) -> ConnectSchema:
    """The items of an array schema, or the keys or values of a map schema, which are always there."""
    assert schema is not None
    return schema


def in_order(parameters: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Parameters by name, so that equal ones compare equal; but an enum's symbols in their own order, which is part of the type."""
    return tuple(sorted(parameters, key=lambda pair: "".join(pair[0].partition(".Enum.")[:2])))


def read_schema(document: Any, *, where: str = "schema") -> ConnectSchema:
    """A schema from its JSON form. Raises SchemaError with the place in the document."""
    if not isinstance(document, Mapping):
        raise SchemaError(
            f'{where} is {json.dumps(document)[:80]}, not a schema object like {{"type": "struct", ...}}.'
        )
    try:
        kind = SchemaType(str(document.get("type", "")))
    except ValueError:
        known = ", ".join(SchemaType)
        raise SchemaError(f"{where}: type {document.get('type')!r} is unknown; the types are {known}.") from None
    for member, expected in (("fields", list), ("parameters", Mapping), ("name", str), ("version", int), ("doc", str)):
        if not isinstance(document.get(member), (expected, NoneType)):
            raise SchemaError(
                f"{where}: {member} is {json.dumps(document[member])[:80]}, not of type {expected.__name__}."
            )
    fields = document.get("fields") or [] if kind is SchemaType.STRUCT else []
    return ConnectSchema(
        kind=kind,
        optional=bool(document.get("optional", False)),
        name=document.get("name"),
        version=document.get("version"),
        doc=document.get("doc"),
        parameters=in_order((str(k), str(v)) for k, v in (document.get("parameters") or {}).items()),
        default=json.dumps(document["default"]) if document.get("default") is not None else None,
        fields=tuple(_field(field, where) for field in fields),
        items=read_schema(document.get("items"), where=f"{where}.items") if kind is SchemaType.ARRAY else None,
        keys=read_schema(document.get("keys"), where=f"{where}.keys") if kind is SchemaType.MAP else None,
        values=read_schema(document.get("values"), where=f"{where}.values") if kind is SchemaType.MAP else None,
    )


def _field(document: Any, where: str) -> Field:
    name = document.get("field") if isinstance(document, Mapping) else None
    if not isinstance(name, str):
        raise SchemaError(f'{where}.fields: {json.dumps(document)[:80]} has no member "field" with the field\'s name.')
    return Field(name, read_schema(document, where=f"{where}.{name}"))


PLAIN: Final = ("optional", "name", "version", "doc", "default")
INNER: Final = ("items", "keys", "values")


def schema_document(schema: ConnectSchema) -> dict[str, Any]:
    """The schema as JSON takes it."""
    inner = {name: getattr(schema, name) for name in INNER}
    return {
        "kind": str(schema.kind),
        **{name: getattr(schema, name) for name in PLAIN},
        "parameters": [list(pair) for pair in schema.parameters],
        "fields": [
            [field.name, schema_document(field.schema), *([list(field.aliases)] if field.aliases else [])]
            for field in schema.fields
        ],
        **{name: None if found is None else schema_document(found) for name, found in inner.items()},
    }


def stored_schema(document: Mapping[str, Any]) -> ConnectSchema:
    """The schema of a document. Raises KeyError, TypeError or ValueError where it is none."""
    items, keys, values = (None if document[name] is None else stored_schema(document[name]) for name in INNER)
    return ConnectSchema(
        kind=SchemaType(document["kind"]),
        **{name: document[name] for name in PLAIN},
        parameters=tuple((name, value) for name, value in document["parameters"]),
        fields=tuple(
            Field(name, stored_schema(schema), tuple(aliases[0]) if aliases else ())
            for name, schema, *aliases in document["fields"]
        ),
        items=items,
        keys=keys,
        values=values,
    )
