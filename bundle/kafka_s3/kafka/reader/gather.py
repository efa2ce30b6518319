"""How do records get from librdkafka's messages into Arrow's buffers without a Python object each? By loops that numba compiles.

Compiled when this module is imported, once per process, and kept on disk beside it or in the user's cache folder where one of them can be
written; a process that forks hands the loops on. The functions of librdkafka are bound by name, so that what is kept fits the next process.

`messages` are addresses of `rd_kafka_message_t`; a batch is `rows` of them from `at` on. Buffers are made by the caller, of the sizes that
`measured` tells. Validity is a bit a row, zero at first.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as llvm
import numba as nb
import numpy as np
from numba import types
from numba.extending import intrinsic

from kafka_s3.connect.records.compiling import compiled, compiled_callback, copy_bytes
from kafka_s3.kafka.reader import library

VALUE: Final = 3
KEY: Final = 5
"""Where a message has the address of its value or key, its size behind it, in words of 8 bytes; None is address 0."""
_ERROR, _OFFSET, _WORDS = 0, 7, 9
_ERROR_BITS = 0xFFFFFFFF
"""The error takes half of its word."""
SIZES: Final = 5
"""What `measured` counts: the bytes of the values and of the keys; how many headers, the bytes of their names and of their values."""
MESSAGE_BYTES: Final = 350
"""What librdkafka keeps for each message besides its bytes, about."""
_NEAR: Final = 4096
"""Two records that lie so close in memory are of the same batch; between them are the headers of the first."""
_SAMPLE_BYTES: Final = 4 << 20
"""So much of headers is parsed to learn how large they are: librdkafka copies what it parses."""
_FETCH: Final = 1
"""The number of the request in Kafka's protocol."""


def _external(name: str, result: Any, *arguments: Any) -> Any:
    llvm.add_symbol(name, library.address(name))
    return types.ExternalFunction(name, result(*arguments))


_INT, _VOID = types.int64, types.void
_timestamp = _external("rd_kafka_message_timestamp", _INT, _INT, _INT)
_destroy = _external("rd_kafka_message_destroy", _VOID, _INT)
_headers = _external("rd_kafka_message_headers", types.int32, _INT, _INT)
_header_count = _external("rd_kafka_header_cnt", _INT, _INT)
_header_at = _external("rd_kafka_header_get_all", types.int32, _INT, _INT, _INT, _INT, _INT)
_header_last = _external("rd_kafka_header_get_last", types.int32, _INT, _INT, _INT, _INT)
_text_length = types.ExternalFunction("strlen", _INT(_INT))


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_context: Any, address: Any) -> Any:
    """An address as a pointer to words."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))

    return types.CPointer(types.int64)(address), generate


@compiled("int64[::1](int64)")
def _words(address):  # type: ignore[no-untyped-def]
    return nb.carray(_pointer(address), _WORDS)


@compiled("void(uint8[::1], int64)")
def _set_bit(bits, row):  # type: ignore[no-untyped-def]
    bits[row >> 3] |= np.uint8(1 << (row & 7))


@compiled("void(int64, int64[::1], int64[::1])")
def _add_headers(message, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the headers of a message to `sizes`: how many, the bytes of their names, of their values. `found` is room for four numbers."""
    out = found.ctypes.data
    if _headers(message, out) != 0:
        return
    headers = found[0]
    for index in range(_header_count(headers)):
        _header_at(headers, index, out + 8, out + 16, out + 24)
        sizes[0], sizes[1], sizes[2] = sizes[0] + 1, sizes[1] + _text_length(found[1]), sizes[2] + found[3]


@compiled("int64(int64[::1], int64, int64, int64, int64, int64, int64[::1])")
def measured(messages, at, until, most_rows, most_bytes, with_headers, sizes):  # type: ignore[no-untyped-def]
    """How many messages from `at` on make the next batch: records below offset `until`, at most so many, and bytes of values, keys and,
    if wanted, headers. A record alone may be larger. `sizes` become what is counted.
    """
    rows, total, found, headers = 0, 0, np.zeros(4, np.int64), np.zeros(3, np.int64)
    sizes[:] = 0
    while at + rows < len(messages) and rows < most_rows:
        message = _words(messages[at + rows])
        if message[_ERROR] & _ERROR_BITS or message[_OFFSET] >= until:
            break
        headers[:] = 0
        if with_headers:
            _add_headers(messages[at + rows], found, headers)
        size = message[VALUE + 1] + message[KEY + 1] + headers[1] + headers[2]
        if rows and total + size > most_bytes:
            break
        sizes[0], sizes[1] = sizes[0] + message[VALUE + 1], sizes[1] + message[KEY + 1]
        sizes[2], sizes[3], sizes[4] = sizes[2] + headers[0], sizes[3] + headers[1], sizes[4] + headers[2]
        total, rows = total + size, rows + 1
    return rows


@compiled("int64(int64, int64)")
def _gap(message, following):  # type: ignore[no-untyped-def]
    """The bytes between a record's end and the beginning of the next one's key or value; -1: one of them has neither."""
    one, other = _words(message), _words(following)
    end = one[VALUE] + one[VALUE + 1] if one[VALUE + 1] else one[KEY] + one[KEY + 1]  # what is empty may lie anywhere
    start = other[KEY] if other[KEY + 1] else other[VALUE]
    return start - end if one[VALUE + 1] + one[KEY + 1] and other[VALUE + 1] + other[KEY + 1] else -1


@compiled("int64(int64[::1])")
def held(messages):  # type: ignore[no-untyped-def]
    """About how many bytes librdkafka holds for these messages: unpacked values, keys and headers, and what it keeps of its own."""
    total, parsed, others = 0, 0, 0
    found, headers = np.zeros(4, np.int64), np.zeros(3, np.int64)
    for row in range(len(messages)):
        message = _words(messages[row])
        total += MESSAGE_BYTES
        if message[_ERROR] & _ERROR_BITS:
            continue
        total += message[VALUE + 1] + message[KEY + 1]
        gap = _gap(messages[row], messages[row + 1]) if row + 1 < len(messages) else -1
        if 0 <= gap <= _NEAR:
            total += gap
        elif headers[1] + headers[2] < _SAMPLE_BYTES:
            _add_headers(messages[row], found, headers)
            parsed += 1
        else:
            others += 1
    sampled = headers[1] + headers[2]
    return total + sampled + (sampled * others // parsed if parsed else 0)


@compiled("void(int64[::1], int64, int64, int64[::1], int64[::1], int8[::1])")
def places_and_times(messages, at, rows, offsets, times, kinds):  # type: ignore[no-untyped-def]
    """Offset, timestamp (epoch ms, -1: none) and its type (0: none, 1: of the producer, 2: of the broker)."""
    kind = np.zeros(1, np.int64)
    for row in range(rows):
        offsets[row] = _words(messages[at + row])[_OFFSET]
        times[row] = _timestamp(messages[at + row], kind.ctypes.data)
        kinds[row] = kind[0]


@compiled("int64(int64[::1], int64, int64, int64, int32[::1], uint8[::1], uint8[::1])")
def bytes_of(messages, at, rows, part, ends, data, valid):  # type: ignore[no-untyped-def]
    """Values (`part=VALUE`) or keys (`part=KEY`); returns how many are null. `ends` has a number more than there are rows."""
    filled, nulls, address = 0, 0, data.ctypes.data
    for row in range(rows):
        message = _words(messages[at + row])
        if message[part] == 0:
            nulls += 1
        else:
            _set_bit(valid, row)
            copy_bytes(address + filled, message[part], message[part + 1])
            filled += message[part + 1]
        ends[row + 1] = filled
    return nulls


@compiled("void(int64[::1], int64, int64)")
def destroy(messages, at, rows):  # type: ignore[no-untyped-def]
    """Gives messages back; their bytes are gone."""
    for row in range(rows):
        _destroy(messages[at + row])


@compiled("int64(int64[::1], int64, int64, int32[::1], int32[::1], uint8[::1], int32[::1], uint8[::1], uint8[::1])")
def headers_of(messages, at, rows, ends, name_ends, names, value_ends, values, valid):  # type: ignore[no-untyped-def]
    """The headers of each record as a list of names and values; returns how many values are null."""
    found = np.zeros(4, np.int64)
    count, name_at, value_at, nulls, out = 0, 0, 0, 0, found.ctypes.data
    for row in range(rows):
        if _headers(messages[at + row], out) == 0:
            headers = found[0]
            for index in range(_header_count(headers)):
                _header_at(headers, index, out + 8, out + 16, out + 24)
                length = _text_length(found[1])
                copy_bytes(names.ctypes.data + name_at, found[1], length)
                name_at += length
                if found[2] == 0:
                    nulls += 1
                else:
                    _set_bit(valid, count)
                    copy_bytes(values.ctypes.data + value_at, found[2], found[3])
                    value_at += found[3]
                count += 1
                name_ends[count], value_ends[count] = name_at, value_at
        ends[row + 1] = count
    return nulls


@compiled("int64(int64[::1], int64, int64, int64)")
def named_header_size(messages, at, rows, name):  # type: ignore[no-untyped-def]
    """The bytes of the last header of this name (the address of its text, with a zero behind it) over all records; -1: none has it."""
    found = np.zeros(3, np.int64)
    size, out = -1, found.ctypes.data
    for row in range(rows):
        if _headers(messages[at + row], out) == 0 and _header_last(found[0], name, out + 8, out + 16) == 0:
            size = max(size, 0) + found[2]
    return size


@compiled("void(int64[::1], int64, int64, int64, int32[::1], uint8[::1], uint8[::1])")
def named_header_of(messages, at, rows, name, ends, data, valid):  # type: ignore[no-untyped-def]
    """The last header of this name of each record, null where there is none or its value is null."""
    found = np.zeros(3, np.int64)
    filled, out = 0, found.ctypes.data
    for row in range(rows):
        if (
            _headers(messages[at + row], out) == 0
            and _header_last(found[0], name, out + 8, out + 16) == 0
            and found[1] != 0
        ):
            _set_bit(valid, row)
            copy_bytes(data.ctypes.data + filled, found[1], found[2])
            filled += found[2]
        ends[row + 1] = filled


@compiled_callback("int32(voidptr, int32, voidptr, int32, int16, int16, int32, int64, int64, int32, CPointer(int64))")
def note_fetch(_client, _socket, _broker, _id, request, _version, _number, size, _time, _error, noted):  # type: ignore[no-untyped-def]
    """Notes at the address `noted` how large the last answer to a fetch was: an interceptor of responses, on librdkafka's threads."""
    if request == _FETCH:
        noted[0] = size
    return 0
