"""What do Avro payloads of one flat schema hold? One loop over the bytes of a whole batch, compiled, that checks them on the way.

A payload passes where it is one datum to its last byte, its strings are UTF-8, its ints have 32 bits, and its tags and symbols are of the
schema: a part of what the decoder of single payloads (`schemas.avro_readers`) takes. It decides over all others.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Final

import numpy as np

from kafka_s3.records.compiling import byte_at, compiled, word_at
from kafka_s3.records.utf8_loops import is_utf8

BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, ENUM = range(8)
NOT_NULLABLE: Final = -1
_LENGTH: Final = 0xFFFFFFFF
"""A text is a number: where it begins, above the 32 bits of its length."""


@compiled("int64(int64, int64, int64[::1])")
def _behind_long(at, end, number):
    """Behind the varint at a place, and its number; 0: there is none of 64 bits."""
    raw, shift = np.uint64(0), 0
    while at < end and shift < 70:
        code = byte_at(at)
        at += 1
        if shift == 63 and code > 1:
            return 0
        raw |= np.uint64(code & 0x7F) << np.uint64(shift)
        if code < 0x80:
            number[0] = np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))
            return at
        shift += 7
    return 0


@compiled("int64(int64, int64, int64, int64, int64, int64[::1])")
def _behind_value(base, at, end, kind, symbols, number):
    """Behind a value of this kind, and its number: bits of a fraction, place and length of a text; 0: there is none."""
    if kind == BOOLEAN:
        if at >= end:
            return 0
        number[0] = byte_at(at)
        return at + 1
    if kind in (DOUBLE, FLOAT):
        size = 8 if kind == DOUBLE else 4
        if at + size > end:
            return 0
        if kind == DOUBLE:
            number[0] = np.int64(word_at(at))
        else:
            number[0] = byte_at(at) | byte_at(at + 1) << 8 | byte_at(at + 2) << 16 | byte_at(at + 3) << 24
        return at + size
    at = _behind_long(at, end, number)
    if at == 0:
        return 0
    value = number[0]
    if kind == LONG:
        return at
    if kind == INT:
        return at if -0x80000000 <= value <= 0x7FFFFFFF else 0
    if kind == ENUM:
        return at if 0 <= value < symbols else 0
    if value < 0 or value > end - at or (kind == STRING and not is_utf8(at, at + value)):
        return 0
    number[0] = (at - base) << 32 | value
    return at + value


@compiled(
    "boolean(Array(uint8, 1, 'C', True), Array(int32, 1, 'C', True), int64[:, ::1], int64[:, ::1], boolean[:, ::1])"
)
def walk(data, bounds, leaves, numbers, valid):
    """Whether all payloads pass. Payload `row` has the bytes `data[bounds[row]:bounds[row + 1]]`.

    A row of `leaves` is a field's kind, the index of null among the branches of its union or NOT_NULLABLE, the count of its symbols, and
    the column of `numbers` and `valid` that it fills, -1 for none.
    """
    number, base = np.zeros(1, np.int64), np.int64(data.ctypes.data)
    for row in range(len(bounds) - 1):
        at, end = base + bounds[row], base + bounds[row + 1]
        for leaf in range(len(leaves)):
            column, there = leaves[leaf, 3], True
            if leaves[leaf, 1] != NOT_NULLABLE:
                at = _behind_long(at, end, number)
                if at == 0 or number[0] < 0 or number[0] > 1:
                    return False
                there = number[0] != leaves[leaf, 1]
            if there:
                at = _behind_value(base, at, end, leaves[leaf, 0], leaves[leaf, 2], number)
                if at == 0:
                    return False
            if column >= 0:
                numbers[column, row] = number[0] if there else 0
                valid[column, row] = there
        if at != end:
            return False
    return True


@compiled("int64(int64[::1])")
def total(texts):
    """How many bytes some texts have."""
    size = 0
    for row in range(len(texts)):
        size += texts[row] & _LENGTH
    return size


@compiled("void(Array(uint8, 1, 'C', True), int64[::1], int32[::1], uint8[::1])")
def gather(data, texts, bounds, out):
    """The bytes of texts behind each other, and where each begins and ends; a null has none."""
    at, base = 0, np.int64(data.ctypes.data)
    for row in range(len(texts)):
        begin, size = base + (texts[row] >> 32), texts[row] & _LENGTH
        for place in range(size):
            out[at + place] = byte_at(begin + place)
        at += size
        bounds[row + 1] = at
