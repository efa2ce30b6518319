"""Define Kafka Connect's data model: schemas, as the JSON converter writes them in an envelope.

A struct may contain itself. Inside of it `Recursion` stands for its fields, so that a schema remains a finite tree. `schema_document`
writes a schema down whole, so that it reads back equal: for open files that another process goes on with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class Recursion(Sequence[Field]):
    """The fields of a struct at a place inside of itself: those of its definition.

    Whoever goes through a schema, and not through a value, stops here. Two are equal if name and definition are; the text of a definition
    has recursions by their names, which ends both comparison and text.
    """

    __slots__ = ("_fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._fields: tuple[Field, ...] | None = None

    def define(self, fields: Iterable[Field]) -> None:
        """Set the fields, which hold this object."""
        self._fields = tuple(fields)

    def _defined(self) -> tuple[Field, ...]:
        if self._fields is None:
            raise SchemaError(f"The type {self.name} contains itself in a default, which is not supported.")
        return self._fields

    def __getitem__(self, index: Any) -> Any:
        return self._defined()[index]

    def __len__(self) -> int:
        return len(self._defined())

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Recursion):
            return self is other
        return self.name == other.name and self._fields is not None and repr(self._fields) == repr(other._fields)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Recursion({self.name!r})"


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
    fields: Sequence[Field] = ()
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

    def unrolled(self) -> ConnectSchema:
        """Return the schema with the definition's fields in place of a recursion."""
        return replace(self, fields=tuple(self.fields))

    def at_path(self, path: tuple[str, ...]) -> ConnectSchema | None:
        """The schema of a nested member, None where there is no such member."""
        found: ConnectSchema | None = self
        for name in path:
            member = found.field(name) if found is not None else None
            found = member.schema if member is not None else None
        return found


def nested_schemas(schema: ConnectSchema, *, seen: set[int] | None = None) -> Iterator[ConnectSchema]:
    """Yield a schema and all schemas in it; the definition of a recursion once."""
    seen = set() if seen is None else seen
    yield schema
    if isinstance(schema.fields, Recursion):
        if id(schema.fields) in seen:
            return
        seen.add(id(schema.fields))
    for inner in (*(member.schema for member in schema.fields), schema.items, schema.keys, schema.values):
        if inner is not None:
            yield from nested_schemas(inner, seen=seen)


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
    """Return the schema as JSON takes it; `recursions` are the definitions to which numbers in place of fields refer."""
    recursions: dict[Recursion, int] = {}
    document = _document(schema, recursions)
    definitions: list[Any] = []
    while len(definitions) < len(recursions):  # definitions may refer to more of them
        recursion = list(recursions)[len(definitions)]
        definitions.append([recursion.name, _field_documents(recursion, recursions)])
    return {**document, "recursions": definitions} if definitions else document


def _document(schema: ConnectSchema, recursions: dict[Recursion, int]) -> dict[str, Any]:
    inner = {name: getattr(schema, name) for name in INNER}
    fields: Any
    if isinstance(schema.fields, Recursion):
        fields = recursions.setdefault(schema.fields, len(recursions))
    else:
        fields = _field_documents(schema.fields, recursions)
    return {
        "kind": str(schema.kind),
        **{name: getattr(schema, name) for name in PLAIN},
        "parameters": [list(pair) for pair in schema.parameters],
        "fields": fields,
        **{name: None if part is None else _document(part, recursions) for name, part in inner.items()},
    }


def _field_documents(fields: Iterable[Field], recursions: dict[Recursion, int]) -> list[Any]:
    return [
        [field.name, _document(field.schema, recursions), *([list(field.aliases)] if field.aliases else [])]
        for field in fields
    ]


def stored_schema(document: Mapping[str, Any]) -> ConnectSchema:
    """Return the schema of a document. Raises KeyError, TypeError or ValueError if it is none."""
    definitions = document.get("recursions", [])
    recursions = {number: Recursion(name) for number, (name, _) in enumerate(definitions)}
    for number, (_, fields) in enumerate(definitions):
        recursions[number].define(_stored_fields(fields, recursions))
    return _stored(document, recursions)


def _stored(document: Mapping[str, Any], recursions: Mapping[int, Recursion]) -> ConnectSchema:
    inner: dict[str, Any] = {
        name: None if document[name] is None else _stored(document[name], recursions) for name in INNER
    }
    fields = document["fields"]
    return ConnectSchema(
        kind=SchemaType(document["kind"]),
        **{name: document[name] for name in PLAIN},
        parameters=tuple((name, value) for name, value in document["parameters"]),
        fields=recursions[fields] if isinstance(fields, int) else _stored_fields(fields, recursions),
        **inner,
    )


def _stored_fields(documents: Iterable[Any], recursions: Mapping[int, Recursion]) -> tuple[Field, ...]:
    return tuple(
        Field(name, _stored(schema, recursions), tuple(aliases[0]) if aliases else ())
        for name, schema, *aliases in documents
    )
