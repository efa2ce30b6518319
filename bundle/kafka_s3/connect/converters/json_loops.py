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

from kafka_s3.connect.records.compiling import (
    BOUND_ARRAY,
    BYTE_ARRAY,
    SPAN,
    byte_at,
    bytes_before,
    compiled,
    inlined,
    long_at,
    put_byte,
    put_int,
    put_long,
    word_at,
)
from kafka_s3.connect.records.joining import texts_in_place
from kafka_s3.connect.records.loops import LENGTH, ODD, behind_sequence

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
        self._notes = np.zeros((len(names), rows, 3), np.int32)
        self.passed: npt.NDArray[np.bool_] = np.zeros(rows, bool)
        self.refused = scan(
            self._data,
            np.frombuffer(bounds, np.int32)[documents.offset : documents.offset + rows + 1],
            np.frombuffer(b"".join(encoded) + b"\0", np.uint8),
            np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            self._notes, self.passed,
        )  # fmt: skip

    def column(self, number: int, kind: pa.DataType) -> pa.Array | None:
        """One member of every document, null where it is missing; None where some are of another type, or have escapes in their text."""
        member = _Member(self._data, self._notes[number])
        try:
            if pa.types.is_string(kind):
                return member.texts() if member.kinds <= {TEXT} else None
            if pa.types.is_boolean(kind):
                return member.texts().cast(kind) if member.kinds <= {TRUE, FALSE} else None
            if pa.types.is_integer(kind):
                return member.whole_numbers().cast(kind) if member.kinds <= {WHOLE} else None
            if pa.types.is_floating(kind):
                return member.fractions().cast(kind, safe=False) if member.kinds <= {WHOLE, FRACTION} else None
        except pa.ArrowInvalid:  # a number beyond its type
            pass
        return None

    def any_column(self, number: int) -> pa.Array | None:
        """One member of every document as text or whole numbers, whichever all of them are; None where they are neither."""
        whole = self.column(number, pa.int64())
        return whole if whole is not None else self.column(number, pa.string())


class _Member:
    """One member of all documents, by the notes on it; `kinds` are what it is where it is no null."""

    def __init__(self, data: npt.NDArray[np.uint8], notes: npt.NDArray[np.int32]) -> None:
        self._data = data
        self._texts = np.zeros(len(notes), np.int64)
        self._valid = np.zeros((len(notes) + 7) // 8, np.uint8)
        kinds, self._nulls = survey(notes, self._texts, self._valid)
        self.kinds = {kind for kind in range(NULL + 1, NESTED + 1) if kinds >> kind & 1}

    def texts(self) -> pa.Array:
        """What is written there, strings without their quotes."""
        return self._array(pa.string(), *texts_in_place(self._data, self._texts))

    def whole_numbers(self) -> pa.Array:
        """As 64 bits. Raises ArrowInvalid where one has more."""
        numbers = np.zeros(len(self._texts), np.int64)
        read = read_whole(self._data, self._texts, numbers)
        return self._array(pa.int64(), pa.py_buffer(numbers)) if read else self.texts().cast(pa.int64())

    def fractions(self) -> pa.Array:
        """As doubles."""
        numbers = np.zeros(len(self._texts), np.float64)
        read = read_fractions(self._data, self._texts, numbers)
        return self._array(pa.float64(), pa.py_buffer(numbers)) if read else self.texts().cast(pa.float64())

    def _array(self, kind: pa.DataType, *buffers: pa.Buffer) -> pa.Array:
        valid = pa.py_buffer(self._valid) if self._nulls else None
        return pa.Array.from_buffers(kind, len(self._texts), [valid, *buffers], self._nulls)


DEEP: Final = 200
LONGEST: Final = 300
_NOTES = "int32[:, :, ::1]"
"""By member and row: where it begins, where it stops, and what it is."""
_NOTE: Final = 12
KNOWN: Final = 512
"""So many names of a document, from the first one on, are known for the next."""
_KNOWN: Final = 24
_special_of = bytes_before((0x80, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
"""Before what is not plain in a string: a control character, a byte above 0x7F, a quote, a backslash."""
_digits_of = bytes_before((0x3A, 0x2F))


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


@inlined("int64(int64, int64, int64)")
def _behind_string(at, end, last):
    """Behind the closing quote of a string whose content begins at a place, negated where it has escapes; 0: it is none.

    From the address `last` on there are no SPAN bytes to read.
    """
    escaped = False
    while at < end:
        if at < last:
            plain = _special_of(at)
            at += plain
            if plain == SPAN:
                continue
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


@inlined("int64(int64, int64, int64)")
def _behind_digits(at, end, last):
    if at < last:
        digits = _digits_of(at)
        if digits < SPAN:
            return min(at + digits, end)
    while at < end and 0x30 <= byte_at(at) <= 0x39:
        at += 1
    return at


@inlined("int64(int64, int64, int64)")
def _behind_number(at, end, last):
    """Behind the number at a place, negated where it has a fraction or an exponent; 0: it is none, or a long one."""
    begin, plain = at, True
    if byte_at(at) == 0x2D:
        at += 1
    digits = _behind_digits(at, end, last)
    if digits == at or (byte_at(at) == 0x30 and digits > at + 1):
        return 0
    at = digits
    if at < end and byte_at(at) == 0x2E:
        plain, digits = False, _behind_digits(at + 1, end, last)
        if digits == at + 1:
            return 0
        at = digits
    if at < end and (byte_at(at) == 0x65 or byte_at(at) == 0x45):
        at += 1
        if at < end and (byte_at(at) == 0x2B or byte_at(at) == 0x2D):
            at += 1
        plain, digits = False, _behind_digits(at, end, last)
        if digits == at:
            return 0
        at = digits
    if at - begin > LONGEST:
        return 0
    return at if plain else -at


@inlined("int64(int64, int64)")
def _behind_space(at, end):
    while at < end and (byte_at(at) == 0x20 or byte_at(at) == 0x09):
        at += 1
    return at


@inlined("boolean(int64, int64, int64)")
def _same(at, other, size):
    """Whether the bytes from two addresses on are the same: one or more, of which as many as fill words of eight are read."""
    while size > 8:
        if word_at(at) != word_at(other):
            return False
        at, other, size = at + 8, other + 8, size - 8
    return (word_at(at) ^ word_at(other)) << np.uint64(64 - 8 * size) == 0


@compiled("int64(int64, int64, int64, int64, int64)")
def _which(at, size, names, count, guess):
    """The number of a wanted member by its name, -1 where it is not wanted; `guess` is tried first, and those behind it.

    At the address `names` are where each of so many names begins, and behind those where it ends.
    """
    for step in range(count):
        one = guess + step
        if one >= count:
            one -= count
        begin = long_at(names + 8 * one)
        same = long_at(names + 8 * (count + one)) - begin == size
        for index in range(size if same else 0):
            if byte_at(at + index) != byte_at(begin + index):
                same = False
        if same:
            return one
    return -1


@inlined("boolean(int64, int64, int64, int64)")
def _is_word(at, end, word, size):
    """Whether the characters at a place are those of a word of four, and for a fifth one an `e` behind them."""
    if at + size > end:
        return False
    for index in range(4):
        if byte_at(at + index) != (word >> (8 * index)) & 0xFF:
            return False
    return size == 4 or byte_at(at + 4) == 0x65


@inlined("UniTuple(int64, 2)(int64, int64, int64)")
def _behind_scalar(at, end, last):
    """Behind the string, number or literal at a place, and what it is; 0: it is none of them."""
    code = byte_at(at)
    if code == 0x22:
        behind = _behind_string(at + 1, end, last)
        return (behind, TEXT) if behind >= 0 else (-behind, ESCAPED)
    if code == 0x2D or 0x30 <= code <= 0x39:
        behind = _behind_number(at, end, last)
        return (behind, WHOLE) if behind >= 0 else (-behind, FRACTION)
    if _is_word(at, end, 0x65757274, 4):
        return at + 4, TRUE
    if _is_word(at, end, 0x6C6C756E, 4):
        return at + 4, NULL
    if _is_word(at, end, 0x736C6166, 5):
        return at + 5, FALSE
    return 0, NULL


@inlined("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64)")
def _behind_name(at, end, last, names, count, guess, known):
    """Behind the closing quote of a member's name, negated where it has escapes, and which wanted member it is; 0: none begins here.

    Documents of a topic mostly have the same names in the same order. So at the address `known` is the name that was last seen in this
    place: where it is, its length with both quotes, which member it is. To compare it is half of the work: the processor goes on where it
    would otherwise wait for the place of the quote.
    """
    size = long_at(known + 8)
    if size and at + size + 8 <= end and _same(at, long_at(known), size):
        return at + size, long_at(known + 16)
    behind = _behind_string(at + 1, end, last) if at < end and byte_at(at) == 0x22 else 0
    if behind <= 0:
        return behind, -1
    which = _which(at + 1, behind - at - 2, names, count, guess)
    if behind + 8 <= end:
        put_long(known, at)
        put_long(known + 8, behind - at)
        put_long(known + 16, which)
    return behind, which


@inlined("int64(int64, int64)")
def _behind_colon(at, end):
    """Where a value may begin behind the colon that follows a name; `end` where there is none."""
    at = _behind_space(at, end)
    return _behind_space(at + 1, end) if at < end and byte_at(at) == 0x3A else end


@inlined("boolean(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _document(base, at, end, last, names, count, known, objects, notes, stride):
    """Whether the bytes from address `at` to `end` are a document that passes.

    At each turn the place is behind an opening bracket (`first`) or behind a value. The byte at the address `objects` + depth says whether
    the brackets there are those of an object; a bracket that closes is itself the end of a value. `wanted` is the member of the document
    that is being read, if it is a wanted one. Its begin and its stop, relative to `base`, and what it is are noted at the address `notes`,
    plus `stride` for each member before it.
    """
    if end - at < 2 or byte_at(at) != 0x7B:
        return False
    at, depth, first, wanted, guess, last_known = at + 1, 0, True, -1, 0, known + _KNOWN * (KNOWN - 1)
    put_byte(objects, 1)
    while True:
        at = _behind_space(at, end)
        code = byte_at(at) if at < end else 0
        in_object = byte_at(objects + depth)
        if code == (0x7D if in_object else 0x5D):
            at += 1
            if depth == 0:
                return at == end
            depth, first = depth - 1, False
            if depth == 0 and wanted >= 0:
                put_int(notes + stride * wanted + 4, at - base)
                wanted = -1
            continue
        if not first:
            if code != 0x2C:
                return False
            at = _behind_space(at + 1, end)
        if in_object:
            behind, which = _behind_name(at, end, last, names, count, guess, known)
            if behind == 0 or (behind < 0 and depth == 0 and count > 0):
                return False  # there is none; or it has escapes, and may be one that is wanted
            known += _KNOWN if known < last_known else 0
            wanted = which if depth == 0 else wanted
            guess = which + 1 if which >= 0 else guess
            at = _behind_colon(abs(behind), end)
        code = byte_at(at) if at < end else 0
        note = notes + stride * wanted if depth == 0 and wanted >= 0 else 0
        if code == 0x7B or code == 0x5B:
            if depth + 2 >= DEEP:
                return False
            if note:
                put_int(note, at - base)
                put_int(note + 8, NESTED)
            at, depth, first = at + 1, depth + 1, True
            put_byte(objects + depth, 1 if code == 0x7B else 0)
            continue
        behind, kind = _behind_scalar(at, end, last) if at < end else (0, NULL)
        if behind == 0:
            return False
        if note:
            quote = 1 if code == 0x22 else 0
            put_int(note, at + quote - base)
            put_int(note + 4, behind - quote - base)
            put_int(note + 8, kind)
            wanted = -1
        at, first = behind, False


@compiled(f"int64({BYTE_ARRAY}, {BOUND_ARRAY}, {BYTE_ARRAY}, int64[::1], {_NOTES}, boolean[::1])")
def scan(data, bounds, names, ends, notes, passed):
    """Which documents of a batch pass; returns how many do not.

    Document `row` has the bytes `data[bounds[row]:bounds[row + 1]]`. The n-th wanted member of an object is called
    `names[ends[n]:ends[n + 1]]`, in UTF-8. Of the last one of a name are noted, by member and row: where it begins and stops, a string
    without its quotes, and what it is, MISSING at first.
    """
    refused, rows, count = 0, len(bounds) - 1, len(ends) - 1
    base, first_note = np.int64(data.ctypes.data), np.int64(notes.ctypes.data)
    last = base + len(data) - SPAN + 1
    wanted = np.concatenate((ends[:-1], ends[1:])) + np.int64(names.ctypes.data)
    objects, known = np.zeros(DEEP, np.uint8), np.zeros(KNOWN * _KNOWN, np.uint8)
    for row in range(rows):
        passed[row] = _document(
            base, base + bounds[row], base + bounds[row + 1], last,
            np.int64(wanted.ctypes.data), count, np.int64(known.ctypes.data), np.int64(objects.ctypes.data),
            first_note + _NOTE * row, _NOTE * rows,
        )  # fmt: skip
        refused += 0 if passed[row] else 1
    return refused


@compiled("UniTuple(int64, 2)(int32[:, ::1], int64[::1], uint8[::1])")
def survey(notes, texts, valid):
    """Where one member's texts are (`loops.LENGTH`), by bit which rows have one; returns which kinds it has, a bit each, and its nulls."""
    kinds, nulls = 0, 0
    for row in range(len(notes)):
        begin, stop, kind = notes[row]
        kinds |= 1 << kind
        if kind > NULL:
            texts[row] = np.int64(begin) << 32 | (stop - begin)
            valid[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
    return kinds, nulls


_EXACT: Final = 15
"""So many digits are a whole number that a double holds, and so many times ten as well: then their quotient is the nearest double
(W. Clinger, How to read floating point numbers accurately, 1990)."""
_POWERS = np.array([float(f"1e{power}") for power in range(_EXACT + 1)])
_WHOLE: Final = 18
"""So many digits are a whole number of 64 bits."""


@inlined("UniTuple(int64, 3)(int64, int64, int64)")
def _decimal(base, text, most):
    """A number's digits as one, how many of them are behind the point, and whether it is negative.

    No digits behind it, -1: it has an exponent, or more than `most` characters, so that Arrow has to read it.
    """
    at = base + (text >> 32)
    end, negative, digits, fraction, pointed = at + (text & LENGTH), byte_at(at) == 0x2D, 0, 0, 0
    at += 1 if negative else 0
    if end - at > most:
        return 0, -1, 0
    while at < end:
        code = byte_at(at)
        if code == 0x2E:
            pointed = 1
        elif 0x30 <= code <= 0x39:
            digits = 10 * digits + code - 0x30
            fraction += pointed
        else:
            return 0, -1, 0
        at += 1
    return digits, fraction, 1 if negative else 0


@compiled(f"boolean({BYTE_ARRAY}, int64[::1], int64[::1])")
def read_whole(data, texts, numbers):
    """The whole numbers in some texts; False: one may have more than 64 bits."""
    base = np.int64(data.ctypes.data)
    for row in range(len(texts)):
        if texts[row]:
            digits, fraction, negative = _decimal(base, texts[row], _WHOLE)
            if fraction < 0:
                return False
            numbers[row] = -digits if negative else digits
    return True


@compiled(f"boolean({BYTE_ARRAY}, int64[::1], float64[::1])")
def read_fractions(data, texts, numbers):
    """The fractions in some texts; False: one has many digits, or an exponent."""
    base = np.int64(data.ctypes.data)
    for row in range(len(texts)):
        if texts[row]:
            digits, fraction, negative = _decimal(base, texts[row], _EXACT + 1)
            if fraction < 0 or digits > 10**_EXACT:
                return False
            number = np.float64(digits) / _POWERS[fraction]
            numbers[row] = -number if negative else number
    return True
