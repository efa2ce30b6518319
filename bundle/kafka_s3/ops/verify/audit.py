"""How is a sink verified? Log, listing, dead letters, then each topic-partition's segments against Kafka and their objects.

The log is read before the bucket is listed, and its newest entries once more after that: a sink at work does not disturb the audit, and
what it writes meanwhile is no orphan. Memory holds 16 bytes of each claimed key and the records of one segment, as digests; what else the
log says lies on local disk where it is long.
A topic-partition of Kafka is scanned once, and its segments take their records in turn. By example: docs/worked-examples.md.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import BlockNames, DataKeys, ObjectKey, last_of_rewritten, slices_of_rewritten
from kafka_s3.engine.control.status import state_folders
from kafka_s3.engine.control.stored_settings import read_notes
from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.log.state_paths import DeadLetterKeys, StatePaths
from kafka_s3.engine.loop.topics import check_cluster, names_like
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.errors import ConfigError, LogDamaged, ObjectArchived, ObjectMissing, Problem, RegistryError
from kafka_s3.model.files import DataFile, Role, Slice
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.objects.block_gzip_form import end_by_index
from kafka_s3.objects.merging import MergeRefused, digest_rows
from kafka_s3.objects.readers import record_count
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.verify.claims import (
    REPORT_IT,
    Claims,
    Overlaps,
    SegmentSelection,
    Span,
    claimed_twice,
    gaps_within,
    read_claims,
)
from kafka_s3.ops.verify.earlier import EarlierObject, EarlierObjects
from kafka_s3.ops.verify.expected import ByBytes, ByChain, Digest, Row
from kafka_s3.ops.verify.findings import Finding, FindingKind, PartitionTally, Report
from kafka_s3.ops.verify.form import (
    Form,
    Letter,
    ObjectCount,
    Unreadable,
    first_version,
    form_of,
    read_letter_file,
    read_object,
    same_since,
)
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectInfo, ObjectStore, etag_of

RESTORE_IT: Final = (
    "Restore it from a bucket version, or write its offsets again with a new sink name while Kafka has them."
)
DOUBLED: Final = "docs/migrate.md (A start that doubled records) shows the way back."
SHOWN: Final = 5
Contents = Mapping[str, Counter[Digest]]
"""The digests of the values of objects that were read well, by key."""


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    """Kafka's records in a segment. `whole` is False where Kafka may have removed some: compaction, retention, truncation."""

    rows: Sequence[Row]
    whole: bool


def check_info(
    file: DataFile, info: ObjectInfo | None, *, pending: bool = False, opaque: bool = False
) -> Iterator[Finding]:
    """Whether a claimed object is there as it was uploaded. `pending`: its upload can still be completed; `opaque`: ETags say nothing."""
    if info is None:
        way = "Its upload is still pending: start the sink, which completes it." if pending else RESTORE_IT
        spans = " and ".join(f"{_span(one)} of {one.topic_partition}" for one in file.by_slice)
        text = f"The log claims it for {spans}, but it is not in the bucket. {way}"
        yield Finding(FindingKind.MISSING_OBJECT, file.key, text)
    elif info.size != file.bytes:
        text = f"It has {info.size} bytes, the log claims {file.bytes}: it was overwritten. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_SIZE, file.key, text)
    elif not opaque and (expected := expected_etag(file)) not in (None, info.etag):
        what = f"Its ETag is {info.etag}, its uploaded parts make {expected}"
        text = f"{what}: it was overwritten, copied or made again. Compare it with a bucket version."
        yield Finding(FindingKind.WRONG_ETAG, file.key, text)


def check_reading(file: DataFile, reading: ObjectCount) -> Iterator[Finding]:
    """Whether an object holds as many records as claimed."""
    count = reading.count
    if count is not None and count != file.records and not (reading.at_least and count > file.records):
        text = f"It holds {count} records, the log claims {file.records}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_COUNT, file.key, text)


def check_letters(file: DataFile, letters: Sequence[Letter]) -> Iterator[Finding]:
    """Whether a dead letter file holds the letters that are claimed, each once."""
    if len(letters) != file.records:
        text = f"It holds {len(letters)} dead letters, the log claims {file.records}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_COUNT, file.key, text)
    strangers = sum((letter.topic, letter.partition) != file.topic_partition for letter in letters)
    outside = sum(not file.first_offset <= letter.offset <= file.last_offset for letter in letters)
    if strangers or outside:
        what = f"{strangers} of another topic-partition, {outside} outside {_span(file)}"
        text = f"Some of its dead letters are not those claimed: {what}. {RESTORE_IT}"
        yield Finding(FindingKind.WRONG_CONTENT, file.key, text)
    twice = [offset for offset, count in Counter(letter.offset for letter in letters).items() if count > 1]
    if twice:
        yield Finding(FindingKind.TWICE, file.key, f"It holds offsets {_some(twice)} more than once. {REPORT_IT}")


def check_room(segment: Segment, dead: int) -> Iterator[Finding]:
    """Whether the claims fit the offsets, where Kafka cannot be asked."""
    room, claimed = segment.until - segment.start, segment.written + segment.skipped + dead
    if claimed > room and segment.sure:
        text = f"{claimed} records are claimed for {room} offsets. {REPORT_IT}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def check_count(segment: Segment, evidence: SegmentRecords, *, dead: int) -> Iterator[Finding]:
    """Whether as many records are claimed as Kafka has; `dead` are the dead letters with offsets in the segment."""
    found, claimed = len(evidence.rows), segment.written + segment.skipped + dead
    parts = f"{segment.written} written, {dead} dead letters, {segment.skipped} skipped"
    if found > claimed and segment.sure:
        lost = f"{found - claimed} are lost. {RESTORE_IT}"
        text = f"Kafka has {found} records, the log accounts for {claimed} ({parts}): {lost}"
        yield Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)
    elif found < claimed and segment.sure and evidence.whole:
        twice = f"{claimed - found} are counted twice. {REPORT_IT}"
        text = f"Kafka has {found} records, the log claims {claimed} ({parts}): {twice}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def check_content(
    segment: Segment, evidence: SegmentRecords, *, dead: frozenset[int], contents: Contents
) -> Iterator[Finding]:
    """Whether the objects' values are those of Kafka's records, each once."""
    live = [row for row in evidence.rows if row.offset not in dead]
    offsets_of: dict[Digest, list[int]] = {}
    for row in live:
        for found in row.digests or ():
            offsets_of.setdefault(found, []).append(row.offset)
    unknown = [row.offset for row in live if row.digests is None]
    wrong = False
    for file in segment.data:
        if evidence.whole and file.key in contents:
            strange = _strange(file, contents[file.key], offsets_of) - _count_within(unknown, file)
            if strange > 0:
                wrong = True
                text = f"{strange} of its {file.records} values are not those of Kafka's {_span(file)}, or too many. {RESTORE_IT}"
                yield Finding(FindingKind.WRONG_CONTENT, file.key, text)
    if all(file.key in contents for file in segment.data if file.role is Role.VALUE):
        total: Counter[Digest] = Counter()
        for file in segment.data:
            total.update(contents.get(file.key, ()))
        yield from _missing(segment, live, offsets_of, total)
        if evidence.whole and not wrong:
            yield from _doubled(segment, len(unknown), offsets_of, total)


def _strange(file: DataFile, content: Counter[Digest], offsets_of: Mapping[Digest, list[int]]) -> int:
    """Values of an object beyond those that Kafka has in the object's offsets."""
    return sum(max(count - _count_within(offsets_of.get(found, ()), file), 0) for found, count in content.items())


def _missing(
    segment: Segment, live: Sequence[Row], offsets_of: Mapping[Digest, list[int]], total: Counter[Digest]
) -> Iterator[Finding]:
    """Kafka's values that are in no object, beyond the skips that are not null values."""
    left = {found: len(offsets) - total[found] for found, offsets in offsets_of.items()}
    missing = sorted({offsets_of[found][-1 - n] for found, count in left.items() for n in range(count)})
    without_value = segment.skipped + sum(file.records for file in segment.data if file.role is not Role.VALUE)
    spare = max(without_value - sum(row.null for row in live), 0)
    if len(missing) > spare and segment.sure:
        text = f"The values at offsets {_some(missing)} are in none of the segment's objects, dead letters or skips. {RESTORE_IT}"
        yield Finding(FindingKind.NOT_ACCOUNTED, str(segment), text)


def _doubled(
    segment: Segment, unknown: int, offsets_of: Mapping[Digest, list[int]], total: Counter[Digest]
) -> Iterator[Finding]:
    """Values that objects hold more often than Kafka."""
    doubled = {found: count - len(offsets_of.get(found, ())) for found, count in total.items()}
    surplus = sum(count for count in doubled.values() if count > 0)
    if surplus > unknown:
        offsets = sorted(offsets_of[found][0] for found, count in doubled.items() if count > 0 and found in offsets_of)
        text = f"{surplus} values are in the segment's objects more often than in Kafka (offsets {_some(offsets)}). {REPORT_IT}"
        yield Finding(FindingKind.TWICE, str(segment), text)


def _count_within(offsets: Sequence[int], file: DataFile) -> int:
    """How many of ascending offsets are among a file's."""
    return bisect_right(offsets, file.last_offset) - bisect_left(offsets, file.first_offset)


def _span(file: DataFile) -> str:
    return f"offsets {file.first_offset} to {file.last_offset}"


def expected_etag(file: DataFile) -> str | None:
    """The ETag that an object's uploaded parts make; None where the store issues ETags of its own."""
    try:
        return etag_of(file.upload.parts)
    except ValueError:
        return None


def _some(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:SHOWN]))
    return shown + (f" and {len(offsets) - SHOWN} more" if len(offsets) > SHOWN else "")


Notify = Callable[[str, int, int], None]
"""Called with progress: what, how many of them are done, of how many."""


def silent(what: str, done: int, total: int) -> None:
    """Notifies nobody."""


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
    unheard = sorted(tp for tp in there if tp not in starts or tp not in heads)
    notes += [f"No broker answers for {tp}: checked from log and objects alone." for tp in unheard]
    bounds = {tp: Bounds(starts[tp], heads[tp], tp.topic not in compacted) for tp in there if tp not in unheard}
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


THREADS: Final = 8
LISTED: Final = 1000
"""Objects of a listing that are compared with the claims at a time."""
NOT_READ: Final = frozenset({Role.DEAD_LETTER, Role.POINTER})


class _Unclaimed(NamedTuple):
    """An object in the folder of a topic that no entry claims; `sources` are the topics of Kafka whose records go to that folder.

    Other sinks may route there, too: in the folder of a topic that is none of these, only names of this sink's own count.
    """

    key: str
    size: int
    folder: str
    sources: set[str]
    layout: DataKeys

    def read_key(self) -> ObjectKey | None:
        names = (self.folder, *sorted(self.sources))
        return next((part for name in names if (part := self.layout.read(self.key, name))), None)


@dataclass
class Bucket:
    """The bucket as a sink's claims are checked against it. `findings` and `notes` grow with what is checked.

    `dead` are the dead letters that were read, by offset, `unread` the dead letter files that could not be; `folders` are the topics
    of Kafka whose records lie in the folder of a topic: its own, and those whose records a transform has sent there. Values of entries
    before `compared_from` were made under other settings.
    """

    store: ObjectStore
    paths: StatePaths
    claims: Claims
    layout: DataKeys
    form: Form
    selection: SegmentSelection = field(default_factory=SegmentSelection)
    notify: Notify = silent
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dead: dict[TopicPartition, dict[int, Letter]] = field(default_factory=dict)
    unread: dict[TopicPartition, list[DataFile]] = field(default_factory=dict)
    spans: dict[TopicPartition, Span] = field(default_factory=dict)
    folders: dict[str, set[str]] = field(default_factory=dict)
    compared_from: int = 0
    _chosen: frozenset[str] | None = None
    _sample: int | None = None
    _wanted: int = 0
    _done: int = 0

    def savepoint(self) -> tuple[int, int, int]:
        """How far the audit has come, for `roll_back`."""
        return len(self.findings), len(self.notes), self._done

    def roll_back(self, savepoint: tuple[int, int, int], tp: TopicPartition) -> None:
        """Forgets what was found since in a topic-partition, which is checked once more."""
        findings, notes, self._done = savepoint
        del self.findings[findings:], self.notes[notes:]
        self.forget_dead_letters(tp)

    def select(self, sample: int | None) -> None:
        """Looks at every claim once: what is selected, and what contradicts itself. Says which objects are read: all, or an even spread."""
        self.findings += claimed_twice(self.claims)
        self.spans = {tp: self._look_over(tp) for tp in self.claims.segments if self.selection.has(tp)}
        self._sample = sample
        wanted = self._wanted = sum(span.readable for span in self.spans.values())
        if sample is None or sample >= wanted:
            return
        rest = "of the others existence, size and ETag were checked"
        self.notes.append(f"{sample} of {wanted} objects were read; {rest}.")
        numbers = {number * wanted // sample for number in range(sample)}
        segments = (one for tp in self.spans for one in self.claims.selected(tp, self.selection)) if sample else ()
        keys = (file.key for segment in segments for file in segment.files if file.role not in NOT_READ)
        self._chosen, self._wanted = frozenset(key for number, key in enumerate(keys) if number in numbers), sample

    def _look_over(self, tp: TopicPartition) -> Span:
        overlaps, span = Overlaps(self.layout.folder_topic), Span(tp)
        for segment in self.claims.segments.of(tp):
            self.findings += overlaps.within(segment)
            span.letter_files += sum(file.role is Role.DEAD_LETTER for file in segment.files)
            if self.selection.takes(segment):
                span.add(segment, sum(file.role not in NOT_READ for file in segment.files))
            else:
                span.older += segment.read_again
        for target in overlaps.targets or {tp.topic}:
            self.folders.setdefault(target, set()).add(tp.topic)
        return span

    def find_orphans(self) -> None:
        """Lists the topics' folders: notes how claimed objects are there; those that no entry claims are orphans."""
        own = {topic: {topic} for topics in self.folders.values() for topic in topics}
        unclaimed = [*self._unclaimed(self.layout, self.folders), *self._unclaimed(DeadLetterKeys(self.paths), own)]
        later = read_claims(self.store, self.paths, after=self.claims.last_version) if unclaimed else Claims()
        first_positions = self._first_positions() if unclaimed else {}
        passed_over, before_first = 0, defaultdict[TopicPartition, EarlierObjects](EarlierObjects)
        for one in unclaimed:
            if one.key in later.keys or one.key.startswith(self.paths.root) != isinstance(one.layout, DeadLetterKeys):
                continue
            named = one.read_key()
            finding = self._orphan(one, named)
            if finding is not None:
                self.findings.append(finding)
                continue
            passed_over += 1
            if named is not None and not isinstance(one.layout, DeadLetterKeys):
                for item in _earlier_objects(one, named):
                    if item.start < first_positions.get(item.topic_partition, 0):
                        before_first[item.topic_partition].add(item)
        passed_over -= sum(self._check_overlaps(tp, items) for tp, items in sorted(before_first.items()))
        if passed_over:
            where = "other topic-partitions or offsets than those verified"
            self.notes.append(f"{passed_over} objects of {where} were not looked at.")

    def _first_positions(self) -> dict[TopicPartition, int]:
        """Return where the log begins, of each topic-partition whose first segment is verified."""
        segments = {tp: next(self.claims.segments.of(tp)) for tp, span in self.spans.items() if span.count}
        return {tp: self.claims.begins[tp] for tp, first in segments.items() if self.spans[tp].first == first.identity}

    def _check_overlaps(self, tp: TopicPartition, items: EarlierObjects) -> int:
        """Check whether objects from before the log's first position hold offsets of the log, too. Return how many were counted."""
        objects, complete = items.close()
        if self._sample is not None:
            complete = complete and len(objects) <= self._sample
            objects = objects[max(len(objects) - self._sample, 0) :]
        with ThreadPoolExecutor(THREADS) as pool:
            ends = list(pool.map(self._end_of, objects))
        begin, accounted = self.claims.begins[tp], OffsetSet()
        if any(end is not None and end > begin for end in ends):
            accounted = _offsets(one for one in self.claims.segments.of(tp) if one.is_current)
        for item, end in zip(objects, ends, strict=True):
            twice = accounted.since(begin).before(end) if end is not None else OffsetSet()
            if end is not None and twice.ranges:
                shared = f"offsets {twice.ranges[0][0]} to {twice.ranges[-1][1]}"
                text = (
                    f"It begins at offset {item.start} and reaches to {end - 1} at least, but this sink began at {begin}: "
                    f"{shared} of {tp} are in its log, too, and so twice in the bucket. {DOUBLED}"
                )
                self.findings.append(Finding(FindingKind.TWICE, item.key, text))
        unknown = [item.key for item, end in zip(objects, ends, strict=True) if end is None]
        if unknown or not complete:
            which = f"such as {unknown[0]}, " if unknown else ""
            text = f"Not all objects that begin before offset {begin} were counted, {which}so some may hold records of the log, too."
            self.notes.append(f"{tp}: {text}")
        return len(objects) - len(unknown)

    def _end_of(self, item: EarlierObject) -> int | None:
        """Return one past an object's last offset, at least: it may hold offsets without a record. None: it cannot be counted."""
        if item.until is not None:
            return item.until
        if isinstance(self.layout, BlockNames):
            return end_by_index(self.store, item.key)
        if f".{self.form.format}" not in item.key.rpartition("/")[2]:
            return None
        records = record_count(self.store, item.key, size=item.size, form=self.form.format)
        return None if records is None else item.start + records

    def _unclaimed(self, layout: DataKeys, folders: Mapping[str, set[str]]) -> Iterator[_Unclaimed]:
        """What no entry claims in the folders of these topics."""
        for prefix, mine in layout.topics_by_prefix(folders).items():
            infos = self.store.list(prefix)
            while some := list(islice(infos, LISTED)):
                for info in self.claims.keys.note_listing(some):
                    owner = next((topic for topic in mine if not layout.is_foreign(info.key, topic)), None)
                    if owner is not None:
                        yield _Unclaimed(info.key, info.size, owner, folders[owner], layout)

    def _orphan(self, one: _Unclaimed, named: ObjectKey | None) -> Finding | None:
        """The finding on an unclaimed object; None where it lies outside of what is verified, or before the log's first position."""
        if named is None and one.folder not in one.sources:
            return None
        if named is not None:
            topics = one.sources if named.topic_partition.topic == one.folder else {named.topic_partition.topic}
            own = (TopicPartition(topic, named.topic_partition.partition) for topic in topics)
            if not any(self._verifies(tp, named.offset) for tp in own):
                return None
        others = "If no other program writes here (a second sink with the same topics.dir, a copy by hand), remove it."
        text = f"No commit entry claims it, so its records may be in the bucket twice. {others}"
        return Finding(FindingKind.ORPHAN, one.key, text)

    def _verifies(self, tp: TopicPartition, offset: int) -> bool:
        """Whether an offset lies in what is verified, and not before the log's first position."""
        begin = self.claims.begins.get(tp)
        before = begin is not None and offset < begin
        return not before and self.selection.has(tp) and self.selection.touches(offset, offset)

    def _as_claimed(self, file: DataFile) -> bool:
        """Whether the listing shows the object as the log claims it."""
        etag = None if self.form.opaque_etags else expected_etag(file)
        return self.claims.keys.is_listed(file.key, file.bytes, etag=etag)

    def holds(self, file: DataFile) -> bool:
        """Whether the object of a claim is there, of whatever size."""
        return self._as_claimed(file) or self.store.head(file.key) is not None

    def _exists(self, file: DataFile, version: int) -> bool:
        """Checks existence, size and ETag of a claim; whether there is something to read."""
        if self._as_claimed(file):
            return True
        info = self.store.head(file.key)
        upload = file.upload if version == self.claims.last_version else self.claims.waiting.get(file.key)
        pending = info is None and upload is not None and self.store.upload_exists(upload.key, upload.id)
        self.findings += check_info(file, info, pending=pending, opaque=self.form.opaque_etags)
        return info is not None

    def read_dead_letters(self, span: Span) -> None:
        """All dead letters that may lie in the selected segments: one is recorded where it is read, perhaps before its segment."""
        for segment in self.claims.segments.of(span.topic_partition) if span.letter_files else ():
            for file in segment.files:
                if file.role is not Role.DEAD_LETTER or not self.claims.keys.is_last_claim(file.key, segment.version):
                    continue
                file = self._in_its_place(file, segment.version)
                if self.selection.takes(segment) or (file.last_offset >= span.low and file.first_offset < span.high):
                    self._read_letters(file, segment)

    def _in_its_place(self, file: DataFile, version: int) -> DataFile:
        """A dead letter file, or the one without what was erased that took its place."""
        for event in self.claims.replacements.get(file.topic_partition, ()):
            if event.version > version and file.key in event.swap.keys and event.file is not None:
                file = event.file
        return file

    def forget_dead_letters(self, tp: TopicPartition) -> None:
        """A topic-partition is done: its dead letters leave the memory."""
        self.dead.pop(tp, None)
        self.unread.pop(tp, None)

    def _read_letters(self, file: DataFile, segment: Segment) -> None:
        tp = file.topic_partition
        try:
            if not self._exists(file, segment.version):
                raise ObjectMissing(file.key)
            letters = read_letter_file(self.store.get(file.key))
        except (Unreadable, ObjectMissing, ObjectArchived) as error:
            self.unread.setdefault(tp, []).append(file)
            if not isinstance(error, ObjectMissing):
                self.findings.append(_unreadable(file, error))
            return
        self.findings += check_letters(file, letters)
        known = self.dead.setdefault(tp, {})
        resets = self.claims.segments.resets_after(tp, segment.version)
        fresh = {r.offset: r for r in letters if not any(r.offset in reset.to_read for reset in resets)}
        if known.keys() & fresh.keys():
            text = f"{len(known.keys() & fresh.keys())} of its records are in an earlier dead letter file, too. {RESTORE_IT}"
            self.findings.append(Finding(FindingKind.TWICE, file.key, text))
        known.update(fresh)

    def objects(self, segment: Segment) -> tuple[dict[str, Counter[Digest]], int]:
        """Checks a segment's objects; gives the digests of those that were read well, and how many were read."""
        wanted = []
        for file in segment.files:
            if file.role is Role.DEAD_LETTER or not self.claims.keys.is_last_claim(file.key, segment.version):
                continue  # read before; or a later claim counts for the key
            if self.claims.replaced.since(file.key, segment.version):
                continue
            if self._exists(file, segment.version) and (self._chosen is None or file.key in self._chosen):
                wanted.append(file)
        contents: dict[str, Counter[Digest]] = {}
        read = 0
        if not wanted:
            return contents, read
        with ThreadPoolExecutor(THREADS) as pool:
            for file, reading in zip(wanted, pool.map(self._read, wanted), strict=True):
                self._done += 1
                self.notify("objects", self._done, self._wanted)
                if isinstance(reading, Finding):
                    self.findings.append(reading)
                    continue
                read += 1
                self.findings += check_reading(file, reading)
                if reading.digests is not None and file.role is Role.VALUE:
                    contents[file.key] = reading.digests
        return contents, read

    def check_digest(self, file: DataFile, digest: str) -> Iterator[Finding]:
        """Whether an object that was made from others holds the records that these held."""
        try:
            found = digest_rows(file.format, self.store.get(file.key), separator=self.form.separator)
        except (MergeRefused, ObjectMissing, ObjectArchived):
            return  # reading it has said so
        if str(found) != digest:
            text = f"It holds other records than the objects that it took the place of. {RESTORE_IT}"
            yield Finding(FindingKind.WRONG_CONTENT, file.key, text)

    def _read(self, file: DataFile) -> ObjectCount | Finding:
        try:
            return read_object(file, self.store.get(file.key), self.form)
        except (Unreadable, ObjectArchived) as error:
            return _unreadable(file, error)
        except ObjectMissing:
            return Finding(FindingKind.MISSING_OBJECT, file.key, f"It was removed during the check. {RESTORE_IT}")


def _earlier_objects(one: _Unclaimed, named: ObjectKey) -> Iterator[EarlierObject]:
    """Yield an unclaimed object as one of each topic-partition whose records it may hold."""
    topic, partition = named.topic_partition
    last = last_of_rewritten(one.key)
    whole = Slice(partition, named.offset, -1 if last is None else last, -1)
    for part in slices_of_rewritten(one.key, named) or [whole]:
        for source in one.sources if topic == one.folder else {topic}:
            until = part.last_offset + 1 or None
            tp = TopicPartition(source, part.partition)
            yield EarlierObject(part.first_offset, named.encoded_partition, tp, one.key, one.size, until)


def _unreadable(file: DataFile, error: Unreadable | ObjectArchived) -> Finding:
    if isinstance(error, ObjectArchived):
        checked = "It lies in an archive: existence, size and ETag were checked, its content cannot be."
        text = f"{checked} Restore it to have it read, or look at later commits only (--since)."
        return Finding(FindingKind.ARCHIVED, file.key, text)
    text = f"It cannot be read as {file.format} ({error}): damaged or overwritten. {RESTORE_IT}"
    return Finding(FindingKind.UNREADABLE, file.key, text)


def audit_of(
    settings: Settings, selection: SegmentSelection, *, sample: int | None = None, kafka: Cluster | None = None
) -> Audit:
    """The audit of a sink; without `kafka` no broker is asked, with `sample` only so many objects are read."""
    store, paths = S3Store(store_options(settings)), state_paths(settings)
    topics = tuple(settings.names("topics"))
    return Audit(store, paths, object_names(settings), form_of(settings), kafka, selection, sample, topics)


@dataclass
class Audit:
    """One verification. `kafka` None: from log and objects alone; `sample`: how many data objects are read, None all of them.

    `topics` are those that the configuration names.
    """

    store: ObjectStore
    paths: StatePaths
    layout: DataKeys
    form: Form
    kafka: Cluster | None = None
    selection: SegmentSelection = field(default_factory=SegmentSelection)
    sample: int | None = None
    topics: tuple[str, ...] = ()
    notify: Notify = silent

    def run(self) -> Report:
        """Verify. Raises ConfigError if there is no log, StorageError and SourceError if bucket or brokers cannot be asked."""
        claims = read_claims(self.store, self.paths)
        if not claims.entries and not claims.findings:
            raise self._no_log()
        bucket = Bucket(self.store, self.paths, claims, self.layout, self.form, self.selection, self.notify)
        bucket.findings += claims.findings
        bucket.findings += self._unknown_topics(claims)
        self._look_at_settings(bucket)
        bucket.select(self.sample)
        bucket.find_orphans()
        bounds = self._bounds([tp for tp, span in bucket.spans.items() if span.count], bucket)
        tallies = [self._tally(tp, bucket, bounds.get(tp)) for tp in bucket.spans]
        if bounds:
            bucket.notes += on_values(bucket.form, bucket.findings)
        return Report(self.paths.sink, claims.entries, tuple(tallies), tuple(bucket.findings), tuple(bucket.notes))

    def _no_log(self) -> ConfigError:
        others = (name for name in state_folders(self.store, self.paths.prefix) if name != self.paths.sink)
        near = names_like(self.paths.sink, others)
        meant = f"Did you mean {' or '.join(near)}?" if near else "Correct the name, the bucket or state.prefix."
        rule = (
            f"has no commit log in {self.paths.root}: a sink of that name has written nothing that could be verified."
        )
        return ConfigError([Problem("name", self.paths.sink, rule, meant)])

    def _unknown_topics(self, claims: Claims) -> Iterator[Finding]:
        """Topics of the configuration of which nothing was verified, because nobody knows them: a name that is misspelt, mostly.

        Of a sink that has written nothing yet, none: its topics may come with it.
        """
        in_log = {tp.topic for tp in claims.segments}
        if not in_log:
            return
        asked = [topic for topic in self.topics if self.selection.topic in (None, topic) and topic not in in_log]
        known = self.kafka.describe(asked) if self.kafka is not None and asked else dict.fromkeys(asked)
        for topic in asked:
            if topic not in known:
                near = difflib.get_close_matches(topic, in_log, n=1)
                meant = f" (did you mean {near[0]}?)" if near else ""
                text = f"Neither Kafka nor the log has this topic: nothing of it is verified. Correct topics{meant}, or create it."
                yield Finding(FindingKind.UNKNOWN_TOPIC, topic, text)

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
        self._check_replacements()
        self._bucket.forget_dead_letters(self._tp)
        return self._tally

    def _check_replacements(self) -> None:
        """Objects that were made from others: that they are there, and hold the records that their originals were proven to hold."""
        checked = 0
        for event in self._claims.replacements.get(self._tp, ()):
            file = event.file
            assert file is not None
            if not self._is_first_to_check(file):
                continue
            if file.role is not Role.DEAD_LETTER and not self._claims.replaced.since(file.key, event.version):
                about = Segment(
                    self._tp, event.version, event.committed_at, file.first_offset, file.last_offset + 1, (file,)
                )
                _, read = self._bucket.objects(about)
                self._tally.objects += 1
                self._tally.read += read
                checked += read
                if read:
                    self._bucket.findings += self._bucket.check_digest(file, event.swap.digest)
        if checked:
            text = f"{checked} objects that were made from others were compared with the records of their originals, not with Kafka"
            self._bucket.notes.append(f"{self._tp}: {text}.")

    def _is_first_to_check(self, file: DataFile) -> bool:
        """Whether an object has selected offsets, and the first of its topic-partitions that has some is this one."""
        mine = (one.topic_partition for one in file.by_slice if self._touches(one))
        return min(mine, default=None) == self._tp

    def _touches(self, file: DataFile) -> bool:
        span = self._bucket.spans.get(file.topic_partition)
        selected = span is not None and span.count > 0
        return selected and self._bucket.selection.touches(file.first_offset, file.last_offset)

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
            replaced = {f.key for f in segment.files if self._claims.replaced.since(f.key, segment.version)}
            gone = {file.key for file in whole if not self._bucket.holds(file)} | replaced
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
        return PartitionTally(self._tp, start, until, gaps=gaps, twice=twice, erased=self._claims.erased[self._tp])

    def _check_head(self, until: int) -> None:
        """Whether Kafka's log reaches as far as the commit log, where the selection does."""
        if self._bounds is None or self._bounds.head >= until or until != self._claims.fold.frontier.get(self._tp):
            return
        text = f"The log is at {until}, but Kafka ends at {self._bounds.head}: truncated, or a sink that read uncommitted records."
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
        tally.objects += sum(not self._claims.replaced.since(file.key, segment.version) for file in segment.files)
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
