"""How is a sink verified? Log, listing, dead letters, then each topic-partition's segments against Kafka and their objects.

The log is read before the bucket is listed, and its newest entries once more after that: a sink at work does not disturb the audit, and
what it writes meanwhile is no orphan. Memory holds the log's claims and the records of one segment, as digests.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kafka_s3.driver.cluster import check_cluster
from kafka_s3.model.cluster import Cluster, Record
from kafka_s3.model.files import DataFile
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tools.verify.bucket import Bucket, Tell, silent
from kafka_s3.tools.verify.check import AGAIN, Row, SegmentRecords, check_content, check_count, check_room
from kafka_s3.tools.verify.claims import read_claims
from kafka_s3.tools.verify.findings import Finding, FindingKind, Report, Tally
from kafka_s3.tools.verify.form import Form
from kafka_s3.tools.verify.layout import ObjectLayout
from kafka_s3.tools.verify.segments import Segment, SegmentSelection, gaps_within


@dataclass(frozen=True, slots=True)
class Bounds:
    """What Kafka has of a topic-partition: `[start, head)`; `whole` where compaction removes nothing."""

    start: int
    head: int
    whole: bool


@dataclass
class Audit:
    """One verification. `kafka` None: from log and objects alone; `sample`: how many data objects are read, None all of them."""

    store: ObjectStore
    paths: StatePaths
    layout: ObjectLayout
    form: Form
    kafka: Cluster | None = None
    selection: SegmentSelection = field(default_factory=SegmentSelection)
    sample: int | None = None
    tell: Tell = silent

    def run(self) -> Report:
        """Verifies. Raises StorageError and SourceError where bucket or brokers cannot be asked."""
        return _Run(self).report()


class _Run:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._claims = read_claims(audit.store, audit.paths)
        self._bucket = Bucket(
            audit.store, audit.paths, self._claims, audit.layout, audit.form, audit.selection, audit.tell
        )
        self._findings, self._notes = self._bucket.findings, self._bucket.notes
        self._findings += self._claims.findings
        self._dead: dict[TopicPartition, list[int]] = {}
        self._resolved: dict[TopicPartition, set[int]] = {}

    def report(self) -> Report:
        chosen = self._claims.selected(self._audit.selection)
        self._bucket.choose(chosen, self._audit.sample)
        self._bucket.ask({tp.topic for tp in chosen})
        for tp, segments in chosen.items():
            self._bucket.read_dead_letters(tp, segments)
        self._dead = {tp: sorted(offsets) for tp, offsets in self._bucket.dead.items()}
        bounds = self._bounds([tp for tp, segments in chosen.items() if segments])
        tallies = [self._partition(tp, segments, bounds.get(tp)) for tp, segments in chosen.items()]
        return Report(
            self._audit.paths.sink, self._claims.entries, tuple(tallies), tuple(self._findings), tuple(self._notes)
        )

    def _bounds(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """What Kafka still has of each topic-partition that is the log's own."""
        kafka = self._audit.kafka
        if kafka is None or not partitions:
            return {}
        cluster, known = kafka.cluster_id(), self._claims.cluster_id
        check_cluster(known, cluster, sink=self._audit.paths.sink, remedy="verify with --no-kafka")
        topics = kafka.describe(sorted({tp.topic for tp in partitions}))
        for name in sorted({tp.topic for tp in partitions}):
            if name not in topics or topics[name].id != self._claims.topic_ids.get(name, topics[name].id):
                self._notes.append(
                    f"Topic {name} is not in Kafka, or was created again: checked from log and objects alone."
                )
                topics.pop(name, None)
        there = [tp for tp in partitions if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
        starts, heads, compacted = kafka.starts(there), kafka.heads(there), kafka.compacted(sorted(topics))
        silent = sorted(tp for tp in there if tp not in starts or tp not in heads)
        self._notes += [f"No broker answers for {tp}: checked from log and objects alone." for tp in silent]
        return {tp: Bounds(starts[tp], heads[tp], tp.topic not in compacted) for tp in there if tp not in silent}

    def _partition(self, tp: TopicPartition, segments: list[Segment], bounds: Bounds | None) -> Tally:
        begin = self._claims.begins.get(tp, 0)
        if not segments:
            return Tally(tp, begin, begin)
        current = [segment for segment in segments if not segment.superseded and segment.resolved is None]
        if any(segment.superseded for segment in segments):
            text = (
                "the log went back, or its topic was recreated. What was written before is checked by its objects alone"
            )
            self._notes.append(f"{tp}: {text}; where it was read again, its records may be in the bucket once more.")
        for segment in segments:
            if segment.superseded:
                self._bucket.objects(segment)
        span = current or segments
        start, until = min(s.start for s in span), max(s.until for s in span)
        start = min(begin, start) if span[0] == self._claims.segments[tp][0] else start
        tally = Tally(tp, start, until, gaps=gaps_within(self._claims.gaps, tp, start, until=until))
        if bounds is not None and bounds.head < until and self._selected_end(tp, until):
            text = f"The log stands at {until}, but Kafka ends at {bounds.head}: truncated, or a sink that read uncommitted records."
            self._findings.append(
                Finding(FindingKind.LOG, str(tp), f"{text} Compare isolation.level and the topic's history.")
            )
        for segment, evidence in self._with_evidence(tp, current, bounds):
            tally = self._segment(tally, segment, evidence, bounds)
        for segment in segments:
            if segment.resolved is not None and not segment.superseded:
                tally = self._replayed(tally, segment)
        return tally

    def _replayed(self, tally: Tally, segment: Segment) -> Tally:
        """A replay's files against the dead letters that it resolves; Kafka is not needed for it."""
        contents, read = self._bucket.objects(segment)
        values, resolved = self._bucket.dead.get(segment.topic_partition, {}), segment.resolved or OffsetSet()
        offsets = [offset for first, last in resolved.ranges for offset in range(first, last + 1)]
        rows = [self._row(offset, values[offset]) for offset in offsets if offset in values]
        unread = any(_meets(file, segment) for file in self._bucket.unread.get(segment.topic_partition, ()))
        if len(rows) < len(offsets) and segment.sure and not unread:
            text = f"It resolves {len(offsets)} dead letters, of which {len(offsets) - len(rows)} are in no dead letter file. {AGAIN}"
            self._findings.append(Finding(FindingKind.LOG, segment.place, text))
        elif not unread and self._audit.form.of_kafka is not None:
            self._findings += check_content(
                segment, SegmentRecords(rows, whole=True), dead=frozenset(), contents=contents
            )
        again = self._resolved.setdefault(segment.topic_partition, set())
        if again.intersection(offsets):
            text = f"{len(again.intersection(offsets))} of its dead letters were resolved before. {AGAIN}"
            self._findings.append(Finding(FindingKind.TWICE, segment.place, text))
        again.update(offsets)
        return replace(
            tally,
            written=tally.written + segment.written,
            dead_letters=tally.dead_letters - len(offsets),
            skipped=tally.skipped + segment.skipped,
            objects=tally.objects + len(segment.files),
            read=tally.read + read,
        )

    def _selected_end(self, tp: TopicPartition, until: int) -> bool:
        return until == self._claims.frontier.get(tp)

    def _with_evidence(
        self, tp: TopicPartition, segments: list[Segment], bounds: Bounds | None
    ) -> Iterator[tuple[Segment, SegmentRecords | None]]:
        """Each segment with Kafka's records of its offsets, from one scan; None where Kafka has none of them any more."""
        kafka = self._audit.kafka
        if kafka is None or bounds is None or not segments or bounds.start >= segments[-1].until:
            yield from ((segment, None) for segment in segments)
            return
        start, end = max(bounds.start, segments[0].start), segments[-1].until
        records = _Ahead(kafka.records(tp, start, until=end) if bounds.head > start else iter(()))
        try:
            for segment in segments:
                if segment.until <= bounds.start and segment.until > segment.start:
                    yield segment, None
                    continue
                rows = [self._row(offset, value) for offset, value in records.within(segment.start, segment.until)]
                self._audit.tell(f"Kafka {tp}", segment.until - start, end - start)
                whole = bounds.whole and segment.start >= bounds.start and segment.until <= bounds.head
                yield segment, SegmentRecords(rows, whole)
        finally:
            records.close()

    def _row(self, offset: int, value: bytes | None) -> Row:
        form = self._audit.form
        if value is None and not form.empty_for_null:
            return Row(offset, (), null=True)
        digests = form.of_kafka(value or b"") if form.of_kafka is not None else None
        return Row(offset, None if digests is None else tuple(digests), null=digests == [])

    def _segment(self, tally: Tally, segment: Segment, evidence: SegmentRecords | None, bounds: Bounds | None) -> Tally:
        contents, read = self._bucket.objects(segment)
        letters = self._dead.get(segment.topic_partition, [])
        dead = frozenset(letters[bisect_left(letters, segment.start) : bisect_left(letters, segment.until)])
        unread = [file for file in self._bucket.unread.get(segment.topic_partition, ()) if _meets(file, segment)]
        compared = 0
        if unread:  # which records are dead letters is not known: the missing file is the finding
            pass
        elif evidence is None:
            self._findings += check_room(segment, len(dead))
        else:
            self._findings += check_count(segment, evidence, dead=len(dead))
            if self._audit.form.of_kafka is not None:
                self._findings += check_content(segment, evidence, dead=dead, contents=contents)
                compared = sum(f.records for f in segment.data if f.key in contents)
        room = segment.until - segment.start
        lost = min(max(bounds.start - segment.start, 0), room) if bounds is not None else 0
        kafka = None if bounds is None else (tally.kafka or 0) + (len(evidence.rows) if evidence is not None else 0)
        empty = room - lost - len(evidence.rows) if evidence is not None else 0
        return replace(
            tally,
            written=tally.written + segment.written,
            dead_letters=tally.dead_letters + len(dead),
            skipped=tally.skipped + segment.skipped,
            kafka=kafka,
            without_record=tally.without_record + empty,
            retention=tally.retention + lost,
            objects=tally.objects + len(segment.files),
            read=tally.read + read,
            compared=tally.compared + compared,
        )


class _Ahead:
    """Records in ascending order, taken range by range."""

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


def _meets(file: DataFile, segment: Segment) -> bool:
    return file.first_offset < segment.until and file.last_offset >= segment.start
