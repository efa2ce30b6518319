"""Which function writes a Connect value in Avro's binary form? One per type, put together once per schema."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from kafka_s3.connect.schemas.avro_binary import DOUBLE, FLOAT, Writer, utf8, write_blocks, write_bytes, write_long
from kafka_s3.connect.schemas.avro_defaults import null_default, part
from kafka_s3.connect.schemas.avro_types import UNION, AvroType
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.decimals import unscaled_bytes
from kafka_s3.connect.schemas.json_form import BOUNDS, scale_of

BYTES: Final = (bytes, bytearray, memoryview)


def writer_of(schema: ConnectSchema, avro: AvroType) -> Writer:
    """The function that writes values of a schema as the type that the schema maps to."""
    if schema.kind is SchemaType.STRUCT and schema.name == UNION:
        return _union(schema, avro)
    if schema.optional:
        return _optional(schema, avro)
    match schema.kind:
        case SchemaType.STRUCT:
            return _record(schema, avro)
        case SchemaType.ARRAY:
            return _array(schema, avro)
        case SchemaType.MAP:
            return _map(schema, avro)
        case SchemaType.STRING:
            return _enum(avro.symbols) if avro.kind == "enum" else _string
        case SchemaType.BYTES:
            return _bytes(schema, avro)
        case SchemaType.BOOLEAN:
            return _boolean
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return partial(_floating, packer=FLOAT if schema.kind is SchemaType.FLOAT32 else DOUBLE)
        case _:
            return _integer(schema.kind)


def _optional(schema: ConnectSchema, avro: AvroType) -> Writer:
    index = next(place for place, branch in enumerate(avro.branches) if branch.kind != "null")
    inner = writer_of(replace(schema, optional=False), avro.branches[index])
    tag, null = (0, 2) if index == 0 else (2, 0)

    def write(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(tag)
            inner(value, out)

    return write


def _record(schema: ConnectSchema, avro: AvroType) -> Writer:
    members = [
        (field.name, writer_of(field.schema, member.type), null_default(field.schema))
        for field, member in zip(schema.fields, avro.fields, strict=True)
    ]

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise _misfit(value, "struct")
        for name, inner, default in members:
            found = value.get(name)
            try:
                inner(default() if found is None and default is not None else found, out)
            except SchemaError as error:
                raise SchemaError(f"{name}: {error}") from None

    return write


def _union(schema: ConnectSchema, avro: AvroType) -> Writer:
    filled = [(place, branch) for place, branch in enumerate(avro.branches) if branch.kind != "null"]
    members = [
        (field.name, place, writer_of(replace(field.schema, optional=False), branch))
        for field, (place, branch) in zip(schema.fields, filled, strict=True)
    ]
    null = next((place for place, branch in enumerate(avro.branches) if branch.kind == "null"), None)

    def write(value: Any, out: bytearray) -> None:
        if value is not None and not isinstance(value, dict):
            raise _misfit(value, "union")
        for name, place, inner in members:
            found = None if value is None else value.get(name)
            if found is not None:
                write_long(place, out)
                return inner(found, out)
        if null is None:
            raise _misfit(None, "union")
        return write_long(null, out)

    return write


def _array(schema: ConnectSchema, avro: AvroType) -> Writer:
    item = writer_of(part(schema.items), avro.element())

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple)):
            raise _misfit(value, "array")
        write_blocks(value, out, item=item)

    return write


def _map(schema: ConnectSchema, avro: AvroType) -> Writer:
    keys, values = part(schema.keys), part(schema.values)
    is_map = avro.kind == "map"
    entry_types = [] if is_map else [member.type for member in avro.element().fields]
    key: Writer = _string if is_map else writer_of(keys, entry_types[0])
    item = writer_of(values, avro.element() if is_map else entry_types[1])

    def pair(entry: tuple[Any, Any], out: bytearray) -> None:
        key(entry[0], out)
        item(entry[1], out)

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple, dict)):
            raise _misfit(value, "map")
        write_blocks(list(value.items()) if isinstance(value, dict) else value, out, item=pair)

    return write


def _enum(symbols: tuple[str, ...]) -> Writer:
    places = {symbol: place for place, symbol in enumerate(symbols)}

    def write(value: Any, out: bytearray) -> None:
        place = places.get(value) if isinstance(value, str) else None
        if place is None:
            raise SchemaError(f"{str(value)[:60]!r} is not among the enum's symbols {', '.join(symbols)[:200]}.")
        write_long(place, out)

    return write


def _bytes(schema: ConnectSchema, avro: AvroType) -> Writer:
    scale = scale_of(schema) if schema.name == DECIMAL else None
    fixed = avro.size if avro.kind == "fixed" else None

    def write(value: Any, out: bytearray) -> None:
        if scale is not None and not isinstance(value, Decimal):
            raise _misfit(value, "Decimal")
        if scale is None and not isinstance(value, BYTES):
            raise _misfit(value, "bytes")
        raw = bytes(value) if scale is None else unscaled_bytes(value, scale)
        if fixed is None:
            return write_bytes(raw, out)
        if scale is not None:
            # A number keeps its value when its sign is repeated in front.
            raw = (b"\xff" if raw[0] & 0x80 else b"\0") * (fixed - len(raw)) + raw
        if len(raw) != fixed:
            raise SchemaError(f"A value of {len(raw)} bytes does not fit the fixed size of {fixed}.")
        out += raw
        return None

    return write


def _string(value: Any, out: bytearray) -> None:
    if not isinstance(value, str):
        raise _misfit(value, "string")
    write_bytes(utf8(value), out)


def _boolean(value: Any, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise _misfit(value, "boolean")
    out.append(value)


def _floating(value: Any, out: bytearray, *, packer: struct.Struct) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _misfit(value, "floating point")
    try:
        out += packer.pack(value)
    except (OverflowError, struct.error):
        raise SchemaError("A number is too large for a floating point value.") from None


def _integer(kind: SchemaType) -> Writer:
    low, high = -(1 << BOUNDS[kind]), 1 << BOUNDS[kind]

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _misfit(value, kind)
        if not low <= value < high:
            raise SchemaError(f"A number does not fit the type {kind}.")
        write_long(value, out)

    return write


def _misfit(value: Any, expected: str) -> SchemaError:
    if value is None:
        return SchemaError(f"Found null value for non-optional schema of type {expected}.")
    return SchemaError(f"Invalid type for {expected}: {type(value).__name__}.")
