"""How are Avro's primitive types read from and written to bytes? Readers take a datum and a position, and give value and next position.

Readers raise IndexError where the data ends too early (the caller says of what), SchemaError where it is malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.expansion import Allowance


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
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > 63:
            raise SchemaError("Invalid long encoding: a number is longer than 10 bytes.")
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if number >> 64:
        raise SchemaError("Invalid long encoding: a number has more than 64 bits.")
    return (number >> 1) ^ -(number & 1), pos


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


def read_fixed(data: bytes, pos: int, *, size: int) -> bytes:
    """So many bytes."""
    raw = data[pos : pos + size]
    if len(raw) != size:
        raise IndexError
    return raw


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
