"""What does an Avro schema say, once its names are resolved? How is it written again, and which two schemas write the same bytes?

The mapping to and from Connect works on `AvroType` trees; outside this package a schema is its parsed JSON. That is written as Avro's Java
library does it: a name is defined once and referred to from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.registered import Reference

NAMESPACE: Final = "io.confluent.connect.avro"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
DEFAULT_NAME: Final = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
FIXED_SIZE: Final = "connect.fixed.size"
DECIMAL_PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64
PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
DEEPEST: Final = 100
REMEDY: Final = "Correct the schema where it is registered."


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """How Avro and Connect schemas map (SEMANTICS A1.1, A11). The sink's defaults; the converter's are `CONVERTER_OPTIONS`.

    `enhanced`: enums and packages of names are kept (`enhanced.avro.schema.support`); `meta_data`: `connect.*` properties are written
    and read (`connect.meta.data`); `optional_map_keys`: optional string keys count as plain ones (`allow.optional.map.keys`);
    `scrub_invalid_names`: names that Avro does not allow are changed instead of refused.
    """

    enhanced: bool = True
    meta_data: bool = True
    optional_map_keys: bool = False
    scrub_invalid_names: bool = False


CONVERTER_OPTIONS: Final = AvroOptions(enhanced=False)


@dataclass(slots=True)
class AvroField:
    """A member of a record; `props` holds all but name and type."""

    name: str
    type: AvroType
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """A type with its references resolved: a recursive type is a cycle. `name` is the full name, `props` all that has no member here."""

    kind: str
    name: str | None = None
    props: dict[str, Any] = field(default_factory=dict)
    fields: list[AvroField] = field(default_factory=list)
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0

    def element(self) -> AvroType:
        """The type of an array's items or a map's values."""
        assert self.items is not None
        return self.items

    def simple_name(self) -> str:
        """The name without its namespace."""
        return (self.name or "").rpartition(".")[2]


def load_types(text: str, references: Sequence[Reference]) -> AvroType:
    """The type of a schema's text, after those it refers to. Raises SchemaError for broken JSON or a broken schema."""
    reader = _Reader()
    for reference in references:
        reader.read(_json(reference.text, f"the referenced schema {reference.name}"), "", 0)
    return reader.read(_json(text, "the Avro schema"), "", 0)


def read_types(avro: Any) -> AvroType:
    """The type of a schema's parsed JSON. Raises SchemaError for a broken schema."""
    return _Reader().read(avro, "", 0)


def _json(text: str, what: str) -> Any:
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{what} is not JSON: {str(error)[:80]}. {REMEDY}") from None


class _Reader:
    """Reads parsed JSON into types; keeps the named ones for those that refer to them."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def read(self, avro: Any, space: str, depth: int) -> AvroType:
        """The type, where `space` is the namespace around it."""
        if depth > DEEPEST:
            raise SchemaError(f"The Avro schema is nested deeper than {DEEPEST} levels, which is not supported.")
        if isinstance(avro, str):
            return self._reference(avro, space)
        if isinstance(avro, list):
            return _union([self.read(branch, space, depth + 1) for branch in avro])
        kind = avro.get("type") if isinstance(avro, dict) else None
        if isinstance(kind, (dict, list)):
            return self.read(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise SchemaError(f"{json.dumps(avro)[:80]} is not an Avro schema: it has no type. {REMEDY}")
        props = {key: value for key, value in avro.items() if key != "type"}
        if kind in PRIMITIVES:
            return AvroType(kind, props=props)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            if member not in props:
                raise SchemaError(f"An Avro {kind} has no {member}. {REMEDY}")
            return AvroType(kind, items=self.read(props.pop(member), space, depth + 1), props=props)
        if kind in NAMED or kind == "error":
            return self._definition("record" if kind == "error" else kind, props, space, depth)
        return self._reference(kind, space)

    def _reference(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full(name, space)) or self._named.get(name)
        if found is None:
            raise SchemaError(
                f"The Avro type {name} is not defined. Define it before its use, or register it as a reference of the schema."
            )
        return found

    def _definition(self, kind: str, props: dict[str, Any], space: str, depth: int) -> AvroType:
        name, namespace = props.pop("name", None), props.pop("namespace", None)
        if not isinstance(name, str) or not name:
            raise SchemaError(f"An Avro {kind} has no name. {REMEDY}")
        full = _full(name, namespace if isinstance(namespace, str) else space)
        if full in self._named:
            raise SchemaError(f"Can't redefine: {full}. {REMEDY}")
        made = self._named[full] = AvroType(kind, name=full, props=props)
        if kind == "enum":
            made.symbols = _symbols(full, props.pop("symbols", None))
        elif kind == "fixed":
            made.size = _size(full, props.pop("size", None))
        else:
            self._members(made, props.pop("fields", None), depth)
        return made

    def _members(self, record: AvroType, fields: Any, depth: int) -> None:
        assert record.name is not None
        if not isinstance(fields, list):
            raise SchemaError(f"The Avro record {record.name} has no list of fields. {REMEDY}")
        space, names = record.name.rpartition(".")[0], set[str]()
        for member in fields:
            name = member.get("name") if isinstance(member, dict) else None
            if not isinstance(name, str) or "type" not in member:
                raise SchemaError(f"A field of the Avro record {record.name} has no name or type. {REMEDY}")
            if name in names:
                raise SchemaError(f"The Avro record {record.name} has two fields {name}. {REMEDY}")
            names.add(name)
            props = {key: value for key, value in member.items() if key not in ("name", "type")}
            record.fields.append(AvroField(name, self.read(member["type"], space, depth + 1), props))


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _symbols(name: str, symbols: Any) -> tuple[str, ...]:
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise SchemaError(f"The Avro enum {name} has no list of symbols. {REMEDY}")
    if len(set(symbols)) != len(symbols):
        raise SchemaError(f"The Avro enum {name} has a symbol twice. {REMEDY}")
    return tuple(symbols)


def _size(name: str, size: Any) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SchemaError(f"The Avro fixed {name} has the size {size!r}, not a whole number. {REMEDY}")
    return size


def _union(branches: list[AvroType]) -> AvroType:
    labels = [branch.name or branch.kind for branch in branches]
    if "union" in labels:
        raise SchemaError(f"An Avro union is directly in another one. {REMEDY}")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SchemaError(f"Duplicate in union: {twice}. {REMEDY}")
    return AvroType("union", branches=branches)


def nullable(avro: AvroType) -> AvroType | None:
    """The other branch of a union of null and one more; None for any other type."""
    others = [branch for branch in avro.branches if branch.kind != "null"]
    return others[0] if len(avro.branches) == 2 and len(others) == 1 else None


def is_map_entry(avro: AvroType) -> bool:
    """Whether an array of this type stands for a map, one record per entry."""
    own = avro.name == f"{NAMESPACE}.{MAP_ENTRY}" or avro.props.get("connect.internal.type") == MAP_ENTRY
    return avro.kind == "record" and own


def same_binary(writer: Any, target: Any) -> bool:
    """Whether a payload of the schema `writer` is, byte for byte, the body of a value of the schema `target` (both parsed JSON).

    Structure and order decide: fields, union branches, enum symbols, sizes. Names, documentation, defaults, properties and logical
    types do not. False for plain `bytes` at the top: such payloads lack the length that a body has (SEMANTICS A11). False also where
    the writer has an optional type with `connect.default`, since a null there is written as the default.
    """
    one, other = read_types(writer), read_types(target)
    return one.kind != "bytes" and same_layout(one, other) and not _fills_nulls(one, set())


def same_layout(one: AvroType, other: AvroType) -> bool:
    """Whether two types have the same binary form."""
    return _same(one, other, set(), _layout)


def _layout(avro: AvroType) -> Any:
    return avro.kind, avro.symbols, avro.size


def _meaning(avro: AvroType) -> Any:
    names = [field.name for field in avro.fields]
    return _layout(avro), avro.name, names, [avro.props.get(key) for key in ("logicalType", "precision", "scale")]


def _same(one: AvroType, other: AvroType, seen: set[tuple[int, int]], facts: Callable[[AvroType], Any]) -> bool:
    # A pair that is being compared already counts as the same: only a difference elsewhere can tell recursive types apart.
    pair = (id(one), id(other))
    if pair in seen:
        return True
    seen.add(pair)
    if facts(one) != facts(other):
        return False
    parts, others = _parts(one), _parts(other)
    return len(parts) == len(others) and all(_same(a, b, seen, facts) for a, b in zip(parts, others, strict=True))


def _fills_nulls(avro: AvroType, seen: set[int]) -> bool:
    if id(avro) in seen:
        return False
    seen.add(id(avro))
    wrapped = nullable(avro)
    own = wrapped is not None and wrapped.props.get("connect.default") is not None
    return own or any(_fills_nulls(part, seen) for part in _parts(avro))


def _parts(avro: AvroType) -> list[AvroType]:
    return [avro.element()] if avro.items is not None else avro.branches or [member.type for member in avro.fields]


def document(avro: AvroType) -> Any:
    """Return the schema as JSON. Raises SchemaError if two different types have one name.

    Types that differ in documentation, defaults and other properties alone count as one, that of the first place, as in the original.
    """
    return _document(avro, "", {})


def _document(avro: AvroType, space: str, defined: dict[str, AvroType]) -> Any:
    if avro.kind == "union":
        return [_document(branch, space, defined) for branch in avro.branches]
    if avro.name is not None:
        return _named(avro, avro.name, space, defined)
    if avro.kind in ("array", "map"):
        member = "items" if avro.kind == "array" else "values"
        return {"type": avro.kind, member: _document(avro.element(), space, defined), **avro.props}
    return {"type": avro.kind, **avro.props} if avro.props else avro.kind


def _named(avro: AvroType, full: str, space: str, defined: dict[str, AvroType]) -> Any:
    own_space, _, name = full.rpartition(".")
    if full in defined:
        if not _same(defined[full], avro, set(), _meaning):
            raise SchemaError(
                f"Can't redefine: {full}. Two different types of the schema have this name. Rename one, or, of Protobuf, set "
                "enhanced.protobuf.schema.support=true of the converter, which names messages with their packages."
            )
        return name if own_space in ("", space) and name not in PRIMITIVES else full
    defined[full] = avro
    props = dict(avro.props)
    made: dict[str, Any] = {"type": avro.kind, "name": name}
    if own_space != space:
        made["namespace"] = own_space
    if props.get("doc") is not None:
        made["doc"] = props.pop("doc")
    if avro.kind == "fixed":
        made["size"] = avro.size
    elif avro.kind == "enum":
        made["symbols"] = list(avro.symbols)
    else:
        made["fields"] = [
            {"name": member.name, "type": _document(member.type, own_space, defined), **member.props}
            for member in avro.fields
        ]
    return made | props
