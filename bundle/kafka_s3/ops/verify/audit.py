"""How is a sink verified? Log, listing, dead letters, then each topic-partition's segments against Kafka and their objects.

The log is read before the bucket is listed, and its newest entries once more after that: a sink at work does not disturb the audit, and
what it writes meanwhile is no orphan. Memory holds 16 bytes of each claimed key and the records of one segment, as digests; what else the
log says lies on local disk where it is long.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.control.stored_settings import read_notes
from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.model.errors import LogDamaged, RegistryError
from kafka_s3.model.files import DataFile
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.verify.bucket import Bucket, Notify, silent
from kafka_s3.ops.verify.check import RESTORE_IT, Contents, SegmentRecords, check_content, check_count, check_room
from kafka_s3.ops.verify.claims import SegmentSelection, gaps_within, read_claims
from kafka_s3.ops.verify.evidence import Bounds, Cluster, bounds_of, rows_of_letters, with_evidence
from kafka_s3.ops.verify.findings import Finding, FindingKind, PartitionTally, Report
from kafka_s3.ops.verify.form import Form, first_version, form_of, same_since
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore


def kafka_of(settings: Settings) -> Cluster:
    """The brokers, as the audit reads them."""
    return PlainReader(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def audit_of(
    settings: Settings, selection: SegmentSelection, *, sample: int | None = None, kafka: Cluster | None = None
) -> Audit:
    """The audit of a sink; without `kafka` no broker is asked, with `sample` only so many objects are read."""
    store, paths = S3Store(store_options(settings)), state_paths(settings)
    return Audit(store, paths, object_names(settings), form_of(settings), kafka, selection, sample)


@dataclass
class Audit:
    """One verification. `kafka` None: from log and objects alone; `sample`: how many data objects are read, None all of them."""

    store: ObjectStore
    paths: StatePaths
    layout: DataKeys
    form: Form
    kafka: Cluster | None = None
    selection: SegmentSelection = field(default_factory=SegmentSelection)
    sample: int | None = None
    notify: Notify = silent

    def run(self) -> Report:
        """Verifies. Raises StorageError and SourceError where bucket or brokers cannot be asked."""
        claims = read_claims(self.store, self.paths)
        bucket = Bucket(self.store, self.paths, claims, self.layout, self.form, self.selection, self.notify)
        bucket.findings += claims.findings
        self._look_at_settings(bucket)
        bucket.select(self.sample)
        bucket.find_orphans()
        bounds = self._bounds([tp for tp, span in bucket.spans.items() if span.count], bucket)
        tallies = [self._tally(tp, bucket, bounds.get(tp)) for tp in bucket.spans]
        if bounds:
            bucket.notes += on_values(bucket.form, bucket.findings)
        return Report(self.paths.sink, claims.entries, tuple(tallies), tuple(bucket.findings), tuple(bucket.notes))

    def _look_at_settings(self, bucket: Bucket) -> None:
        """Since which entry values are made under the settings of now."""
        if self.kafka is None or self.form.expected is None:
            return
        try:
            epoch, names = same_since(read_notes(self.store, self.paths), self.form.shaping)
        except LogDamaged as error:
            bucket.notes.append(f"Values are compared as the settings say now. {error}")
            return
        if names:
            first = first_version(bucket.claims.epochs, epoch, last=bucket.claims.last_version)
            bucket.compared_from = first
            counted = f"What commit entries before {first} wrote was counted, not compared"
            bucket.notes.append(f"{counted}: other settings held ({', '.join(names)}).")

    def _tally(self, tp: TopicPartition, bucket: Bucket, bounds: Bounds | None) -> PartitionTally:
        """By the values' texts while these are the same in Kafka and objects; from the first difference on by value, and by counts alone
        from where a schema registry is needed that does not answer.
        """
        savepoint = bucket.savepoint()
        while True:
            try:
                return PartitionAudit(tp, bucket, self.kafka, bounds).tally()
            except TextsDiffer as differ:
                bucket.form = differ.by_value
            except RegistryError as error:
                bucket.form = bucket.form.without_values(f"the schema registry has not helped. {error}")
            bucket.roll_back(savepoint, tp)

    def _bounds(self, partitions: Sequence[TopicPartition], bucket: Bucket) -> Mapping[TopicPartition, Bounds]:
        """Kafka's bounds of the topic-partitions that have something to verify."""
        if self.kafka is None or not partitions:
            return {}
        bounds, notes = bounds_of(self.kafka, partitions, claims=bucket.claims, sink=self.paths.sink)
        bucket.notes += notes
        return bounds


def on_values(form: Form, findings: Sequence[Finding]) -> Iterator[str]:
    """What is to be known of the comparison of values: why there was none, and what may have misled it."""
    if form.counted:
        yield f"Values were counted, not compared: {form.counted}"
    if form.own_steps and any(one.kind in (FindingKind.WRONG_CONTENT, FindingKind.NOT_ACCOUNTED) for one in findings):
        differs = "Where a transform of your own may make something else of the same record the next time"
        way = "give it the attribute deterministic = False: then values are counted"
        yield f"Values were compared as {', '.join(form.own_steps)} makes them now. {differs}, {way}."


class TextsDiffer(Exception):
    """The texts of values differ, which does not say that values do: the topic-partition is checked once more, by value."""

    def __init__(self, by_value: Form) -> None:
        super().__init__()
        self.by_value = by_value


class PartitionAudit:
    """The audit of one topic-partition, whose dead letters `bucket` reads; what it finds goes to the bucket's findings and notes."""

    def __init__(self, tp: TopicPartition, bucket: Bucket, kafka: Cluster | None, bounds: Bounds | None) -> None:
        self._tp, self._kafka, self._bounds = tp, kafka, bounds
        self._bucket, self._claims, self._form = bucket, bucket.claims, bucket.form
        self._span = bucket.spans[tp]
        self._dead: Sequence[int] = ()
        self._resolved: set[int] = set()

    def tally(self) -> PartitionTally:
        """Checks the selected segments. Raises StorageError and SourceError where bucket or brokers cannot be asked, TextsDiffer where the
        form is one of texts, and there is more to say than that all of them are the same.
        """
        begin, span = self._claims.begins.get(self._tp, 0), self._span
        if not span.count:
            return PartitionTally(self._tp, begin, begin)
        self._check_texts(self._bounds is None or span.superseded or span.replayed)
        self._bucket.read_dead_letters(span)
        self._dead = sorted(self._bucket.dead.get(self._tp, {}))
        twice = self._check_superseded() if span.superseded else 0
        twice += self._written_before() if span.older else 0
        self._tally = self._empty_tally(begin, twice)
        self._check_head(self._tally.until)
        current = (one for one in self._selected() if one.is_current)
        records = with_evidence(current, span, self._kafka, self._bounds, form=self._form, notify=self._bucket.notify)
        for segment, evidence in records:
            self._check_segment(segment, evidence)
        for segment in self._selected() if span.replayed else ():
            if segment.resolved is not None and not segment.superseded:
                self._check_replay(segment, segment.resolved)
        self._bucket.forget_dead_letters(self._tp)
        return self._tally

    def _selected(self) -> Iterator[Segment]:
        return self._claims.selected(self._tp, self._bucket.selection)

    def _check_superseded(self) -> int:
        """What Kafka has at their offsets now comes with other segments: their objects alone are checked.

        Gives how many of their records are in the bucket once more. Who removed such objects since has removed nothing but copies.
        """
        text = "the log went back, or its topic was recreated. What was written before is checked by its objects alone"
        self._bucket.notes.append(f"{self._tp}: {text}.")
        current, twice = _offsets(one for one in self._claims.segments.of(self._tp) if one.is_current), 0
        for segment in (segment for segment in self._selected() if segment.superseded):
            copied = {file.key: _copied(file, current) if segment.read_again else 0 for file in segment.data}
            whole = [file for file in segment.files if copied.get(file.key) == file.records]
            gone = {file.key for file in whole if not self._bucket.holds(file)}
            kept = tuple(file for file in segment.files if file.key not in gone)
            self._bucket.objects(replace(segment, files=kept))
            twice += sum(copied.get(f.key, 0) for f in kept if self._claims.keys.is_last_claim(f.key, segment.version))
        return twice

    def _written_before(self) -> int:
        """How many records of the current segments are in the bucket once more by older entries, which were not selected."""
        current, twice = _offsets(one for one in self._selected() if one.is_current), 0
        for segment in self._claims.segments.of(self._tp):
            if segment.read_again and not self._bucket.selection.takes(segment):
                for file in segment.data:
                    copied = _copied(file, current)
                    last = copied and self._claims.keys.is_last_claim(file.key, segment.version)
                    twice += copied if last and self._bucket.holds(file) else 0
        return twice

    def _empty_tally(self, begin: int, twice: int) -> PartitionTally:
        """The tally before any segment was looked at; the log's first segment counts from its `begin`."""
        start, until = self._span.start, self._span.until
        start = min(begin, start) if self._span.first == next(self._claims.segments.of(self._tp)).identity else start
        gaps = gaps_within(self._claims.gaps, self._tp, start, until=until)
        return PartitionTally(self._tp, start, until, gaps=gaps, twice=twice)

    def _check_head(self, until: int) -> None:
        """Whether Kafka's log reaches as far as the commit log, where the selection does."""
        if self._bounds is None or self._bounds.head >= until or until != self._claims.fold.frontier.get(self._tp):
            return
        text = f"The log stands at {until}, but Kafka ends at {self._bounds.head}: truncated, or a sink that read uncommitted records."
        self._found(FindingKind.LOG, str(self._tp), f"{text} Compare isolation.level and the topic's history.")

    def _check_segment(self, segment: Segment, evidence: SegmentRecords | None) -> None:
        self._check_texts(evidence is None or not evidence.whole or self._letters_unread(segment))
        contents, read = self._bucket.objects(segment)
        dead = frozenset(self._dead[bisect_left(self._dead, segment.start) : bisect_left(self._dead, segment.until)])
        compared = 0
        if not self._letters_unread(segment):
            compared = self._compare(segment, evidence, dead=dead, contents=contents)
        self._count_objects(segment, read, dead_letters=len(dead), compared=compared)
        if self._bounds is not None:
            self._count_kafka(segment, evidence, self._bounds)

    def _compare(
        self, segment: Segment, evidence: SegmentRecords | None, *, dead: frozenset[int], contents: Contents
    ) -> int:
        """Compares a segment with Kafka as far as Kafka has it; how many records were compared by value."""
        findings = self._bucket.findings
        if evidence is None:
            findings += check_room(segment, len(dead))
            return 0
        findings += check_count(segment, evidence, dead=len(dead))
        if not self._is_compared(segment):
            return 0
        found = list(check_content(segment, evidence, dead=dead, contents=contents))
        self._check_texts(found)
        findings += found
        read = sum(file.records for file in segment.data if file.key in contents)
        return max(read - sum(row.digests is None for row in evidence.rows if row.offset not in dead), 0)

    def _check_texts(self, differ: object) -> None:
        if differ and self._form.by_value is not None:
            raise TextsDiffer(self._form.by_value)

    def _check_replay(self, segment: Segment, resolved: OffsetSet) -> None:
        """A replay's files against the dead letters that it resolves; Kafka is not needed for it."""
        contents, read = self._bucket.objects(segment)
        offsets = [offset for first, last in resolved.ranges for offset in range(first, last + 1)]
        if not self._letters_unread(segment):
            self._compare_letters(segment, offsets, contents)
        self._check_once(segment, offsets)
        self._count_objects(segment, read, dead_letters=-len(offsets))

    def _compare_letters(self, segment: Segment, offsets: Sequence[int], contents: Contents) -> None:
        letters = self._bucket.dead.get(self._tp, {})
        rows = rows_of_letters([letters[offset] for offset in offsets if offset in letters], self._tp, form=self._form)
        if len(rows) < len(offsets) and segment.sure:
            text = f"It resolves {len(offsets)} dead letters, of which {len(offsets) - len(rows)} are in no dead letter file. {RESTORE_IT}"
            self._found(FindingKind.LOG, str(segment), text)
        elif self._is_compared(segment):
            resolved = SegmentRecords(rows, whole=True)
            self._bucket.findings += check_content(segment, resolved, dead=frozenset(), contents=contents)

    def _check_once(self, segment: Segment, offsets: Sequence[int]) -> None:
        """Whether no replay before has resolved a dead letter of these offsets."""
        twice = self._resolved.intersection(offsets)
        if twice:
            text = f"{len(twice)} of its dead letters were resolved before. {RESTORE_IT}"
            self._found(FindingKind.TWICE, str(segment), text)
        self._resolved.update(offsets)

    def _is_compared(self, segment: Segment) -> bool:
        """Whether values can be compared: their form allows it, and the settings were those of now."""
        return self._form.expected is not None and segment.version >= self._bucket.compared_from

    def _letters_unread(self, segment: Segment) -> bool:
        """Whether a dead letter file could not be read: which records are dead letters is not known, and the file is the finding."""
        return any(_meets(file, segment) for file in self._bucket.unread.get(self._tp, ()))

    def _count_objects(self, segment: Segment, read: int, *, dead_letters: int, compared: int = 0) -> None:
        """Counts what a segment claims, and its objects, of which `read` were read and as many records `compared`."""
        tally = self._tally
        tally.written += segment.written
        tally.skipped += segment.skipped
        tally.dead_letters += dead_letters
        tally.objects += len(segment.files)
        tally.read += read
        tally.compared += compared

    def _count_kafka(self, segment: Segment, evidence: SegmentRecords | None, bounds: Bounds) -> None:
        """Counts what Kafka has at a segment's offsets: records, none, or not any more."""
        tally, room = self._tally, segment.until - segment.start
        lost = min(max(bounds.start - segment.start, 0), room)
        found = len(evidence.rows) if evidence is not None else 0
        tally.kafka = (tally.kafka or 0) + found
        tally.without_record += room - lost - found if evidence is not None else 0
        tally.retention += lost

    def _found(self, kind: FindingKind, place: str, text: str) -> None:
        self._bucket.findings.append(Finding(kind, place, text))


def _offsets(segments: Iterable[Segment]) -> OffsetSet:
    """The offsets of segments, most of which follow one another."""
    ranges: list[tuple[int, int]] = []
    for segment in segments:
        if segment.until <= segment.start:
            continue
        if ranges and ranges[-1][1] + 1 == segment.start:
            ranges[-1] = ranges[-1][0], segment.until - 1
        else:
            ranges.append((segment.start, segment.until - 1))
    return OffsetSet().plus(OffsetSet(tuple(ranges)))


def _copied(file: DataFile, current: OffsetSet) -> int:
    """How many of an object's records current segments have once more: the most that it can be, if it has gaps."""
    return min(len(current.since(file.first_offset).before(file.last_offset + 1)), file.records)


def _meets(file: DataFile, segment: Segment) -> bool:
    return file.first_offset < segment.until and file.last_offset >= segment.start
