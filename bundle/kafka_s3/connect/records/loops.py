"""Which compiled loops do converters and formats share? Whether bytes are UTF-8 (Unicode 15, table 3-7: no overlong forms, no halves of
surrogate pairs), values put behind each other, prefixes that are alike.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Final

import numpy as np

from kafka_s3.connect.records.compiling import (
    BOUND_ARRAY,
    BYTE_ARRAY,
    byte_at,
    compiled,
    copy_bytes,
    inlined,
    put_byte,
    word_at,
)

ODD: Final = -1
_HIGH = np.uint64(0x8080808080808080)


@compiled("int64(int64, int64)")
def behind_sequence(at, end):
    """Behind the sequence at a byte above 0x7F; ODD: it is none."""
    first = byte_at(at)
    if 0xC2 <= first <= 0xDF:
        more, low, high = 1, 0x80, 0xBF
    elif 0xE0 <= first <= 0xEF:
        more, low, high = 2, 0xA0 if first == 0xE0 else 0x80, 0x9F if first == 0xED else 0xBF
    elif 0xF0 <= first <= 0xF4:
        more, low, high = 3, 0x90 if first == 0xF0 else 0x80, 0x8F if first == 0xF4 else 0xBF
    else:
        return ODD
    if at + more >= end or byte_at(at + 1) < low or byte_at(at + 1) > high:
        return ODD
    for index in range(at + 2, at + more + 1):
        if byte_at(index) < 0x80 or byte_at(index) > 0xBF:
            return ODD
    return at + more + 1


@inlined("boolean(int64, int64)")
def is_utf8(at, end):
    """Whether all bytes from one address to another are."""
    begin = at
    while at < end:
        while at + 8 <= end and not word_at(at) & _HIGH:
            at += 8
        if begin <= end - 8 < at and not word_at(end - 8) & _HIGH:  # the rest, with bytes before it that are
            return True
        while at < end and byte_at(at) < 0x80:
            at += 1
        if at < end:
            at = behind_sequence(at, end)
            if at == ODD:
                return False
    return True


@compiled(f"int64({BOUND_ARRAY}, int64[::1])")
def total_of_rows(bounds, rows):
    """How many bytes the values of these rows have; value `row` is `data[bounds[row]:bounds[row + 1]]`."""
    size = 0
    for row in rows:
        size += bounds[row + 1] - bounds[row]
    return size


@compiled(f"void({BYTE_ARRAY}, {BOUND_ARRAY}, int64[::1], {BYTE_ARRAY}, uint8[::1], int32[::1])")
def join(data, bounds, rows, separator, out, ends):
    """The values of these rows and the separator behind each, into `out`, which has just the room; where each ends, into `ends[1:]`."""
    base, at, size = np.int64(data.ctypes.data), np.int64(out.ctypes.data), len(separator)
    begin, between = at, np.int64(separator.ctypes.data)
    for index in range(len(rows)):
        row = rows[index]
        length = bounds[row + 1] - bounds[row]
        copy_bytes(at, base + bounds[row], length)
        at += length
        for one in range(size):
            put_byte(at + one, byte_at(between + one))
        at += size
        ends[index + 1] = at - begin


LENGTH: Final = 0xFFFFFFFF
"""A text in its place is a number: where it begins, above the 32 bits of its length. A null is 0."""


@compiled("int64(int64[::1])")
def total_of_texts(texts):
    """How many bytes some texts have."""
    size = 0
    for row in range(len(texts)):
        size += texts[row] & LENGTH
    return size


@compiled(f"void({BYTE_ARRAY}, int64[::1], int32[::1], uint8[::1])")
def gather(data, texts, bounds, out):
    """The bytes of texts behind each other, and where each begins and ends; a null has none."""
    at, base, first = 0, np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for row in range(len(texts)):
        size = texts[row] & LENGTH
        copy_bytes(first + at, base + (texts[row] >> 32), size)
        at += size
        bounds[row + 1] = at


@compiled(f"boolean({BYTE_ARRAY}, {BOUND_ARRAY}, int64)")
def begin_alike(data, bounds, size):
    """Whether all values begin with the same bytes, so many of them; there is one at least."""
    base = np.int64(data.ctypes.data)
    for row in range(len(bounds) - 1):
        if bounds[row + 1] - bounds[row] < size:
            return False
        for index in range(size):
            if byte_at(base + bounds[row] + index) != byte_at(base + bounds[0] + index):
                return False
    return True


_FIRST, _SECOND, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xFF51AFD7ED558CCD)


@inlined("uint64(uint64)")
def _mixed(word):
    word = (word ^ (word >> np.uint64(33))) * _MIX
    return word ^ (word >> np.uint64(29))


@compiled("int64(int64, int64, uint8, uint64[::1])")
def sum_rows(at, end, separator, sums):
    """Adds up the rows that end with a separator between two addresses: their number, and two hashes of each, whatever their order.

    Gives the address behind the last of them. Eight bytes behind the end have to be readable.
    """
    behind = at
    while at < end:
        first, second, word, held = _FIRST, _SECOND, np.uint64(0), 0
        begin = at
        while at < end and byte_at(at) != separator:
            word |= np.uint64(byte_at(at)) << np.uint64(8 * held)
            held += 1
            at += 1
            if held == 8:
                first, second = _mixed(first ^ word), (second + word) * _SECOND
                word, held = np.uint64(0), 0
        if at == end:
            break
        length = np.uint64(at - begin)
        first, second = _mixed(first ^ word ^ (length << np.uint64(56))), _mixed((second + word) * _SECOND + length)
        sums[0] += np.uint64(1)
        sums[1] += first
        sums[2] += _mixed(second ^ first)
        at += 1
        behind = at
    return behind
