"""What of a batch of Kafka's records does the converter get, and how much of it at once?"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.converter import SCHEMA_NAME, KafkaBatch
from kafka_s3.connect.records.values import NO_TIMESTAMP
from kafka_s3.connect.registry.wire_format import slices


def records_at_once(max_files: int, *, read: int, closed: int, opened: int) -> int:
    """How many records a task takes before it counts its files again, so that it closes about `max_files`.

    It has `read` some, `closed` files with them, and others are open, which close together: as many as all of these it makes of as many
    records again. Of those that it takes first each may close one.
    """
    seen = closed + opened
    if not read or not seen:
        return max_files
    return max((max_files - closed) * read // seen, max_files // 10, 1)


def within_memory(batch: pa.RecordBatch, inflates: Sequence[str], memory: int) -> list[pa.RecordBatch]:
    """The batch; where records of the columns `inflates` may be compressed, pieces that inflate to about half of `memory` bytes."""
    columns = [batch.column(name) for name in inflates if name in batch.schema.names]
    if not columns:
        return [batch]
    return [batch.slice(start, stop - start) for start, stop in slices(columns, memory // 2)]


def converter_input(batch: pa.RecordBatch, *, envelopes: bool) -> tuple[KafkaBatch, pa.Array | None]:
    """Offsets, times and values of a batch, and its keys; keys and headers only for a converter that makes `envelopes` of them."""
    offsets = batch.column("offset").to_numpy()
    times = pc.fill_null(batch.column("timestamp"), NO_TIMESTAMP).to_numpy(zero_copy_only=False)
    keys, headers, names = None, None, None
    if envelopes and "headers" in batch.schema.names:
        keys, headers = batch.column("key"), batch.column("headers")
    elif SCHEMA_NAME in batch.schema.names:
        names = batch.column(SCHEMA_NAME)
    return KafkaBatch(offsets, times, batch.column("value"), headers, names), keys
