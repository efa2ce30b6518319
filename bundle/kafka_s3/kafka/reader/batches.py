"""What becomes of librdkafka's messages? Arrow batches with the columns that a task takes, each bounded in rows and in bytes.

::

    offset          int64
    timestamp       int64   epoch ms, null: the record has none
    timestamp_type  int8    0: none, 1: given by the producer (CreateTime), 2: by the broker (LogAppendTime)
    value           binary  null: a tombstone
    key             binary                                          Part.ENVELOPES only
    headers         list<struct<key: string, value: binary>>        Part.ENVELOPES only; never null
    <SCHEMA_NAME>   binary  the last header of that name, or null   Part.SCHEMA_NAMES only
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.kafka.reader import gather

ROWS: Final = 65_536
BYTES: Final = 16 << 20
"""Of values, keys and headers that are read in a batch; a record alone may be larger. So Arrow's offsets of 32 bits always do."""
NO_TIMESTAMP_MS: Final = -1
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_NAME: Final = VALUE_SCHEMA.encode() + b"\0"

Addresses = npt.NDArray[np.int64]


class ReadScope(Enum):
    """How much of each record is read."""

    VALUES = auto()
    """Offset, timestamp and value."""
    SCHEMA_NAMES = auto()
    """The header that names the value's schema, too."""
    ENVELOPES = auto()
    """Keys and all headers, too."""


def next_batch(messages: Addresses, at: int, *, until: int, part: ReadScope) -> pa.RecordBatch | None:
    """The records from message `at` on as a batch; their messages are destroyed. None: message `at` is no record below offset `until`."""
    sizes = np.zeros(gather.SIZES, np.int64)
    rows = gather.measured(messages, at, until, ROWS, BYTES, part is not ReadScope.VALUES, sizes)
    if not rows:
        return None
    batch = _batch(messages, at, rows, sizes, part)
    gather.destroy(messages, at, rows)
    return batch


def _batch(messages: Addresses, at: int, rows: int, sizes: Addresses, part: ReadScope) -> pa.RecordBatch:
    value_bytes, key_bytes, *headers = sizes.tolist()
    columns = _places_and_times(messages, at, rows)
    columns["value"] = _bytes(messages, at, rows, gather.VALUE, value_bytes)
    if part is ReadScope.ENVELOPES:
        columns["key"] = _bytes(messages, at, rows, gather.KEY, key_bytes)
        columns["headers"] = _headers(messages, at, rows, *headers)
    elif part is ReadScope.SCHEMA_NAMES:
        columns[SCHEMA_NAME] = _schema_names(messages, at, rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _places_and_times(messages: Addresses, at: int, rows: int) -> dict[str, pa.Array]:
    offsets, times, kinds = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int8)
    gather.places_and_times(messages, at, rows, offsets, times, kinds)
    none = times == NO_TIMESTAMP_MS
    return {
        "offset": pa.array(offsets),
        "timestamp": pa.array(times, mask=none if none.any() else None),
        "timestamp_type": pa.array(kinds),
    }


def _bytes(messages: Addresses, at: int, rows: int, part: int, size: int) -> pa.Array:
    ends, data, valid = _ends(rows), np.empty(size, np.uint8), _bits(rows)
    nulls = gather.bytes_of(messages, at, rows, part, ends, data, valid)
    return _binary(ends, data, valid, nulls)


def _headers(messages: Addresses, at: int, rows: int, count: int, name_bytes: int, value_bytes: int) -> pa.Array:
    ends, name_ends, value_ends = _ends(rows), _ends(count), _ends(count)
    names, values, valid = np.empty(name_bytes, np.uint8), np.empty(value_bytes, np.uint8), _bits(count)
    nulls = 0
    if count:
        nulls = gather.headers_of(messages, at, rows, ends, name_ends, names, value_ends, values, valid)
    pairs = pa.StructArray.from_arrays(
        [_text(_binary(name_ends, names, None, 0)), _binary(value_ends, values, valid, nulls)], fields=list(HEADER)
    )
    return pa.ListArray.from_arrays(pa.array(ends), pairs)


def _schema_names(messages: Addresses, at: int, rows: int) -> pa.Array:
    name = np.frombuffer(_NAME, np.uint8)
    size = gather.named_header_size(messages, at, rows, name.ctypes.data)
    if size < 0:
        return pa.nulls(rows, pa.binary())
    ends, data, valid = _ends(rows), np.empty(size, np.uint8), _bits(rows)
    gather.named_header_of(messages, at, rows, name.ctypes.data, ends, data, valid)
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
