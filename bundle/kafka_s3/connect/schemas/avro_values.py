"""How do Connect values read from and written as Avro's binary form? A schema is compiled once into a function per value.

Readers take a datum and a position, and give value and next position. They raise IndexError where the data ends too early (`decoder` says
of what), SchemaError where it is malformed. The Python forms of Connect values are those of `json_form`; a null in a field with a default
is the default, as everywhere in Connect. A value without schema is a record with a field per type, of which one is set (SEMANTICS A8.2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from kafka_s3.connect.schemas.avro_types import (
    DEEPEST,
    MAP_ENTRY,
    NAMESPACE,
    UNION,
    AvroType,
    is_map_entry,
    nullable,
    read_types,
    same_layout,
)
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, Recursion, SchemaError, SchemaType, inner_schema
from kafka_s3.connect.schemas.expansion import Allowance, entry_width, recursion_width, width
from kafka_s3.connect.schemas.json_form import BOUNDS, decimal_from, default_value, scale_of, unscaled_bytes


class Datum(bytes):
    """The bytes of a record, with the values that they may still become."""

    allowance: Allowance

    @classmethod
    def of(cls, payload: bytes) -> Datum:
        """A record that nothing has been read of."""
        made = cls(payload)
        made.allowance = Allowance(len(payload))
        return made


Reader = Callable[[Datum, int], tuple[Any, int]]
Writer = Callable[[Any, bytearray], None]
FLOAT: Final = struct.Struct("<f")
DOUBLE: Final = struct.Struct("<d")


def read_long(data: bytes, pos: int) -> tuple[int, int]:
    """A long."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    number, pos = read_varint(data, pos)
    if number >> 64:
        raise SchemaError("Invalid long encoding: a number has more than 64 bits.")
    return (number >> 1) ^ -(number & 1), pos


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, as Avro and Protobuf write it."""
    byte = data[pos]
    pos += 1
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > 63:
            raise SchemaError("Invalid long encoding: a number is longer than 10 bytes.")
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return number, pos


def read_int(data: bytes, pos: int) -> tuple[int, int]:
    """An int."""
    number, pos = read_long(data, pos)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise SchemaError("Invalid int encoding: a number has more than 32 bits.")
    return number, pos


def read_boolean(data: bytes, pos: int) -> tuple[bool, int]:
    """A boolean; like the original, any byte but 1 is false."""
    return data[pos] == 1, pos + 1


def read_float(data: bytes, pos: int) -> tuple[float, int]:
    """A float."""
    if pos + 4 > len(data):
        raise IndexError
    return FLOAT.unpack_from(data, pos)[0], pos + 4


def read_double(data: bytes, pos: int) -> tuple[float, int]:
    """A double."""
    if pos + 8 > len(data):
        raise IndexError
    return DOUBLE.unpack_from(data, pos)[0], pos + 8


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    """Bytes with their length before them."""
    size = data[pos]
    if size < 0x80 and not size & 1:
        size, pos = size >> 1, pos + 1
    else:
        size, pos = read_long(data, pos)
    if size < 0:
        raise SchemaError(f"Malformed data: a length is negative ({size}).")
    end = pos + size
    if end > len(data):
        raise IndexError
    return data[pos:end], end


def read_string(data: bytes, pos: int) -> tuple[str, int]:
    """A string; bytes that are not UTF-8 become U+FFFD, as in the original."""
    raw, pos = read_bytes(data, pos)
    return str(raw, "utf-8", "replace"), pos


def read_fixed(data: bytes, pos: int, *, size: int) -> tuple[bytes, int]:
    """So many bytes."""
    if pos + size > len(data):
        raise IndexError
    return data[pos : pos + size], pos + size


def read_index(data: bytes, pos: int, *, count: int) -> tuple[int, int]:
    """A position in a list of symbols or branches."""
    index, pos = read_long(data, pos)
    if not 0 <= index < count:
        raise SchemaError(f"Malformed data: position {index} among {count} symbols or union branches.")
    return index, pos


def read_blocks(data: Datum, pos: int, *, item: Reader, each: int) -> tuple[list[Any], int]:
    """The items of an array or map, of so many values `each`."""
    found: list[Any] = []
    while True:
        count, pos = read_long(data, pos)
        if count == 0:
            return found, pos
        if count < 0:
            count = -count
            _, pos = read_long(data, pos)
        data.allowance.spend(count, each)
        for _ in range(count):
            value, pos = item(data, pos)
            found.append(value)


def write_long(value: int, out: bytearray) -> None:
    """An int or a long that is known to fit."""
    number = (value << 1) ^ (value >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def long_bytes(value: int) -> bytes:
    """An int or a long that is known to fit, by itself."""
    out = bytearray()
    write_long(value, out)
    return bytes(out)


def write_bytes(value: bytes, out: bytearray) -> None:
    """Bytes with their length before them."""
    write_long(len(value), out)
    out += value


def write_blocks(items: Sequence[Any], out: bytearray, *, item: Writer) -> None:
    """The items of an array or map, in one block."""
    if items:
        write_long(len(items), out)
        for value in items:
            item(value, out)
    out.append(0)


def utf8(value: str) -> bytes:
    """A string's bytes; what UTF-8 cannot hold becomes a question mark, as in the original."""
    return value.encode("utf-8", "replace")


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
# The field of each Python type; bool comes before int, which it is a kind of.
FIELD_INDICES: Final[tuple[tuple[Any, int], ...]] = (
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
    index = _field_index(value)
    out += bytes(index) + b"\x02"
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
    out += bytes(FIELDS - index - 1)


def _field_index(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise SchemaError("A whole number of more than 64 bits cannot be written without a schema.")
    for types, index in FIELD_INDICES:
        if isinstance(value, types):
            return index
    raise SchemaError(f"Unknown type for schemaless data: {type(value).__name__}.")


PRIMITIVES: Final[dict[str, Reader]] = {
    "boolean": read_boolean, "int": read_int, "long": read_long, "float": read_float,
    "double": read_double, "string": read_string, "bytes": read_bytes,
}  # fmt: skip
HALVES: Final = {SchemaType.INT8: 1 << 7, SchemaType.INT16: 1 << 15}


def reader_of(avro: AvroType, schema: ConnectSchema) -> Reader:
    """The function that reads values of a type as those of the Connect schema that the type maps to."""
    wrapped = nullable(avro)
    if wrapped is not None:
        return _nullable_reader(reader_of(wrapped, schema), null_first=avro.branches[0].kind == "null")
    if isinstance(schema.fields, Recursion):
        return _recursion_reader(avro, schema)
    match avro.kind:
        case "record":
            return _record_reader(avro, schema)
        case "union":
            return _union_reader(avro, schema)
        case "map":
            return _pairs_reader(
                read_string, reader_of(avro.element(), inner_schema(schema.values)), entry_width(schema)
            )
        case "array" if is_map_entry(avro.element()):
            return _entries_reader(avro.element(), schema)
        case "array":
            item = reader_of(avro.element(), inner_schema(schema.items))
            return partial(read_blocks, item=item, each=width(schema.items))
        case "enum":
            return _enum_reader(avro.symbols)
        case _:
            return _scalar_reader(avro, schema)


def _recursion_reader(avro: AvroType, schema: ConnectSchema) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        data.allowance.spend(1, recursion_width(schema))
        return _definition_reader(avro, schema)(data, pos)

    return read


@lru_cache(maxsize=256)
def _definition_reader(avro: AvroType, schema: ConnectSchema) -> Reader:
    return reader_of(avro, schema.unrolled())


def _nullable_reader(inner: Reader, *, null_first: bool) -> Reader:
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


def _record_reader(avro: AvroType, schema: ConnectSchema) -> Reader:
    members = [
        (field.name, _filled_reader(reader_of(member.type, field.schema), field.schema))
        for field, member in zip(schema.fields, avro.fields, strict=True)
    ]

    def read(data: Datum, pos: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        for name, member in members:
            found[name], pos = member(data, pos)
        return found, pos

    return read


def _filled_reader(inner: Reader, schema: ConnectSchema) -> Reader:
    if schema.default is None or not schema.optional:
        return inner
    return _converted_reader(inner, lambda value: default_value(schema) if value is None else value)


def _converted_reader(inner: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        value, pos = inner(data, pos)
        return convert(value), pos

    return read


def _union_reader(avro: AvroType, schema: ConnectSchema) -> Reader:
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


def _pairs_reader(first: Reader, second: Reader, each: int) -> Reader:
    def pair(data: Datum, pos: int) -> tuple[Any, int]:
        one, pos = first(data, pos)
        other, pos = second(data, pos)
        return (one, other), pos

    return partial(read_blocks, item=pair, each=each)


def _entries_reader(entry: AvroType, schema: ConnectSchema) -> Reader:
    """Of a map whose entries are records, in which the value may come first."""
    schemas = {"key": inner_schema(schema.keys), "value": inner_schema(schema.values)}
    first, second = (reader_of(member.type, schemas[member.name]) for member in entry.fields)
    pairs = _pairs_reader(first, second, entry_width(schema))
    if entry.fields[0].name == "key":
        return pairs
    return _converted_reader(pairs, lambda found: [(key, value) for value, key in found])


def _enum_reader(symbols: tuple[str, ...]) -> Reader:
    def read(data: Datum, pos: int) -> tuple[Any, int]:
        index, pos = read_index(data, pos, count=len(symbols))
        return symbols[index], pos

    return read


def _scalar_reader(avro: AvroType, schema: ConnectSchema) -> Reader:
    if avro.kind == "null":
        raise SchemaError("A null type that is not part of a union is not supported: it could hold nothing.")
    inner = partial(read_fixed, size=avro.size) if avro.kind == "fixed" else PRIMITIVES[avro.kind]
    half = HALVES.get(schema.kind)
    if schema.name == DECIMAL:
        return _converted_reader(inner, partial(decimal_from, scale=scale_of(schema)))
    if half is None:
        return inner
    # A number beyond the type wraps around, as a Java cast makes it.
    return _converted_reader(inner, lambda value: (value + half) % (2 * half) - half)


BYTES: Final = (bytes, bytearray, memoryview)


def writer_of(schema: ConnectSchema, avro: AvroType) -> Writer:
    """The function that writes values of a schema as the type that the schema maps to."""
    if schema.kind is SchemaType.STRUCT and schema.name == UNION:
        return _union_writer(schema, avro)
    if schema.optional:
        return _optional_writer(schema, avro)
    if isinstance(schema.fields, Recursion):
        return lambda value, out: _definition_writer(schema, avro)(value, out)
    match schema.kind:
        case SchemaType.STRUCT:
            return _record_writer(schema, avro)
        case SchemaType.ARRAY:
            return _array_writer(schema, avro)
        case SchemaType.MAP:
            return _map_writer(schema, avro)
        case SchemaType.STRING:
            return _enum_writer(avro.symbols) if avro.kind == "enum" else _string_writer
        case SchemaType.BYTES:
            return _bytes_writer(schema, avro)
        case SchemaType.BOOLEAN:
            return _boolean_writer
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return partial(_floating_writer, packer=FLOAT if schema.kind is SchemaType.FLOAT32 else DOUBLE)
        case _:
            return _integer_writer(schema.kind)


@lru_cache(maxsize=256)
def _definition_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    return writer_of(schema.unrolled(), avro)


def _optional_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    index = next(index for index, branch in enumerate(avro.branches) if branch.kind != "null")
    inner = writer_of(replace(schema, optional=False), avro.branches[index])
    tag, null = (0, 2) if index == 0 else (2, 0)

    def write(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(tag)
            inner(value, out)

    return write


def _record_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    members = [
        (field.name, writer_of(field.schema, member.type), field.schema)
        for field, member in zip(schema.fields, avro.fields, strict=True)
    ]

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise _misfit(value, "struct")
        for name, inner, its in members:
            found = value.get(name)
            try:
                inner(default_value(its) if found is None else found, out)
            except SchemaError as error:
                raise SchemaError(f"{name}: {error}") from None

    return write


def _union_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    filled = [(index, branch) for index, branch in enumerate(avro.branches) if branch.kind != "null"]
    members = [
        (field.name, index, writer_of(replace(field.schema, optional=False), branch))
        for field, (index, branch) in zip(schema.fields, filled, strict=True)
    ]
    null = next((index for index, branch in enumerate(avro.branches) if branch.kind == "null"), None)

    def write(value: Any, out: bytearray) -> None:
        if value is not None and not isinstance(value, dict):
            raise _misfit(value, "union")
        for name, index, inner in members:
            found = None if value is None else value.get(name)
            if found is not None:
                write_long(index, out)
                return inner(found, out)
        if null is None:
            raise _misfit(None, "union")
        return write_long(null, out)

    return write


def _array_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    item = writer_of(inner_schema(schema.items), avro.element())

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple)):
            raise _misfit(value, "array")
        write_blocks(value, out, item=item)

    return write


def _map_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
    keys, values = inner_schema(schema.keys), inner_schema(schema.values)
    is_map = avro.kind == "map"
    entry_types = [] if is_map else [member.type for member in avro.element().fields]
    key: Writer = _string_writer if is_map else writer_of(keys, entry_types[0])
    item = writer_of(values, avro.element() if is_map else entry_types[1])

    def pair(entry: tuple[Any, Any], out: bytearray) -> None:
        key(entry[0], out)
        item(entry[1], out)

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple, dict)):
            raise _misfit(value, "map")
        write_blocks(list(value.items()) if isinstance(value, dict) else value, out, item=pair)

    return write


def _enum_writer(symbols: tuple[str, ...]) -> Writer:
    indices = {symbol: index for index, symbol in enumerate(symbols)}

    def write(value: Any, out: bytearray) -> None:
        index = indices.get(value) if isinstance(value, str) else None
        if index is None:
            raise SchemaError(f"{str(value)[:60]!r} is not among the enum's symbols {', '.join(symbols)[:200]}.")
        write_long(index, out)

    return write


def _bytes_writer(schema: ConnectSchema, avro: AvroType) -> Writer:
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


def _string_writer(value: Any, out: bytearray) -> None:
    if not isinstance(value, str):
        raise _misfit(value, "string")
    write_bytes(utf8(value), out)


def _boolean_writer(value: Any, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise _misfit(value, "boolean")
    out.append(value)


def _floating_writer(value: Any, out: bytearray, *, packer: struct.Struct) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _misfit(value, "floating point")
    try:
        out += packer.pack(value)
    except (OverflowError, struct.error):
        raise SchemaError("A number is too large for a floating point value.") from None


def _integer_writer(kind: SchemaType) -> Writer:
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


def decoder(avro: Any, schema: ConnectSchema | None) -> Callable[[bytes], Any]:
    """A function from a payload to its Connect value; `avro` is the writer's schema, `schema` what `connect_schema_of_avro` gives of it.

    Bytes after the datum are ignored. The function raises SchemaError for data that is truncated or malformed, or becomes
    too many values (`connect.schemas.expansion`).
    """
    decode = measuring_decoder(avro, schema)
    return lambda payload: decode(Datum.of(payload))[0]


def measuring_decoder(avro: Any, schema: ConnectSchema | None) -> Callable[[Datum], tuple[Any, int]]:
    """Like `decoder`, with the length of the datum beside its value: what comes after is no part of it."""
    found = read_types(avro)
    if found.kind == "bytes":
        # Such a payload is the value itself, without a length (SEMANTICS A11).
        return partial(_whole_payload, schema)
    read: Reader = read_anything if schema is None else reader_of(found, schema)

    def decode(payload: Datum) -> tuple[Any, int]:
        try:
            return read(payload, 0)
        except IndexError:
            raise SchemaError(
                f"The Avro data ends too early: after {len(payload)} bytes the value is not complete."
            ) from None
        except RecursionError:
            raise SchemaError("The Avro value is nested too deeply.") from None

    return decode


def encoder(schema: ConnectSchema | None, avro: Any) -> Callable[[Any], bytes]:
    """A function from a Connect value to its Avro body; `avro` is what `avro_schema` gives of `schema`.

    The function raises SchemaError for a value that does not fit, with the field.
    """
    write: Writer = write_anything if schema is None else writer_of(schema, read_types(avro))

    def encode(value: Any) -> bytes:
        out = bytearray()
        try:
            write(value, out)
        except RecursionError:
            raise SchemaError("The value is nested too deeply for Avro.") from None
        return bytes(out)

    return encode


def _whole_payload(schema: ConnectSchema | None, payload: bytes) -> tuple[Any, int]:
    decimal = schema is not None and schema.name == DECIMAL
    value = decimal_from(payload, scale_of(schema)) if decimal and schema is not None else payload
    return value, len(payload)
