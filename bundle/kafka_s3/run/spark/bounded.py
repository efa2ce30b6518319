"""How much of a range does Spark hand to the driver at a time? So many bytes, whatever its records weigh, and at least one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.values import Longs

BYTES_PER_READ: Final = 64 << 20
RECORD_BYTES: Final = 32
"""What a record costs beside its key, value and headers."""


def first_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first records, until they have BYTES_PER_READ; the last one may go beyond. Runs in Spark's task, before anything is collected."""
    left = BYTES_PER_READ
    for batch in batches:
        if left <= 0:
            continue  # Spark wants its rows to be taken
        held = sizes(batch)
        rows = int(np.searchsorted(np.cumsum(held) - held, left))
        yield batch.slice(0, rows)
        left -= int(held[:rows].sum())


def is_cut(batches: Iterable[pa.RecordBatch]) -> bool:
    """Whether records may have been left out behind these."""
    return sum(int(sizes(batch).sum()) for batch in batches) >= BYTES_PER_READ


def sizes(batch: pa.RecordBatch) -> Longs:
    """The bytes of each record of a batch: value and, where they cross, key and headers."""
    found = np.full(len(batch), RECORD_BYTES, np.int64)
    for name in ("value", "key"):
        if name in batch.schema.names:
            found += _lengths(batch.column(name))
    if "headers" in batch.schema.names:
        found += _header_bytes(batch.column("headers"))
    return found


def _header_bytes(headers: pa.Array) -> Longs:
    inside = headers.flatten()
    ends = np.concatenate([[0], np.cumsum(_lengths(inside.field(0)) + _lengths(inside.field(1)))])
    places = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy())])
    found: Longs = ends[places[1:]] - ends[places[:-1]]
    return found


def _lengths(column: pa.Array) -> Longs:
    found: Longs = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return found
