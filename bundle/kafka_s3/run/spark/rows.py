"""What does a row that Spark hands to Python look like? Topic-partition and offset as one number, the time, the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.values import Longs
from kafka_s3.model.errors import SinkError

ROWS_PER_BATCH: Final = 16_384
SMALL_BYTES: Final = 4096
"""Times the rows of a batch: 64 MiB, which is Spark's own bound of bytes."""
NO_TIMESTAMP_MS: Final = -1
PLACE: Final = "place"


class ReadMode(Enum):
    """Which records of a range cross."""

    PLAIN = auto()
    """The small ones whose schema, if any, is named in their bytes; the rows of a batch are limited."""
    ALL = auto()
    """Every one; the bytes of a batch are limited, too."""


class OversizedRecord(SinkError):
    """A range of which the plain records were read holds others."""


def by_place(batches: Iterable[pa.RecordBatch], offset_bits: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches, cut where a topic-partition ends and the next begins, with the topic-partition's number."""
    for batch in batches:
        if not len(batch):
            continue
        places = _positive(batch) >> offset_bits
        starts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for start, stop in pairwise(starts):
            yield int(places[start]), batch.slice(start, stop - start)


def unpacked(batch: pa.RecordBatch, offset_bits: int) -> pa.RecordBatch:
    """The batch with its offsets, and null for Kafka's "no timestamp". Raises OversizedRecord."""
    packed = batch.column(PLACE).to_numpy()
    if packed.min() < 0:
        raise OversizedRecord(f"a record has more than {SMALL_BYTES} bytes or names its schema in a header")
    offsets = pa.array(packed & ((1 << offset_bits) - 1))
    batch = batch.set_column(batch.schema.get_field_index(PLACE), "offset", offsets)
    index = batch.schema.get_field_index("timestamp")
    times = batch.column(index)
    none = pc.equal(times, NO_TIMESTAMP_MS)
    if not pc.any(none).as_py():
        return batch
    return batch.set_column(index, "timestamp", pc.if_else(none, pa.scalar(None, pa.int64()), times))


def last_offset(batch: pa.RecordBatch, offset_bits: int) -> int:
    """The offset of a batch's last record."""
    return int(_positive(batch)[-1]) & ((1 << offset_bits) - 1)


def _positive(batch: pa.RecordBatch) -> Longs:
    """Number and offset of each record, also of one that did not cross."""
    packed: Longs = batch.column(PLACE).to_numpy()
    return packed if packed.min() >= 0 else np.where(packed < 0, -1 - packed, packed)
