"""How many records does an object hold? Told without decoding them, and None where it cannot be told cheaply."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.model.errors import StorageError, StorageUnavailable
from kafka_s3.store.store import ObjectInfo, ObjectStore

LARGEST: Final = 256 << 20
MAGIC: Final = b"PAR1"
TAIL: Final = 8
Count = Callable[[ObjectStore, ObjectInfo], int | None]


def record_count(store: ObjectStore, info: ObjectInfo, *, form: str) -> int | None:
    """The records of an object of the format `json`, `parquet`, `avro` or `lines`; None for other formats, damaged and very large objects.

    JSON has a line per record, the last one perhaps without an end; Parquet says it in its footer, Avro at the head of every block.
    """
    counter = COUNTERS.get(form)
    if counter is None:
        return None
    try:
        return counter(store, info)
    except StorageUnavailable:
        raise
    except (StorageError, pa.ArrowException, ValueError, EOFError, OSError, zlib.error):
        return None


def _lines(store: ObjectStore, info: ObjectInfo) -> int | None:
    if info.size > LARGEST:
        return None
    data = store.get(info.key)
    stream: io.BufferedIOBase = io.BytesIO(data)
    if info.key.endswith(".gz"):
        stream = gzip.GzipFile(fileobj=stream)
    lines, last = 0, b"\n"
    with stream:
        while chunk := stream.read(1 << 20):
            lines, last = lines + chunk.count(b"\n"), chunk[-1:]
    return lines + (last != b"\n")


def _parquet(store: ObjectStore, info: ObjectInfo) -> int | None:
    if info.size < 2 * TAIL:
        return None
    tail = store.get_range(info.key, info.size - TAIL, info.size - 1)
    if tail[4:] != MAGIC:
        return None
    length = int.from_bytes(tail[:4], "little")
    if length + TAIL > info.size:
        return None
    footer = store.get_range(info.key, info.size - TAIL - length, info.size - TAIL - 1)
    return int(pq.read_metadata(io.BytesIO(MAGIC + footer + tail)).num_rows)  # a file of no data pages


def _avro(store: ObjectStore, info: ObjectInfo) -> int | None:
    if info.size > LARGEST:
        return None
    stream = io.BytesIO(store.get(info.key))
    if stream.read(4) != b"Obj\x01":
        return None
    while count := _long(stream):
        if count < 0:
            _long(stream)  # the bytes of this part of the map
        for _ in range(abs(count) * 2):
            stream.seek(_long(stream), io.SEEK_CUR)
    sync = stream.read(16)
    records = 0
    while stream.tell() < info.size:
        records += _long(stream)
        stream.seek(_long(stream), io.SEEK_CUR)
        if stream.read(16) != sync:
            return None
    return records


def _long(stream: io.BytesIO) -> int:
    """An Avro long. Raises EOFError."""
    number = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            raise EOFError
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7


COUNTERS: Final[dict[str, Count]] = {"json": _lines, "lines": _lines, "parquet": _parquet, "avro": _avro}
