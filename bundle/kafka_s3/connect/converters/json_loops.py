"""Is a document JSON, and where in it are the members that are wanted? One loop over the bytes of a whole batch, compiled.

What passes is an object of RFC 8259 on one line, nested less than `DEEP`, without numbers of more than `LONGEST` characters: a part of what
the parser of single documents (`json_values.parse_document`) takes. It decides over all others.

Loops are compiled when this module is imported, so it is imported where the first batch is decoded: the driver need not load it.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.records.compiling import byte_at, compiled, word_at, zeros_before
from kafka_s3.connect.records.loops import ODD, behind_sequence

MISSING, NULL, TRUE, FALSE, WHOLE, FRACTION, TEXT, ESCAPED, NESTED = range(9)
"""What a member is: not there, a literal, a number without or with fraction or exponent, a string without or with escapes, or more."""


class Members:
    """The documents of a binary array without nulls, and in them the members of these names.

    `passed` says by row whether the document is one for certain; over the others a parser decides.
    """

    def __init__(self, documents: pa.Array, names: Sequence[str]) -> None:
        _, bounds, data = documents.buffers()
        rows, encoded = len(documents), [name.encode() for name in names]
        self._data = np.frombuffer(data or b"\0", np.uint8)
        shape = (len(names), rows)
        self._kinds = np.zeros(shape, np.uint8)
        self._begins, self._stops = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.passed: npt.NDArray[np.bool_] = np.zeros(rows, bool)
        self.refused = scan(
            self._data,
            np.frombuffer(bounds, np.int32)[documents.offset : documents.offset + rows + 1],
            np.frombuffer(b"".join(encoded) + b"\0", np.uint8),
            np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            self._kinds, self._begins, self._stops, self.passed,
        )  # fmt: skip

    def column(self, number: int, kind: pa.DataType) -> pa.Array | None:
        """One member of every document, null where it is missing; None where some are of another type, or have escapes in their text."""
        here = {found for found in np.flatnonzero(np.bincount(self._kinds[number])).tolist() if found > NULL}
        try:
            if pa.types.is_string(kind):
                return self._texts(number) if here <= {TEXT} else None
            if pa.types.is_boolean(kind):
                return self._texts(number).cast(kind) if here <= {TRUE, FALSE} else None
            if pa.types.is_integer(kind):
                return self._texts(number).cast(kind) if here <= {WHOLE} else None
            if pa.types.is_floating(kind):
                return (
                    self._texts(number).cast(pa.float64()).cast(kind, safe=False) if here <= {WHOLE, FRACTION} else None
                )
        except pa.ArrowInvalid:  # a number beyond its type
            pass
        return None

    def any_column(self, number: int) -> pa.Array | None:
        """One member of every document as text or whole numbers, whichever all of them are; None where they are neither."""
        whole = self.column(number, pa.int64())
        return whole if whole is not None else self.column(number, pa.string())

    def _texts(self, number: int) -> pa.Array:
        kinds, begins, stops = self._kinds[number], self._begins[number], self._stops[number]
        out = np.empty(total(kinds, begins, stops), np.uint8)
        bounds, valid = np.zeros(len(kinds) + 1, np.int32), np.zeros((len(kinds) + 7) // 8, np.uint8)
        nulls = gather(self._data, kinds, begins, stops, bounds, out, valid)
        buffers = [pa.py_buffer(valid) if nulls else None, pa.py_buffer(bounds), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.string(), len(kinds), buffers, nulls)


DEEP: Final = 200
LONGEST: Final = 300
_BYTES = "Array(uint8, 1, 'C', True)"
_BOUNDS = "Array(int32, 1, 'C', True)"
"""Arrays that may be of Arrow, which nobody may write into."""
_PLACES = "uint8[:, ::1], int32[:, ::1], int32[:, ::1]"
_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _SLASHES, _SPACES = np.uint64(0x22) * _ONES, np.uint64(0x5C) * _ONES, np.uint64(0x20) * _ONES


@compiled("int64(int64, int64)")
def _behind_escape(at, end):
    """Behind the escape whose backslash is at a place; ODD: it is none."""
    if at + 1 >= end:
        return ODD
    code = byte_at(at + 1)
    if code != 0x75:  # u
        plain = code == 0x22 or code == 0x5C or code == 0x2F or code == 0x62 or code == 0x66
        return at + 2 if plain or code == 0x6E or code == 0x72 or code == 0x74 else ODD
    if at + 6 > end:
        return ODD
    for index in range(at + 2, at + 6):
        digit = byte_at(index)
        if not (0x30 <= digit <= 0x39 or 0x41 <= digit <= 0x46 or 0x61 <= digit <= 0x66):
            return ODD
    return at + 6


@compiled("int64(int64, int64)")
def _behind_string(at, end):
    """Behind the closing quote of a string whose content begins at a place, negated where it has escapes; 0: it is none."""
    escaped = False
    while at < end:
        while (
            at + 8 <= end
        ):  # eight bytes at a time, as long as none of them is a quote, a backslash, a control character or above 0x7F
            word = word_at(at)
            quotes, slashes = word ^ _QUOTES, word ^ _SLASHES
            odd = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes) | ((word - _SPACES) & ~word) | word
            if odd & _HIGH:
                at += zeros_before(odd & _HIGH) >> 3  # of the bits of several bytes the lowest one is right
                break
            at += 8
        code = byte_at(at) if at < end else 0
        while 0x20 <= code < 0x80 and code != 0x22 and code != 0x5C:
            at += 1
            code = byte_at(at) if at < end else 0
        if at >= end or code < 0x20:
            return 0
        if code == 0x22:
            return -(at + 1) if escaped else at + 1
        if code == 0x5C:
            escaped = True
            at = _behind_escape(at, end)
        else:
            at = behind_sequence(at, end)
        if at < 0:
            return 0
    return 0


@compiled("int64(int64, int64)")
def _behind_digits(at, end):
    while at < end and 0x30 <= byte_at(at) <= 0x39:
        at += 1
    return at


@compiled("int64(int64, int64)")
def _behind_number(at, end):
    """Behind the number at a place, negated where it has a fraction or an exponent; 0: it is none, or a long one."""
    begin, plain = at, True
    if byte_at(at) == 0x2D:
        at += 1
    digits = _behind_digits(at, end)
    if digits == at or (byte_at(at) == 0x30 and digits > at + 1):
        return 0
    at = digits
    if at < end and byte_at(at) == 0x2E:
        plain, digits = False, _behind_digits(at + 1, end)
        if digits == at + 1:
            return 0
        at = digits
    if at < end and (byte_at(at) == 0x65 or byte_at(at) == 0x45):
        at += 1
        if at < end and (byte_at(at) == 0x2B or byte_at(at) == 0x2D):
            at += 1
        plain, digits = False, _behind_digits(at, end)
        if digits == at:
            return 0
        at = digits
    if at - begin > LONGEST:
        return 0
    return at if plain else -at


@compiled("int64(int64, int64)")
def _behind_space(at, end):
    while at < end and (byte_at(at) == 0x20 or byte_at(at) == 0x09):
        at += 1
    return at


@compiled(f"int64(int64, int64, {_BYTES}, int64[::1], int64)")
def _which(at, size, names, ends, guess):
    """The number of a wanted member by its name, -1 where it is not wanted; `guess` is tried first."""
    count, base = len(ends) - 1, np.int64(names.ctypes.data)
    for step in range(count):
        one = guess + step
        if one >= count:
            one -= count
        begin = base + ends[one]
        if ends[one + 1] - ends[one] == size:
            same = True
            for index in range(size):
                if byte_at(at + index) != byte_at(begin + index):
                    same = False
                    break
            if same:
                return one
    return -1


@compiled("boolean(int64, int64, int64, int64)")
def _is_word(at, end, word, size):
    """Whether the characters at a place are those of a word of four, and for a fifth one an `e` behind them."""
    if at + size > end:
        return False
    for index in range(4):
        if byte_at(at + index) != (word >> (8 * index)) & 0xFF:
            return False
    return size == 4 or byte_at(at + 4) == 0x65


@compiled("int64(int64, int64, int64[::1])")
def _behind_scalar(at, end, kind):
    """Behind the string, number or literal at a place, and what it is; 0: it is none of them."""
    code = byte_at(at)
    if code == 0x22:
        behind = _behind_string(at + 1, end)
        kind[0] = TEXT if behind > 0 else ESCAPED
    elif code == 0x2D or 0x30 <= code <= 0x39:
        behind = _behind_number(at, end)
        kind[0] = WHOLE if behind > 0 else FRACTION
    elif _is_word(at, end, 0x65757274, 4):
        kind[0], behind = TRUE, at + 4
    elif _is_word(at, end, 0x6C6C756E, 4):
        kind[0], behind = NULL, at + 4
    elif _is_word(at, end, 0x736C6166, 5):
        kind[0], behind = FALSE, at + 5
    else:
        behind = 0
    return -behind if behind < 0 else behind


@compiled("int64(int64, int64)")
def _behind_name(at, end):
    """Behind the closing quote of a member's name, negated where it has escapes; 0: none begins at this place."""
    return _behind_string(at + 1, end) if at < end and byte_at(at) == 0x22 else 0


@compiled("int64(int64, int64)")
def _behind_colon(at, end):
    """Where a value may begin behind the colon that follows a name; `end` where there is none."""
    at = _behind_space(at, end)
    return _behind_space(at + 1, end) if at < end and byte_at(at) == 0x3A else end


@compiled(f"boolean(int64, int64, int64, int64, {_BYTES}, int64[::1], {_PLACES}, uint8[::1], int64[::1])")
def _document(base, at, end, row, names, ends, kinds, begins, stops, objects, kind):
    """Whether the bytes from address `at` to `end` are a document that passes; `objects` and `kind` are working space.

    At each turn the place is behind an opening bracket (`first`) or behind a value. `objects[depth]` says whether the brackets there are
    those of an object; a bracket that closes is itself the end of a value. `wanted` is the member of the document that is being read, if it
    is a wanted one. Places are noted relative to `base`.
    """
    if end - at < 2 or byte_at(at) != 0x7B:
        return False
    at, depth, first, wanted, guess = at + 1, 0, True, -1, 0
    objects[0] = 1
    while True:
        at = _behind_space(at, end)
        code = byte_at(at) if at < end else 0
        if code == (0x7D if objects[depth] else 0x5D):
            at += 1
            if depth == 0:
                return at == end
            depth, first = depth - 1, False
            if depth == 0 and wanted >= 0:
                stops[wanted, row], wanted = at - base, -1
            continue
        if not first:
            if code != 0x2C:
                return False
            at = _behind_space(at + 1, end)
        if objects[depth]:
            behind = _behind_name(at, end)
            if depth == 0 and len(ends) > 1 and behind > 0:
                wanted = _which(at + 1, behind - at - 2, names, ends, guess)
                guess = wanted + 1 if wanted >= 0 else guess
            elif behind == 0 or (depth == 0 and len(ends) > 1):
                return False  # there is none; or it has escapes, and may be one that is wanted
            at = _behind_colon(abs(behind), end)
        code = byte_at(at) if at < end else 0
        noted = depth == 0 and wanted >= 0
        if code == 0x7B or code == 0x5B:
            if depth + 2 >= DEEP:
                return False
            if noted:
                kinds[wanted, row], begins[wanted, row] = NESTED, at - base
            at, depth, first = at + 1, depth + 1, True
            objects[depth] = 1 if code == 0x7B else 0
            continue
        behind = _behind_scalar(at, end, kind) if at < end else 0
        if behind == 0:
            return False
        if noted:
            quote = 1 if code == 0x22 else 0
            kinds[wanted, row], begins[wanted, row], stops[wanted, row] = (
                kind[0],
                at + quote - base,
                behind - quote - base,
            )
            wanted = -1
        at, first = behind, False


@compiled(f"int64({_BYTES}, {_BOUNDS}, {_BYTES}, int64[::1], {_PLACES}, boolean[::1])")
def scan(data, bounds, names, ends, kinds, begins, stops, passed):
    """Which documents of a batch pass; returns how many do not.

    Document `row` has the bytes `data[bounds[row]:bounds[row + 1]]`. The n-th wanted member of an object is called
    `names[ends[n]:ends[n + 1]]`, in UTF-8. Of the last one of a name are noted, by member and row: what it is (`kinds`, MISSING at first),
    and where it begins and stops, a string without its quotes.
    """
    objects, kind, refused, base = np.zeros(DEEP, np.uint8), np.zeros(1, np.int64), 0, np.int64(data.ctypes.data)
    for row in range(len(bounds) - 1):
        at, end = base + bounds[row], base + bounds[row + 1]
        passed[row] = _document(base, at, end, row, names, ends, kinds, begins, stops, objects, kind)
        refused += 0 if passed[row] else 1
    return refused


@compiled("int64(uint8[:], int32[:], int32[:])")
def total(kinds, begins, stops):
    """How many bytes one member takes over all rows, where it is no null."""
    size = 0
    for row in range(len(kinds)):
        if kinds[row] > NULL:
            size += stops[row] - begins[row]
    return size


@compiled(f"int64({_BYTES}, uint8[:], int32[:], int32[:], int32[::1], uint8[::1], uint8[::1])")
def gather(data, kinds, begins, stops, bounds, out, valid):
    """The texts of one member into the buffers of an Arrow array, null where it is missing or null; returns how many are null."""
    at, nulls = 0, 0
    for row in range(len(kinds)):
        if kinds[row] > NULL:
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            for index in range(begins[row], stops[row]):
                out[at] = data[index]
                at += 1
        else:
            nulls += 1
        bounds[row + 1] = at
    return nulls
