"""How do librdkafka's messages become Arrow batches? By loops that numba compiles, without a Python object for each record.

A batch is bounded in rows and in bytes, and has the columns that a task takes::

    offset          int64
    timestamp       int64   epoch ms, null: the record has none
    timestamp_type  int8    0: none, 1: given by the producer (CreateTime), 2: by the broker (LogAppendTime)
    value           binary  null: a tombstone
    key             binary                                          ReadScope.ENVELOPES only
    headers         list<struct<key: string, value: binary>>        ReadScope.ENVELOPES only; never null
    <SCHEMA_NAME>   binary  the last header of that name, or null   ReadScope.SCHEMA_NAMES only

The loops are compiled when this module is imported, once per process, and kept on disk beside it or in the user's cache folder where one of
them can be written; a process that forks hands the loops on. The functions of librdkafka are bound by name, so that what is kept fits the
next process. `messages` are addresses of `rd_kafka_message_t`; a batch is `rows` of them from `at` on. Buffers are made by the caller, of
the sizes that `measure_batch` counts. Validity is a bit a row, zero at first.

The loops read messages in place, so `check_library` looks at librdkafka's version and at a message first: one that a producer without
brokers gets back, produced, purged and reported with all that was given. Nothing is sent.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import confluent_kafka
import llvmlite.binding as llvm
import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError
from numba import types
from numba.extending import intrinsic

from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.connect.records.compiling import byte_at, compiled, compiled_callback, copy_bytes
from kafka_s3.kafka.reader import library
from kafka_s3.kafka.reader.settings import ReadScope
from kafka_s3.model.errors import SourceError

VALUE: Final = 3
KEY: Final = 5
"""Where a message has the address of its value or key, its size behind it, in words of 8 bytes; None is address 0."""
_ERROR, _OFFSET, _WORDS = 0, 7, 9
_ERROR_BITS = 0xFFFFFFFF
"""The error takes half of its word."""
SIZES: Final = 5
"""What `measure_batch` counts: the bytes of the values and of the keys; how many headers, the bytes of their names and of their values."""
MESSAGE_BYTES: Final = 350
"""What librdkafka keeps for each message besides its bytes, about."""
_NEAR: Final = 4096
"""Two records that lie so close in memory are of the same batch; between them are the headers of the first."""
_NEXT: Final = 32
"""At most so many bytes are between a record without headers and the next one's key or value: how many headers, the next one's size,
attributes, time and offset, and the sizes of its key and value."""
_SAMPLE_BYTES: Final = 4 << 20
"""So much of headers is parsed to learn how large they are: librdkafka copies what it parses."""
BROKERS: Final = 512
"""So many brokers' bytes are counted; those of further ones are not."""
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


@compiled("int64(int64, int64)")
def _gap(message, following):  # type: ignore[no-untyped-def]
    """The bytes between a record's end and the beginning of the next one's key or value; -1: one of them has neither."""
    one, other = _words(message), _words(following)
    end = one[VALUE] + one[VALUE + 1] if one[VALUE + 1] else one[KEY] + one[KEY + 1]  # what is empty may lie anywhere
    start = other[KEY] if other[KEY + 1] else other[VALUE]
    return start - end if one[VALUE + 1] + one[KEY + 1] and other[VALUE + 1] + other[KEY + 1] else -1


@compiled("int64(int64[::1], int64, int64)")
def _headers_of(messages, at, out):  # type: ignore[no-untyped-def]
    """Puts the headers of a message at the address `out`, as librdkafka does; not 0: it has none.

    Behind a value Kafka's records of format 2 have the number of headers, so a zero there, with another record behind it, says it. To ask
    librdkafka takes as long as all else that is done with a record here. In older formats there are no headers, whatever is there.
    """
    message = _words(messages[at])
    has_next = at + 1 < len(messages) and 0 < _gap(messages[at], messages[at + 1]) <= _NEXT
    if has_next and message[VALUE + 1] > 0 and byte_at(message[VALUE] + message[VALUE + 1]) == 0:
        return 1
    return _headers(messages[at], out)


@compiled("void(int64[::1], int64, int64[::1], int64[::1])")
def _add_headers(messages, at, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the headers of a message to `sizes`: how many, the bytes of their names, of their values. `found` is room for four numbers."""
    out = found.ctypes.data
    if _headers_of(messages, at, out) != 0:
        return
    headers = found[0]
    for index in range(_header_count(headers)):
        _header_at(headers, index, out + 8, out + 16, out + 24)
        sizes[0], sizes[1], sizes[2] = sizes[0] + 1, sizes[1] + _text_length(found[1]), sizes[2] + found[3]


@compiled("int64(int64[::1], int64, int64, int64, int64, int64, int64[::1])")
def measure_batch(messages, at, until, most_rows, most_bytes, with_headers, sizes):  # type: ignore[no-untyped-def]
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
            _add_headers(messages, at + rows, found, headers)
        size = message[VALUE + 1] + message[KEY + 1] + headers[1] + headers[2]
        if rows and total + size > most_bytes:
            break
        sizes[0], sizes[1] = sizes[0] + message[VALUE + 1], sizes[1] + message[KEY + 1]
        sizes[2], sizes[3], sizes[4] = sizes[2] + headers[0], sizes[3] + headers[1], sizes[4] + headers[2]
        total, rows = total + size, rows + 1
    return rows


@compiled("int64(int64[::1])")
def held_bytes(messages):  # type: ignore[no-untyped-def]
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
            _add_headers(messages, row, found, headers)
            parsed += 1
        else:
            others += 1
    sampled = headers[1] + headers[2]
    return total + sampled + (sampled * others // parsed if parsed else 0)


@compiled("void(int64[::1], int64, int64, int64[::1], int64[::1], int8[::1])")
def copy_offsets_and_times(messages, at, rows, offsets, times, kinds):  # type: ignore[no-untyped-def]
    """Offset, timestamp (epoch ms, -1: none) and its type (0: none, 1: of the producer, 2: of the broker)."""
    kind = np.zeros(1, np.int64)
    for row in range(rows):
        offsets[row] = _words(messages[at + row])[_OFFSET]
        times[row] = _timestamp(messages[at + row], kind.ctypes.data)
        kinds[row] = kind[0]


@compiled("int64(int64[::1], int64, int64, int64, int32[::1], uint8[::1], uint8[::1])")
def copy_values(messages, at, rows, field, ends, data, valid):  # type: ignore[no-untyped-def]
    """Values (`field=VALUE`) or keys (`field=KEY`); returns how many are null. `ends` has a number more than there are rows."""
    filled, nulls, address = 0, 0, data.ctypes.data
    for row in range(rows):
        message = _words(messages[at + row])
        if message[field] == 0:
            nulls += 1
        else:
            _set_bit(valid, row)
            copy_bytes(address + filled, message[field], message[field + 1])
            filled += message[field + 1]
        ends[row + 1] = filled
    return nulls


@compiled("void(int64[::1], int64, int64)")
def destroy_messages(messages, at, rows):  # type: ignore[no-untyped-def]
    """Gives messages back; their bytes are gone."""
    for row in range(rows):
        _destroy(messages[at + row])


@compiled("int64(int64[::1], int64, int64, int32[::1], int32[::1], uint8[::1], int32[::1], uint8[::1], uint8[::1])")
def copy_headers(messages, at, rows, ends, name_ends, names, value_ends, values, valid):  # type: ignore[no-untyped-def]
    """The headers of each record as a list of names and values; returns how many values are null."""
    found = np.zeros(4, np.int64)
    count, name_at, value_at, nulls, out = 0, 0, 0, 0, found.ctypes.data
    for row in range(rows):
        if _headers_of(messages, at + row, out) == 0:
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
        if _headers_of(messages, at + row, out) == 0 and _header_last(found[0], name, out + 8, out + 16) == 0:
            size = max(size, 0) + found[2]
    return size


@compiled("void(int64[::1], int64, int64, int64, int32[::1], uint8[::1], uint8[::1])")
def copy_named_headers(messages, at, rows, name, ends, data, valid):  # type: ignore[no-untyped-def]
    """The last header of this name of each record, null where there is none or its value is null."""
    found = np.zeros(3, np.int64)
    filled, out = 0, found.ctypes.data
    for row in range(rows):
        if (
            _headers_of(messages, at + row, out) == 0
            and _header_last(found[0], name, out + 8, out + 16) == 0
            and found[1] != 0
        ):
            _set_bit(valid, row)
            copy_bytes(data.ctypes.data + filled, found[1], found[2])
            filled += found[2]
        ends[row + 1] = filled


@compiled_callback("int32(voidptr, int32, voidptr, int32, int16, int16, int32, int64, int64, int32, CPointer(int64))")
def note_fetch(_client, _socket, _name, broker, request, _version, _number, size, _time, _error, noted):  # type: ignore[no-untyped-def]
    """Notes at the address `noted` how large the last answer to a fetch was, and adds it to what that broker has sent: an interceptor of
    responses, on librdkafka's threads, one for each broker. Behind the size are pairs, of a broker's number plus 1 (0: free) and its bytes.
    """
    if request == _FETCH:
        noted[0] = size
        for pair in range(1, 2 * BROKERS, 2):
            if noted[pair] == 0:
                noted[pair] = broker + 1
            if noted[pair] == broker + 1:
                noted[pair + 1] += size
                break
    return 0


ROWS: Final = 65_536
BYTES: Final = 16 << 20
"""Of values, keys and headers that are read in a batch; a record alone may be larger. So Arrow's offsets of 32 bits always do."""
NO_TIMESTAMP_MS: Final = -1
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_NAME: Final = VALUE_SCHEMA.encode() + b"\0"

Addresses = npt.NDArray[np.int64]


def next_batch(messages: Addresses, at: int, *, until: int, scope: ReadScope) -> pa.RecordBatch | None:
    """The records from message `at` on as a batch; their messages are destroyed. None: message `at` is not below offset `until`."""
    sizes = np.zeros(SIZES, np.int64)
    rows = measure_batch(messages, at, until, ROWS, BYTES, scope is not ReadScope.VALUES, sizes)
    if not rows:
        return None
    batch = _batch(messages, at, rows, sizes, scope)
    destroy_messages(messages, at, rows)
    return batch


def _batch(messages: Addresses, at: int, rows: int, sizes: Addresses, scope: ReadScope) -> pa.RecordBatch:
    value_bytes, key_bytes, *headers = sizes.tolist()
    columns = _places_and_times(messages, at, rows)
    columns["value"] = _bytes_column(messages, at, rows, VALUE, value_bytes)
    if scope is ReadScope.ENVELOPES:
        columns["key"] = _bytes_column(messages, at, rows, KEY, key_bytes)
        columns["headers"] = _header_lists(messages, at, rows, *headers)
    elif scope is ReadScope.SCHEMA_NAMES:
        columns[SCHEMA_NAME] = _schema_names(messages, at, rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _places_and_times(messages: Addresses, at: int, rows: int) -> dict[str, pa.Array]:
    offsets, times, kinds = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int8)
    copy_offsets_and_times(messages, at, rows, offsets, times, kinds)
    none = times == NO_TIMESTAMP_MS
    return {
        "offset": pa.array(offsets),
        "timestamp": pa.array(times, mask=none if none.any() else None),
        "timestamp_type": pa.array(kinds),
    }


def _bytes_column(messages: Addresses, at: int, rows: int, field: int, size: int) -> pa.Array:
    ends, data, valid = _ends(rows), np.empty(size, np.uint8), _bits(rows)
    nulls = copy_values(messages, at, rows, field, ends, data, valid)
    return _binary(ends, data, valid, nulls)


def _header_lists(messages: Addresses, at: int, rows: int, count: int, name_bytes: int, value_bytes: int) -> pa.Array:
    ends, name_ends, value_ends = _ends(rows), _ends(count), _ends(count)
    names, values, valid = np.empty(name_bytes, np.uint8), np.empty(value_bytes, np.uint8), _bits(count)
    nulls = 0
    if count:
        nulls = copy_headers(messages, at, rows, ends, name_ends, names, value_ends, values, valid)
    pairs = pa.StructArray.from_arrays(
        [_text(_binary(name_ends, names, None, 0)), _binary(value_ends, values, valid, nulls)], fields=list(HEADER)
    )
    return pa.ListArray.from_arrays(pa.array(ends), pairs)


def _schema_names(messages: Addresses, at: int, rows: int) -> pa.Array:
    name = np.frombuffer(_NAME, np.uint8)
    size = named_header_size(messages, at, rows, name.ctypes.data)
    if size < 0:
        return pa.nulls(rows, pa.binary())
    ends, data, valid = _ends(rows), np.empty(size, np.uint8), _bits(rows)
    copy_named_headers(messages, at, rows, name.ctypes.data, ends, data, valid)
    return _binary(ends, data, valid, -1)


def _text(names: pa.Array) -> pa.Array:
    """Names of headers as text; what is no UTF-8 in them is replaced, as Java does it."""
    try:
        text = names.view(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
    return text


def _binary(ends: Any, data: Any, valid: Any | None, nulls: int) -> pa.Array:
    """An array of bytes over these buffers; `nulls` -1: not counted."""
    bits = pa.py_buffer(valid) if valid is not None and nulls else None
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [bits, pa.py_buffer(ends), pa.py_buffer(data)], nulls)


def _ends(rows: int) -> npt.NDArray[np.int32]:
    return np.zeros(rows + 1, np.int32)


def _bits(rows: int) -> npt.NDArray[np.uint8]:
    return np.zeros((rows + 7) // 8, np.uint8)


OLDEST, BEHIND_NEWEST = (2, 12), (3, 0)
"""The versions that were tried, and the first that need not have the same messages."""
WAY_OUT: Final = "Install a version of confluent-kafka that kafka-s3 names, or set kafka.reader=spark."
SENT_TOPIC, SENT_VALUE, SENT_KEY, SENT_PARTITION, SENT_MARK = b"kafka-s3-layout", b"a value", b"and its key", 7, 0x5EED
NO_OFFSET: Final = -1001
"""`RD_KAFKA_OFFSET_INVALID`"""
WAIT_MS: Final = 5000


@cache
def why_unusable() -> str | None:
    """Why this process's librdkafka cannot be read by the loops; None: it can. Asked once."""
    number = library.version()
    version = (number >> 24 & 0xFF, number >> 16 & 0xFF)
    name = f"librdkafka {'.'.join(map(str, version))}"
    if not OLDEST <= version < BEHIND_NEWEST:
        return f"{name} was not tried: {OLDEST[0]}.{OLDEST[1]} and later before {BEHIND_NEWEST[0]}.{BEHIND_NEWEST[1]} were. {WAY_OUT}"
    if number != confluent_kafka.libversion()[1]:
        return f"{name} is loaded, but confluent-kafka has {confluent_kafka.libversion()[0]}. {WAY_OUT}"
    try:
        with _purged_message() as address:
            seen = _fields_read(address)
    except SourceError as error:
        return f"{name} could not be tried: {error} {WAY_OUT}"
    if seen != EXPECTED:
        return f"{name} has its messages in another form: {seen} where {EXPECTED} was given. {WAY_OUT}"
    return None


EXPECTED: Final[dict[str, Any]] = {
    "error": KafkaError._PURGE_QUEUE, "topic": SENT_TOPIC, "partition": SENT_PARTITION, "value": SENT_VALUE, "key": SENT_KEY,
    "offset": NO_OFFSET, "private": SENT_MARK,
}  # fmt: skip


def check_library() -> None:
    """Raises SourceError where the loops cannot read this librdkafka's messages."""
    reason = why_unusable()
    if reason is not None:
        raise SourceError(reason)


@contextmanager
def _purged_message() -> Iterator[int]:
    """The address of a message as librdkafka reports it: one that was produced and never sent."""
    configuration, text = library.conf_new(), ctypes.create_string_buffer(library.TEXT_BYTES)
    library.conf_set(configuration, b"log_level", b"0", text, library.TEXT_BYTES)
    library.conf_set_events(configuration, library.EVENT_REPORT)
    client = library.new(library.PRODUCER, configuration, text, library.TEXT_BYTES)
    if not client:
        library.conf_destroy(configuration)
        raise SourceError(f"{text.value.decode(errors='replace')}.")
    topic, queue, event = library.topic_new(client, SENT_TOPIC, None), library.queue_get_main(client), None
    try:
        library.produce(
            topic, SENT_PARTITION, library.COPY, SENT_VALUE, len(SENT_VALUE), SENT_KEY, len(SENT_KEY), SENT_MARK
        )
        library.purge(client, library.PURGE_ALL)
        event = library.queue_poll(queue, WAIT_MS)
        message = library.event_message_next(event) if event else None
        if not message:
            raise SourceError("a purged message was not reported.")
        yield message
    finally:
        library.event_destroy(event)
        library.queue_destroy(queue)
        library.topic_destroy(topic)
        library.destroy_flags(client, 0)


def _fields_read(address: int) -> dict[str, Any]:
    """What the loops and the structure find in the message."""
    found = ctypes.cast(address, ctypes.POINTER(library.NativeMessage)).contents
    messages, offsets = np.array([address], np.int64), np.zeros(1, np.int64)
    if (found.value_size, found.key_size) != (len(SENT_VALUE), len(SENT_KEY)):
        return {
            "value_size": found.value_size,
            "key_size": found.key_size,
        }  # nothing is copied by sizes that are not these
    copy_offsets_and_times(messages, 0, 1, offsets, np.zeros(1, np.int64), np.zeros(1, np.int8))
    return {
        "error": found.error, "topic": library.topic_name(found.topic), "partition": found.partition,
        "value": _bytes_read(messages, VALUE, len(SENT_VALUE)), "key": _bytes_read(messages, KEY, len(SENT_KEY)), "offset": int(offsets[0]),
        "private": found.private,
    }  # fmt: skip


def _bytes_read(messages: Any, field: int, size: int) -> bytes:
    ends, data, valid = np.zeros(2, np.int32), np.zeros(size, np.uint8), np.zeros(1, np.uint8)
    copy_values(messages, 0, 1, field, ends, data, valid)
    return data.tobytes()
