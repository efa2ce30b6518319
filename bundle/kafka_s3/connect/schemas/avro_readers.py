"""Which function reads a Connect value from Avro's binary form? One per type, put together once per schema."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka_s3.connect.schemas import avro_binary as binary
from kafka_s3.connect.schemas.avro_binary import Datum, Reader, read_blocks, read_fixed, read_index
from kafka_s3.connect.schemas.avro_defaults import null_default, part
from kafka_s3.connect.schemas.avro_types import AvroType, is_map_entry, nullable
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.decimals import decimal_at
from kafka_s3.connect.schemas.expansion import entry_width, width
from kafka_s3.connect.schemas.json_form import scale_of

PRIMITIVES: Final[dict[str, Reader]] = {
    "boolean": binary.read_boolean, "int": binary.read_int, "long": binary.read_long, "float": binary.read_float,
    "double": binary.read_double, "string": binary.read_string, "bytes": binary.read_bytes,
}  # fmt: skip
HALVES: Final = {SchemaType.INT8: 1 << 7, SchemaType.INT16: 1 << 15}


def reader_of(avro: AvroType, schema: ConnectSchema) -> Reader:
    """The function that reads values of a type as those of the Connect schema that the type maps to."""
    wrapped = nullable(avro)
    if wrapped is not None:
        return _nullable(reader_of(wrapped, schema), null_first=avro.branches[0].kind == "null")
    match avro.kind:
        case "record":
            return _record(avro, schema)
        case "union":
            return _union(avro, schema)
        case "map":
            return _pairs(binary.read_string, reader_of(avro.element(), part(schema.values)), entry_width(schema))
        case "array" if is_map_entry(avro.element()):
            return _entries(avro.element(), schema)
        case "array":
            item = reader_of(avro.element(), part(schema.items))
            return partial(read_blocks, item=item, each=width(schema.items))
        case "enum":
            return _enum(avro.symbols)
        case _:
            return _scalar(avro, schema)


def _nullable(inner: Reader, *, null_first: bool) -> Reader:
    null, other = (0, 2) if null_first else (2, 0)

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        tag = data[pos]
        if tag == other:
            return inner(data, pos + 1)
        if tag == null:
            return None, pos + 1
        index, pos = read_index(data, pos, count=2)
        return inner(data, pos) if index * 2 == other else (None, pos)

    return read


def _record(avro: AvroType, schema: ConnectSchema) -> Reader:
    members = [
        (field.name, _filled(reader_of(member.type, field.schema), field.schema))
        for field, member in zip(schema.fields, avro.fields, strict=True)
    ]

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        for name, member in members:
            found[name], pos = member(data, pos)
        return found, pos

    return read


def _filled(inner: Reader, schema: ConnectSchema) -> Reader:
    default = null_default(schema)
    if default is None or not schema.optional:
        return inner

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        value, pos = inner(data, pos)
        return default() if value is None else value, pos

    return read


def _union(avro: AvroType, schema: ConnectSchema) -> Reader:
    fields = iter(schema.fields)
    branches: list[tuple[str, Reader] | None] = []
    for branch in avro.branches:
        field = next(fields) if branch.kind != "null" else None
        branches.append(None if field is None else (field.name, reader_of(branch, field.schema)))
    unset = dict.fromkeys(field.name for field in schema.fields)

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        index, pos = read_index(data, pos, count=len(branches))
        branch = branches[index]
        if branch is None:
            return None, pos
        name, inner = branch
        value, pos = inner(data, pos)
        return unset | {name: value}, pos

    return read


def _pairs(key: Reader, value: Reader, each: int) -> Reader:
    def pair(data: Datum, pos: int) -> tuple[Any, int]:
        one, pos = key(data, pos)
        other, pos = value(data, pos)
        return (one, other), pos

    return partial(read_blocks, item=pair, each=each)


def _entries(entry: AvroType, schema: ConnectSchema) -> Reader:
    readers = {
        member.name: reader_of(member.type, part(schema.keys if member.name == "key" else schema.values))
        for member in entry.fields
    }
    first, second = readers.values()

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        pairs, pos = read_blocks(data, pos, item=pair, each=each)
        return pairs if key_first else [(key, value) for value, key in pairs], pos

    def pair(data: Datum, pos: int) -> tuple[Any, int]:
        one, pos = first(data, pos)
        other, pos = second(data, pos)
        return (one, other), pos

    key_first, each = entry.fields[0].name == "key", entry_width(schema)
    return read


def _enum(symbols: tuple[str, ...]) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        index, pos = read_index(data, pos, count=len(symbols))
        return symbols[index], pos

    return read


def _scalar(avro: AvroType, schema: ConnectSchema) -> Reader:
    if avro.kind == "null":
        raise SchemaError("A null type that is not part of a union is not supported: it could hold nothing.")
    inner = _fixed(avro.size) if avro.kind == "fixed" else PRIMITIVES[avro.kind]
    half = HALVES.get(schema.kind)
    if schema.name == DECIMAL:
        return _decimal(inner, scale_of(schema))
    return inner if half is None else _small(inner, half)


def _fixed(size: int) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        return read_fixed(data, pos, size=size), pos + size

    return read


def _decimal(inner: Reader, scale: int) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        raw, pos = inner(data, pos)
        return decimal_at(raw, scale), pos

    return read


def _small(inner: Reader, half: int) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        value, pos = inner(data, pos)
        # A number beyond the type wraps around, as a Java cast makes it.
        return (value + half) % (2 * half) - half, pos

    return read
