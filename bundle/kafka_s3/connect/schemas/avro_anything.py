"""How does Avro hold a value without schema? As a record with a field per type, of which one is set (SEMANTICS A8.2)."""

from __future__ import annotations

from typing import Any, Final

from kafka_s3.connect.schemas.avro_binary import (
    DOUBLE,
    Datum,
    Reader,
    read_blocks,
    read_boolean,
    read_bytes,
    read_double,
    read_float,
    read_index,
    read_int,
    read_long,
    read_string,
    utf8,
    write_blocks,
    write_bytes,
    write_long,
)
from kafka_s3.connect.schemas.avro_types import DEEPEST, MAP_ENTRY, NAMESPACE, AvroType, read_types, same_layout
from kafka_s3.connect.schemas.connect import SchemaError

NAME: Final = f"{NAMESPACE}.Anything"
SCALARS: Final = ("boolean", "bytes", "double", "float", "int", "long", "string")
ENTRY: Final = {
    "type": "record",
    "name": MAP_ENTRY,
    "fields": [{"name": "key", "type": "Anything"}, {"name": "value", "type": "Anything"}],
}
ANYTHING: Final[Any] = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *({"name": kind, "type": ["null", kind], "default": None} for kind in SCALARS),
        {"name": "array", "type": ["null", {"type": "array", "items": "Anything"}], "default": None},
        {"name": "map", "type": ["null", {"type": "array", "items": ENTRY}], "default": None},
    ],
}
FIELDS: Final = 9
READERS: Final[tuple[Reader, ...]] = (
    read_boolean, read_bytes, read_double, read_float, read_int, read_long, read_string,
)  # fmt: skip
# The field of each Python type; bool stands before int, which it is a kind of.
PLACES: Final[tuple[tuple[Any, int], ...]] = (
    (bool, 0), ((bytes, bytearray, memoryview), 1), (float, 2), (int, 5), (str, 6), ((list, tuple), 7), (dict, 8),
)  # fmt: skip


def is_anything(avro: AvroType) -> bool:
    """Whether a type is that of schemaless values."""
    return avro.name == NAME and same_layout(avro, read_types(ANYTHING))


def read_anything(data: Datum, pos: int, *, depth: int = 0) -> tuple[Any, int]:
    """A schemaless value: a map is a dict, or a list of pairs where not all keys are strings. Raises SchemaError if nested too deep."""
    if depth > DEEPEST:
        raise SchemaError(f"A value is nested deeper than {DEEPEST} levels, which is not supported.")

    def nested(data: Datum, pos: int) -> tuple[Any, int]:
        return read_anything(data, pos, depth=depth + 1)

    def entry(data: Datum, pos: int) -> tuple[list[Any], int]:
        key, pos = nested(data, pos)
        value, pos = nested(data, pos)
        return [key, value], pos

    found: Any = None
    for read in (*READERS, nested, entry):
        there, pos = read_index(data, pos, count=2)
        if there:
            is_list = read is nested or read is entry
            value, pos = read_blocks(data, pos, item=read, each=1) if is_list else read(data, pos)
            if found is None:
                found = _plain_map(value) if read is entry else value
    return found, pos


def _plain_map(pairs: list[list[Any]]) -> Any:
    return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else pairs


def write_anything(value: Any, out: bytearray, *, depth: int = 0) -> None:
    """A schemaless value; whole numbers are longs, others doubles. Raises SchemaError for types that such values cannot have."""
    if depth > DEEPEST:
        raise SchemaError(f"A value is nested deeper than {DEEPEST} levels, which is not supported.")

    def nested(item: Any, out: bytearray) -> None:
        write_anything(item, out, depth=depth + 1)

    def entry(pair: tuple[Any, Any], out: bytearray) -> None:
        nested(pair[0], out)
        nested(pair[1], out)

    if value is None:
        out += bytes(FIELDS)
        return
    place = _place(value)
    out += bytes(place) + b"\x02"
    match value:
        case bool():
            out.append(value)
        case int():
            write_long(value, out)
        case float():
            out += DOUBLE.pack(value)
        case str():
            write_bytes(utf8(value), out)
        case list() | tuple():
            write_blocks(list(value), out, item=nested)
        case dict():
            write_blocks(list(value.items()), out, item=entry)
        case _:
            write_bytes(bytes(value), out)
    out += bytes(FIELDS - place - 1)


def _place(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise SchemaError("A whole number of more than 64 bits cannot be written without a schema.")
    for types, place in PLACES:
        if isinstance(value, types):
            return place
    raise SchemaError(f"Unknown type for schemaless data: {type(value).__name__}.")
