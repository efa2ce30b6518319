"""What does Kafka have at the offsets of each segment? One scan per topic-partition, from which the segments take their records in turn.

Memory holds the records of one segment, as digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_s3.model.cluster import Cluster, Record
from kafka_s3.tools.verify.bounds import Bounds
from kafka_s3.tools.verify.bucket import Tell
from kafka_s3.tools.verify.check import Row, SegmentRecords
from kafka_s3.tools.verify.form import Form
from kafka_s3.tools.verify.segments import Segment, Span


def with_evidence(
    segments: Iterable[Segment], span: Span, *, kafka: Cluster | None, bounds: Bounds | None, form: Form, tell: Tell
) -> Iterator[tuple[Segment, SegmentRecords | None]]:
    """Each of a topic-partition's segments with Kafka's records of its offsets; None where Kafka has none of them any more.

    Without `kafka` or `bounds` none has any. Raises what `Cluster.records` raises.
    """
    tp, end = span.topic_partition, span.end
    if kafka is None or bounds is None or not span.current or bounds.start >= end:
        yield from ((segment, None) for segment in segments)
        return
    start = max(bounds.start, span.begin)
    cursor = _Cursor(kafka.records(tp, start, until=end) if bounds.head > start else iter(()))
    try:
        for segment in segments:
            if segment.until <= bounds.start and segment.until > segment.start:
                yield segment, None
                continue
            rows = [row_of(offset, value, form=form) for offset, value in cursor.within(segment.start, segment.until)]
            tell(f"Kafka {tp}", segment.until - start, end - start)
            yield segment, SegmentRecords(rows, _keeps(bounds, segment))
    finally:
        cursor.close()


def row_of(offset: int, value: bytes | None, *, form: Form) -> Row:
    """A record as it is compared with objects."""
    if value is None and not form.empty_for_null:
        return Row(offset, (), null=True)
    digests = form.of_kafka(value or b"") if form.of_kafka is not None else None
    return Row(offset, None if digests is None else tuple(digests), null=digests == [])


def _keeps(bounds: Bounds, segment: Segment) -> bool:
    """Whether Kafka has removed none of a segment's records."""
    return bounds.whole and segment.start >= bounds.start and segment.until <= bounds.head


class _Cursor:
    """Records in ascending order, taken range by range; one is read ahead."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._next = next(records, None)

    def within(self, start: int, until: int) -> Iterator[Record]:
        while self._next is not None and self._next[0] < until:
            if self._next[0] >= start:
                yield self._next
            self._next = next(self._records, None)

    def close(self) -> None:
        close = getattr(self._records, "close", None)
        if close is not None:
            close()
