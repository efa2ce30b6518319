"""How do headers come and go? `DropHeaders`, `HeaderFrom`, `InsertHeader`.

A literal is read, and a header's value written, as Connect's `Values` does: the narrowest number, a date, a list, else text.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kafka_s3.connect.java.numbers import decimal_text, double_text, float_text, narrow
from kafka_s3.connect.java.simple_dates import DAY_MS, SimpleDates, iso_text
from kafka_s3.connect.schemas.compatibility import NUMBERS
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaType
from kafka_s3.connect.schemas.json_form import BOUNDS, FLOATS
from kafka_s3.connect.transforms.record import (
    NULL_POINTER,
    ConnectRecord,
    Header,
    RecordPart,
    Refused,
    Schema,
    bare,
    field_values,
    java_class,
    require_map,
    require_struct,
)  # fmt: skip

NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,9})?")
QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
TOKEN: Final = re.compile(r'[^\[\]{},:"]+')
STRING: Final = ConnectSchema(SchemaType.STRING)
TIMES: Final = (
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", TIMESTAMP),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"), "yyyy-MM-dd", DATE),
    (re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"), "HH:mm:ss.SSS'Z'", TIME),
)  # fmt: skip
Typed = tuple[Any, Schema]


def literal(text: str) -> Typed:
    """The value and its schema; None and None for `null`. A number that something else than text follows counts alone, as there."""
    stripped = text.strip()
    if stripped in ("null", "true", "false"):
        return (None, None) if stripped == "null" else (stripped == "true", ConnectSchema(SchemaType.BOOLEAN))
    time = _time(stripped, 0)
    if time is not None:
        return time[0]
    if stripped[:1] in ("[", "{"):
        try:
            found, end = _nested(stripped, 0)
        except (ValueError, IndexError):
            return stripped, STRING
        return found if end == len(stripped) else (stripped, STRING)
    token = TOKEN.match(stripped)
    if token is not None and NUMBER.fullmatch(token[0].strip()):
        return _number(token[0].strip())
    return stripped if stripped else text, STRING


def _time(text: str, at: int) -> tuple[Typed, int] | None:
    """The date or time at a position, and where it ends."""
    for form, pattern, name in TIMES:
        found = form.match(text, at)
        if found is not None and text[found.end() : found.end() + 1] in ("", ",", "]", "}", ":", " "):
            when = SimpleDates(pattern, now_ms=0).parse(found[0])
            kind = SchemaType.INT64 if name == TIMESTAMP else SchemaType.INT32
            value = when // DAY_MS if name == DATE else when
            return (value, ConnectSchema(kind, name=name, version=1)), found.end()
    return None


def _number(text: str) -> Typed:
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return text, STRING
    if exact.adjusted() < 40 and exact == exact.to_integral_value():
        for kind, bits in BOUNDS.items():
            if -(2**bits) <= exact < 2**bits:
                return int(exact), ConnectSchema(kind)
        if exact.as_tuple().exponent == 0:
            return exact, decimal_schema(exact)
    near = narrow(float(exact))
    if math.isfinite(near):
        return near, ConnectSchema(SchemaType.FLOAT32)
    wide = float(exact)
    return (wide, ConnectSchema(SchemaType.FLOAT64)) if math.isfinite(wide) else (exact, decimal_schema(exact))


def decimal_schema(number: Decimal) -> ConnectSchema:
    """The schema of a decimal with the scale that it has."""
    scale = -int(number.as_tuple().exponent)
    return ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(scale)),))


def _nested(text: str, at: int) -> tuple[Typed, int]:
    """The element at a position, and where it ends. Raises ValueError."""
    at = _past_blanks(text, at)
    if text[at] == "[":
        return _array(text, at + 1)
    if text[at] == "{":
        return _map(text, at + 1)
    time = _time(text, at)
    if time is not None:
        return time
    quoted = QUOTED.match(text, at)
    if quoted is not None:
        return (re.sub(r"\\(.)", r"\1", quoted[1]), STRING), quoted.end()
    token = TOKEN.match(text, at)
    if token is None:
        raise ValueError(text)
    word = token[0].strip()
    if word in ("true", "false"):
        return (word == "true", ConnectSchema(SchemaType.BOOLEAN)), token.end()
    if word == "null":
        return (None, None), token.end()
    if not NUMBER.fullmatch(word):
        raise ValueError(text)
    return _number(word), token.end()


def _array(text: str, at: int) -> tuple[Typed, int]:
    found: list[Typed] = []
    while True:
        at = _past_blanks(text, at)
        if text[at] == "]":
            items, schema = _common(found)
            return (items, ConnectSchema(SchemaType.ARRAY, items=schema)), at + 1
        one, at = _nested(text, at)
        if one[1] is None:
            raise ValueError(text)
        found.append(one)
        at = _past_comma(text, at, "]")


def _map(text: str, at: int) -> tuple[Typed, int]:
    keys: list[Typed] = []
    values: list[Typed] = []
    while True:
        at = _past_blanks(text, at)
        if text[at] == "}":
            named, key_schema = _common(keys)
            members, value_schema = _common(values)
            schema = ConnectSchema(SchemaType.MAP, keys=key_schema, values=value_schema)
            return (list(zip(named, members, strict=True)), schema), at + 1
        key, at = _nested(text, at)
        at = _past_blanks(text, at)
        if text[at] != ":":
            raise ValueError(text)
        value, at = _nested(text, at + 1)
        keys.append(key)
        values.append(value)
        at = _past_comma(text, at, "}")


def _common(found: Sequence[Typed]) -> tuple[list[Any], Schema]:
    """The values in the narrowest schema that holds all of them, which is none where they are of different kinds."""
    schemas = {schema for _, schema in found}
    values = [value for value, _ in found]
    if len(schemas) == 1:
        return values, next(iter(schemas))
    kinds = {schema.kind if schema is not None and schema.name is None else None for schema in schemas}
    if kinds and kinds <= set(NUMBERS):
        widest = max((kind for kind in kinds if kind is not None), key=NUMBERS.index)
        floats = widest in FLOATS
        return [float(value) if floats else value for value in values], ConnectSchema(widest)
    return values, None


def _past_blanks(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def _past_comma(text: str, at: int, end: str) -> int:
    at = _past_blanks(text, at)
    if text[at] == ",":
        return at + 1
    if text[at] != end:
        raise ValueError(text)
    return at


def text_of(value: Any, schema: Schema) -> str | None:
    """A header's value as text, as Connect's `Values` writes it: text as it is, bytes in base64, lists and structs as JSON."""
    if value is None or isinstance(value, str):
        return value
    return _embedded(value, schema)


def _embedded(value: Any, schema: Schema) -> str:
    name = schema.name if schema is not None else None
    java = java_class(value, schema)
    if name in (DATE, TIME, TIMESTAMP):
        return iso_text(value * DAY_MS if name == DATE else value)
    match value:
        case None:
            return "null"
        case bool():
            return json.dumps(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return float_text(value) if java == "java.lang.Float" else double_text(value)
        case Decimal():
            return decimal_text(value)
        case dict():
            names = {name: json.dumps(name, ensure_ascii=False) for name in value}
            return "{" + ",".join(f"{names[k]}:{_embedded(v, _member(schema, k))}" for k, v in value.items()) + "}"
        case list() if schema is not None and schema.kind is SchemaType.MAP:
            return "{" + ",".join(f"{_embedded(k, schema.keys)}:{_embedded(v, schema.values)}" for k, v in value) + "}"
        case list():
            return "[" + ",".join(_embedded(item, schema.items if schema is not None else None) for item in value) + "]"
        case _:
            return str(value)


def _member(schema: Schema, name: str) -> Schema:
    return schema.at_path((name,)) if schema is not None else None


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
        value, schema = self.part.value_of(record)
        purpose = f"header {'move' if self.moves else 'copy'}"
        if schema is None:
            found = require_map(value, purpose)
            added = [Header(name, found.get(field), None) for field, name in zip(self.fields, self.names, strict=True)]
            rest = {name: member for name, member in found.items() if name not in self.fields}
            return self._put(record, rest if self.moves else found, None, added)
        members = require_struct(value, schema, purpose)
        own = field_values(members, schema, defaults=self.defaults)
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
