"""What does Kafka still have? The bounds of its logs, and the records of each segment.

A topic-partition is scanned once, and its segments take their records in turn, so that memory holds those of one segment, as digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.loop.topics import check_cluster
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.verify.bucket import Notify
from kafka_s3.ops.verify.check import SegmentRecords
from kafka_s3.ops.verify.claims import Claims, Span
from kafka_s3.ops.verify.expected import ByBytes, ByChain, Row
from kafka_s3.ops.verify.form import Form, Letter


class Cluster(KafkaRecords, Protocol):
    """A cluster as the audit sees it. Methods raise KafkaUnavailable, SourceError."""

    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    def compacted(self, names: Sequence[str]) -> set[str]:
        """The topics of which compaction may remove records."""
        ...

    def values(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[tuple[int, bytes | None]]:
        """Offset and value of the records with offsets in `[start, until)`, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What Kafka has of a topic-partition: `[start, head)`; `whole` where compaction removes nothing."""

    start: int
    head: int
    whole: bool


def bounds_of(
    kafka: Cluster, partitions: Sequence[TopicPartition], *, claims: Claims, sink: str
) -> tuple[dict[TopicPartition, Bounds], list[str]]:
    """What Kafka still has of each topic-partition that is the log's own, and a note on each that it cannot be asked for.

    Raises SourceError where this is another cluster than the log's.
    """
    check_cluster(claims.cluster_id, kafka.cluster_id(), sink=sink, remedy="verify with --no-kafka")
    topics, notes = _unchanged(kafka, partitions, claims)
    there = [tp for tp in partitions if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
    starts, heads, compacted = kafka.starts(there), kafka.heads(there), kafka.compacted(sorted(topics))
    silent = sorted(tp for tp in there if tp not in starts or tp not in heads)
    notes += [f"No broker answers for {tp}: checked from log and objects alone." for tp in silent]
    bounds = {tp: Bounds(starts[tp], heads[tp], tp.topic not in compacted) for tp in there if tp not in silent}
    return bounds, notes


def _unchanged(
    kafka: Cluster, partitions: Sequence[TopicPartition], claims: Claims
) -> tuple[dict[str, Topic], list[str]]:
    """The topics that are in Kafka under the id that the log knows, and a note on each other one."""
    names = sorted({tp.topic for tp in partitions})
    topics, notes = kafka.describe(names), []
    for name in names:
        if name not in topics or topics[name].id != claims.fold.topic_ids.get(name, topics[name].id):
            notes.append(f"Topic {name} is not in Kafka, or was created again: checked from log and objects alone.")
            topics.pop(name, None)
    return topics, notes


def with_evidence(
    segments: Iterable[Segment], span: Span, kafka: Cluster | None, bounds: Bounds | None, *, form: Form, notify: Notify
) -> Iterator[tuple[Segment, SegmentRecords | None]]:
    """Each of a topic-partition's segments with Kafka's records of its offsets; None where Kafka has none of them any more.

    Without `kafka` or `bounds` none has any. Raises what the methods of `Cluster` raise, and RegistryError (`ByChain`).
    """
    tp, end = span.topic_partition, span.end
    if kafka is None or bounds is None or not span.current or bounds.start >= end:
        yield from ((segment, None) for segment in segments)
        return
    start = max(bounds.start, span.begin)
    cursor = _cursor(kafka, tp, start, until=min(end, bounds.head), form=form)
    try:
        for segment in segments:
            if segment.until <= bounds.start and segment.until > segment.start:
                yield segment, None
                continue
            rows = list(cursor.within(segment.start, segment.until))
            notify(f"Kafka {tp}", segment.until - start, end - start)
            yield segment, SegmentRecords(rows, _keeps(bounds, segment))
    finally:
        _close(cursor.source)


def rows_of_letters(letters: Sequence[Letter], tp: TopicPartition, *, form: Form) -> list[Row]:
    """Dead letters of a topic-partition as records that are compared with objects."""
    if not isinstance(form.expected, ByChain):
        return [_row(form.expected, letter.offset, letter.value) for letter in letters]
    columns = {name: [getattr(letter, name) for letter in letters] for name in ENVELOPE.names}
    return form.expected.rows(tp, pa.RecordBatch.from_pydict(columns, schema=ENVELOPE)) if letters else []


def _row(expected: ByBytes | None, offset: int, value: bytes | None) -> Row:
    return Row(offset, null=value is None) if expected is None else expected.row(offset, value)


def _keeps(bounds: Bounds, segment: Segment) -> bool:
    """Whether Kafka has removed none of a segment's records."""
    return bounds.whole and segment.start >= bounds.start and segment.until <= bounds.head


class _Values:
    """Rows of values in ascending order, taken range by range; one is read ahead."""

    def __init__(self, expected: ByBytes | None, values: Iterator[tuple[int, bytes | None]]) -> None:
        self._expected, self.source = expected, values
        self._next = next(values, None)

    def within(self, start: int, until: int) -> Iterator[Row]:
        """The next ones with offsets in `[start, until)`; those before are left out."""
        while self._next is not None and self._next[0] < until:
            offset, value = self._next
            if offset >= start:
                yield _row(self._expected, offset, value)
            self._next = next(self.source, None)


class _Batches:
    """The same of whole records; of the batch that was read last the rest is kept."""

    def __init__(self, expected: ByChain, tp: TopicPartition, batches: Iterator[pa.RecordBatch]) -> None:
        self._expected, self._tp, self.source = expected, tp, batches
        self._batch: pa.RecordBatch | None = None

    def within(self, start: int, until: int) -> Iterator[Row]:
        """As `_Values` does."""
        while (batch := self._batch or next(self.source, None)) is not None:
            first, end = np.searchsorted(batch.column("offset").to_numpy(), [start, until]).tolist()
            self._batch = batch.slice(end) if end < len(batch) else None
            if first < end:
                yield from self._expected.rows(self._tp, batch.slice(first, end - first))
            if self._batch is not None:
                return


def _cursor(kafka: Cluster, tp: TopicPartition, start: int, *, until: int, form: Form) -> _Values | _Batches:
    if isinstance(form.expected, ByChain):
        return _Batches(form.expected, tp, kafka.batches(tp, start, until=until) if until > start else iter(()))
    return _Values(form.expected, kafka.values(tp, start, until=until) if until > start else iter(()))


def _close(records: object) -> None:
    """Ends a scan, which is a generator for a real cluster."""
    close = getattr(records, "close", None)
    if close is not None:
        close()
