"""What do Avro payloads of one schema hold? An interpreter over the bytes of a whole batch, compiled, that checks them on the way.

A payload passes where it is one datum to its last byte, its strings are UTF-8, its ints have 32 bits, and its tags and symbols are of the
schema: a part of what the decoder of single payloads (`connect.schemas.avro_values`) takes. It decides over all others.

The schema is a *program*: steps, which `avro.Program` writes. A step reads a value and notes it as the next entry of its *column*. Columns
that grow together are of one *level*: level 0 has an entry for each payload that passes; each array has a level of its own, with an entry
for each item. The schema `{n: long, t: array of ["null", "string"]}` has these steps:

====  ======  ====  ======  =====  ====  ==
step  kind    null  column  level  jump  of
====  ======  ====  ======  =====  ====  ==
0     LONG          0       0      1
1     ARRAY         1       0      4
2     STRING  0     2       1      3
3     ITEM          1       0      2     1
====  ======  ====  ======  =====  ====  ==

The payload `06 04 00 02 02 61 00`, where n is 3 and t is [null, "a"], is walked like this:

====  ===========================  =====================================
step  reads                        notes
====  ===========================  =====================================
0     06, the long 3               column 0: 3
1     nothing: go to the ITEM
3     04: 2 items follow
2     00: branch 0, which is null  column 2: null
3     nothing: 1 item is left      level 1 has 1 entry
2     02 02 61: branch 1, "a"      column 2: where the "a" is
3     00: 0 items follow           level 1 has 2 entries; column 1: 2
====  ===========================  =====================================

So an ITEM comes after the steps of an item and sends the walk back to them, to its `jump`, as often as there are items. It counts them
down by itself: no type contains itself, so no stack is needed. Behind a null the walk goes on at the step's `jump`; each column of the
step's level before that gets a null.
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
    inlined,
    long_at,
    put_byte,
    put_long,
)
from kafka_s3.connect.records.loops import is_utf8

INT, LONG, STRING, BYTES, ENUM, BOOLEAN, FLOAT, DOUBLE, FIXED, ARRAY, ITEM, BRANCH, RECORD, UNION = range(14)
"""Kinds of steps. A RECORD is one that may be null, before its fields. The types of a UNION, if several, each follow a BRANCH."""
WIDTH: Final = 72
KIND, BRANCHES, NULL, SIZE, COLUMN, LEVEL, JUMP, OF, STATE = range(0, WIDTH, 8)
"""Where in a step's bytes its numbers are; `avro.Step` says what they are."""
NONE: Final = -1
"""There is no such branch, column, or other step."""
FULL: Final = -1
"""There is no room for another entry."""
TOO_MANY: Final = -2
"""The payloads become more values than may be held at once."""


@inlined("UniTuple(int64, 2)(int64, int64)")
def _behind_long(at, end):
    """Behind the varint at a place, and its number; 0: there is none of 64 bits."""
    raw, shift = np.uint64(0), 0
    while at < end and shift < 70:
        code = byte_at(at)
        at += 1
        if shift == 63 and code > 1:
            return 0, 0
        raw |= np.uint64(code & 0x7F) << np.uint64(shift)
        if code < 0x80:
            return at, np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))
        shift += 7
    return 0, 0


@inlined("UniTuple(int64, 2)(int64, int64, int64, int64, int64)")
def _behind_value(base, at, end, kind, size):
    """Behind a value of this kind, and its number: bits of a fraction, place and length of a text (`loops.LENGTH`); 0: there is none."""
    if kind <= ENUM:
        at, value = _behind_long(at, end)
        if at == 0 or kind == LONG:
            return at, value
        if kind == INT:
            return at if -0x80000000 <= value <= 0x7FFFFFFF else 0, value
        if kind == ENUM:
            return at if 0 <= value < size else 0, value
        if value < 0 or value > end - at or (kind == STRING and not is_utf8(at, at + value)):
            return 0, 0
        return at + value, (at - base) << 32 | value
    if at + size > end:
        return 0, 0
    if kind == BOOLEAN:
        number = byte_at(at)
    elif kind == DOUBLE:
        number = long_at(at)
    elif kind == FLOAT:
        number = byte_at(at) | byte_at(at + 1) << 8 | byte_at(at + 2) << 16 | byte_at(at + 3) << 24
    else:
        number = (at - base) << 32 | size
    return at + size, number


@inlined("void(int64, int64, int64, int64, int64)")
def _note(step, number, there, columns, counts):
    """Notes what a step has read as the next entry of its column."""
    column = long_at(step + COLUMN)
    if column != NONE:
        entry = long_at(counts + 8 * long_at(step + LEVEL))
        put_long(long_at(columns + 16 * column) + 8 * entry, number)
        put_byte(long_at(columns + 16 * column + 8) + entry, there)


@inlined("int64(int64, int64, int64, int64)")
def _behind_null(step, program, columns, counts):
    """The step behind a value that is null, which has noted a null in all columns of its level that the value would fill."""
    level, behind = long_at(step + LEVEL), program + WIDTH * long_at(step + JUMP)
    while step < behind:
        if long_at(step + LEVEL) == level:
            _note(step, 0, 0, columns, counts)
        step += WIDTH
    return behind


@inlined("int64(int64, int64, int64, int64, int64, int64)")
def _behind_item(step, at, end, counts, rooms, left_values):
    """Behind what is between two items: nothing, or the count of the next block. The step's state is how many items are left of it.

    0: there is no count, or its items are more values than the record may become. FULL: there is no room for another item, `rooms` says
    how much is needed.
    """
    level, left = 8 * long_at(step + OF), long_at(step + STATE)
    if left:
        left -= 1
        put_long(counts + level, long_at(counts + level) + 1)
    if not left:
        at, left = _behind_long(at, end)
        if at and left < 0:  # then the block's length in bytes follows, for those who skip it
            at, left = _behind_long(at, end)[0], -left
        if at == 0 or left < 0:  # the least long has no opposite
            return 0
        values, each = long_at(left_values), long_at(step + SIZE)
        if left > values // each:
            return 0
        put_long(left_values, values - left * each)
    room = long_at(rooms + level)
    if left and long_at(counts + level) == room:
        put_long(rooms + level, 2 * room)
        return FULL
    put_long(step + STATE, left)
    return at


@inlined("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _behind_datum(base, at, end, program, last, columns, counts, rooms, left_values):
    """Behind the datum at a place; 0: it does not pass; FULL: a level needs more room. Steps are addresses from `program` to `last`."""
    step, number = program, 0
    while step < last:
        kind = long_at(step + KIND)
        if long_at(step + BRANCHES):
            at, number = _behind_long(at, end)
            if at == 0 or number < 0 or number >= long_at(step + BRANCHES):
                return 0
            if number == long_at(step + NULL):
                step = _behind_null(step, program, columns, counts)
                continue
        if kind <= FIXED:
            at, number = _behind_value(base, at, end, kind, long_at(step + SIZE))
            if at == 0:
                return 0
        elif kind == ARRAY:  # to its ITEM, for there may be no items
            step = program + WIDTH * (long_at(step + JUMP) - 1)
            put_long(step + STATE, 0)
            continue
        elif kind == ITEM:
            at = _behind_item(step, at, end, counts, rooms, left_values)
            if at <= 0:
                return at
            if long_at(step + STATE):
                step = program + WIDTH * long_at(step + JUMP)
                continue
            number = long_at(counts + 8 * long_at(step + OF))
        elif kind == UNION:
            put_long(step + STATE, number)
        elif kind == BRANCH and long_at(program + WIDTH * long_at(step + OF) + STATE) != long_at(step + SIZE):
            # the value is of another branch
            step = _behind_null(step, program, columns, counts)
            continue
        _note(step, number, 1, columns, counts)
        step += WIDTH
    return at


@compiled(
    f"int64({BYTE_ARRAY}, {BOUND_ARRAY}, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1])"
)
def walk(data, bounds, row, program, columns, counts, rooms, most, batch, passed):
    """Walks the payloads from `row` on; returns their count, or the payload at which a level needs more room. TOO_MANY: take fewer.

    Payload `row` has the bytes `data[bounds[row]:bounds[row + 1]]`. `passed` says which are good; only they have entries. A column is the
    address of its numbers and that of its flags, which are 0 for a null. A level has `counts` entries, and room for `rooms`, which is
    raised to what it needs. The number of an array is where its items end, that of a boolean is 1 where it is true. `most` says of
    each payload how many values its items may be; `batch` how many values a payload has without its items, and how many are left of
    those that all payloads may have beyond one for each byte.
    """
    left = np.zeros(1, np.int64)
    before = np.zeros(len(counts), np.int64)
    base, first = np.int64(data.ctypes.data), np.int64(program.ctypes.data)
    tables = np.int64(columns.ctypes.data), np.int64(counts.ctypes.data), np.int64(rooms.ctypes.data)
    while row < len(bounds) - 1:
        for level in range(len(counts)):
            before[level] = counts[level]
        at, end = base + bounds[row], base + bounds[row + 1]
        size = end - at
        left[0] = most[row]
        at = _behind_datum(base, at, end, first, first + WIDTH * len(program), *tables, np.int64(left.ctypes.data))
        passed[row] = at == end
        counts[0] += 1
        if at != end:
            for level in range(len(counts)):
                counts[level] = before[level]
        if at == FULL:
            return row
        batch[1] -= max(0, batch[0] + most[row] - left[0] - size)
        if batch[1] < 0:
            return TOO_MANY
        row += 1
    return row
