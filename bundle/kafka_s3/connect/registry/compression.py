"""How are payloads read that AWS Glue's serializers compressed? Each is inflated by itself, within bounds, before all else."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.registry.framing import GLUE_MAGIC, PLAIN, ZLIB

HEADER_BYTES: Final = 18
LARGEST_BYTES: Final = 64 << 20
"""Of an inflated payload, where nothing else is said: four times the largest record that brokers are usually set up for."""
MOST: Final = 1032
"""Deflate makes no byte more than so many."""
_COMPRESSED: Final = bytes([GLUE_MAGIC, ZLIB])
_PLAIN: Final = bytes([GLUE_MAGIC, PLAIN])


def slices(columns: Sequence[pa.Array], budget: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges `[start, stop)` of records that inflate to about `budget` bytes at most, and to one record at least.

    What could go beyond is inflated for its size, one record at a time, and no record for more than `budget`.
    """
    held = sum(pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64) for column in columns)
    count = len(columns[0])
    if int(held.sum()) * MOST <= budget or not any(len(_compressed(column)) for column in columns):
        yield 0, count
        return
    for column in columns:
        for row in _compressed(column).tolist():
            held[row] += _size(column[row].as_py(), budget)
    start, total = 0, 0
    for row, size in enumerate(held.tolist()):
        if total + size > budget and row > start:
            yield start, row
            start, total = row, 0
        total += size
    yield start, count


def _compressed(values: pa.Array) -> Longs:
    found: Longs = np.flatnonzero(
        pc.fill_null(pc.starts_with(values, _COMPRESSED), False).to_numpy(zero_copy_only=False)
    )
    return found


def _size(record: bytes, largest: int) -> int:
    try:
        return len(zlib.decompressobj().decompress(record[HEADER_BYTES:], largest))
    except zlib.error:
        return 0


def inflated(values: pa.Array, largest: int) -> tuple[pa.Array, list[tuple[int, str]]]:
    """The records without compression, and (position, reason) of those that cannot be inflated, whose place is null then.

    An array without compressed records comes back as it is. A payload of more than `largest` bytes is not inflated further.
    """
    values = values.cast(pa.binary()) if values.type != pa.binary() else values
    rows = _compressed(values)
    if not len(rows):
        return values, []
    found: list[bytes | None] = []
    failures: list[tuple[int, str]] = []
    for row, record in zip(rows.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            found.append(_inflated(record, largest))
        except (zlib.error, ValueError) as error:
            found.append(None)
            failures.append((row, f"The payload cannot be inflated: {error}."))
    compressed = np.zeros(len(values), bool)
    compressed[rows] = True
    return pc.replace_with_mask(values, pa.array(compressed), pa.array(found, pa.binary())), failures


def _inflated(record: bytes, largest: int) -> bytes:
    """The record with its payload as it was. Raises zlib.error and ValueError."""
    engine = zlib.decompressobj()
    payload = engine.decompress(record[HEADER_BYTES:], largest + 1)
    if len(payload) > largest:
        raise ValueError(f"it has more than {largest} bytes, half of writer.memory.bytes")
    if not engine.eof:
        raise ValueError("it ends too early")
    return _PLAIN + record[2:HEADER_BYTES] + payload
