"""How much of what Kafka gives goes on at once, and what does the converter get of it?

Small batches are joined where many files are open, for a file's step costs the same for one record and for a hundred; batches whose
records inflate are cut. A task that closes at most so many files takes its records in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.converter import SCHEMA_NAME, KafkaBatch
from kafka_s3.connect.records.values import NO_TIMESTAMP
from kafka_s3.connect.registry.wire_format import slices

ROWS_PER_FILE: Final = 64
"""So many records a file, and what its steps cost is little beside the records."""
MOST: Final = 256 << 20
"""Bytes that are joined at most, whatever memory there is: Arrow's offsets end at 2 GiB, and steps lengthen the texts."""


def coalesced(
    batches: Iterable[pa.RecordBatch], open_files: Callable[[], int], budget: int
) -> Iterator[pa.RecordBatch]:
    """The batches, several of equal columns as one where the open files are many; together at most `budget` bytes (and MOST), or one.

    With 10,000 open files, ten batches of 65,536 records make 64 records a file; of 9 MB each, a budget of 32 MB gives three at a time.
    """
    budget = min(budget, MOST)
    held: list[pa.RecordBatch] = []
    for batch in batches:
        size = sum(one.nbytes for one in held) + batch.nbytes
        if held and (size > budget or batch.schema != held[0].schema):
            yield _joined(held)
        held.append(batch)
        del batch
        if sum(map(len, held)) >= ROWS_PER_FILE * open_files():
            yield _joined(held)
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The batches as one; they are not held any longer, for that one is a copy."""
    joined = held[0] if len(held) == 1 else pa.concat_batches(held)
    held.clear()
    return joined


TRUSTED: Final = 4
"""So many times as many records as files may close are taken at most, while only the task before says how few these will be."""


class FilesMade:
    """How many files the last task of this process made of how many records. One of the same topic need not find it out again."""

    def __init__(self) -> None:
        self._last = "", 0, 0

    def of(self, topic: str) -> tuple[int, int]:
        """Records and files; 0 where the last task was another topic's."""
        last_topic, records, files = self._last
        return (records, files) if topic == last_topic else (0, 0)

    def note(self, topic: str, records: int, files: int) -> None:
        """What a task has seen; nothing where it had no records."""
        if records:
            self._last = topic, records, files


def records_at_once(max_files: int, *, closed: int, records: int, files: int) -> int:
    """How many records a task takes before it counts its files again, so that it closes about `max_files`.

    It has `closed` some. Of so many `records` so many `files` are made, those that are open among them, which close together. While
    nothing is known of that, each record may close one.
    """
    if not records or not files:
        return max_files
    return max((max_files - closed) * records // files, max_files // 10, 1)


def within_memory(batch: pa.RecordBatch, inflates: Sequence[str], memory: int) -> list[pa.RecordBatch]:
    """The batch; where records of the columns `inflates` may be compressed, pieces that inflate to about half of `memory` bytes."""
    columns = [batch.column(name) for name in inflates if name in batch.schema.names]
    if not columns:
        return [batch]
    return [batch.slice(start, stop - start) for start, stop in slices(columns, memory // 2)]


def converter_input(batch: pa.RecordBatch, *, envelopes: bool) -> tuple[KafkaBatch, pa.Array | None]:
    """Offsets, times and values of a batch, and its keys; keys and headers only for a converter that makes `envelopes` of them."""
    offsets = batch.column("offset").to_numpy()
    times = batch.column("timestamp")
    if times.null_count:
        times = pc.fill_null(times, NO_TIMESTAMP)
    keys, headers, names = None, None, None
    if envelopes and "headers" in batch.schema.names:
        keys, headers = batch.column("key"), batch.column("headers")
    elif SCHEMA_NAME in batch.schema.names:
        names = batch.column(SCHEMA_NAME)
    return KafkaBatch(offsets, times.to_numpy(), batch.column("value"), headers, names), keys
