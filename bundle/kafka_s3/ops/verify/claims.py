"""What does the commit log claim? Its entries as segments of offsets, each with the objects, dead letters and skips that account for it.

A segment is what one entry says of one topic-partition: its frontier moved from `start` to `until`. Segments follow one another without a
hole, but for gaps that entries of kind `position` declare. Damaged and missing entries are findings here, not errors.
"""

from __future__ import annotations

import marshal
import secrets
import weakref
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from tempfile import TemporaryFile
from typing import IO, Any, Final

import numpy as np

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.history import closed_stretches, entries_of
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import REASONS, ROLES, DataFile, Role, Upload, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.store.store import ObjectInfo, ObjectStore

HELD: Final = 20_000
"""Files, or segments where they have none, that are in memory before they are packed: about 1 KiB each."""
_FILE: Final = attrgetter(
    "key", "topic", "partition", "first_offset", "last_offset", "records", "bytes", "min_timestamp", "max_timestamp",
    "encoded_partition", "schema", "format",
)  # fmt: skip
_MADE: Final[Callable[..., DataFile]] = DataFile
_UPLOAD: Final = attrgetter("key", "id", "parts", "size")


class SegmentSpool:
    """Segments by topic-partition. Temporary space is given back with the spool."""

    def __init__(self, held: int = HELD) -> None:
        self._most, self._held = held, 0
        self._recent: dict[TopicPartition, list[Segment]] = {}
        self._places: dict[TopicPartition, array[int]] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._superseded: dict[TopicPartition, list[tuple[int, int, int, bool]]] = {}
        self._file: IO[bytes] | None = None

    def __iter__(self) -> Iterator[TopicPartition]:
        """The topic-partitions, in order."""
        return iter(sorted(self._counts))

    def know(self, topic_partition: TopicPartition) -> None:
        """The topic-partition is one of these, also without a segment."""
        self._counts.setdefault(topic_partition, 0)

    def add(self, segment: Segment) -> None:
        """Takes the next segment of a topic-partition in."""
        tp = segment.topic_partition
        self._counts[tp] = self._counts.get(tp, 0) + 1
        self._recent.setdefault(tp, []).append(segment)
        self._held += max(len(segment.files), 1)
        if self._held >= self._most:
            self._pack()

    def supersede(self, topic_partition: TopicPartition, since: int, *, by: int, read_again: bool) -> None:
        """The log goes back to offset `since` with entry `by`: segments so far that reach beyond it are superseded."""
        count = self._counts[topic_partition]
        self._superseded.setdefault(topic_partition, []).append((count, since, by, read_again))

    def of(self, topic_partition: TopicPartition) -> Iterator[Segment]:
        """The segments of a topic-partition in the order of the log."""
        resets = self._superseded.get(topic_partition, ())
        for number, segment in enumerate(self._all(topic_partition)):
            for count, since, _, read_again in resets:
                if number < count and segment.until > since:
                    again = read_again and (segment.read_again or not segment.superseded)
                    segment = replace(segment, superseded=True, read_again=again)
            yield segment

    def was_superseded(self, topic_partition: TopicPartition, number: int, until: int, *, by: int) -> bool:
        """Whether a topic-partition's segment of this number, up to offset `until`, was superseded when entry `by` was written."""
        resets = self._superseded.get(topic_partition, ())
        return any(number < count and until > since and version <= by for count, since, version, _ in resets)

    def _all(self, tp: TopicPartition) -> Iterator[Segment]:
        places = self._places.get(tp, array("q"))
        for number in range(0, len(places), 2):
            assert self._file is not None
            self._file.seek(places[number])
            packed: list[Any] = marshal.loads(zlib.decompress(self._file.read(places[number + 1])))
            yield from (_unpacked(tp, one) for one in packed)
        yield from self._recent.get(tp, ())

    def _pack(self) -> None:
        """Moves what is in memory to the end of the file."""
        if self._file is None:
            self._file = TemporaryFile(prefix="kafka-s3-verify-")  # noqa: SIM115 - it lives as long as the spool
            weakref.finalize(self, self._file.close)
        end = self._file.seek(0, 2)
        for tp, segments in self._recent.items():
            content = zlib.compress(marshal.dumps([_packed(segment) for segment in segments]), 1)
            self._file.write(content)
            self._places.setdefault(tp, array("q")).extend((end, len(content)))
            end += len(content)
        self._recent, self._held = {}, 0


def _packed(segment: Segment) -> tuple[Any, ...]:
    files = [(_FILE(file), file.reason.value, file.role.value, _UPLOAD(file.upload)) for file in segment.files]
    resolved = None if segment.resolved is None else segment.resolved.ranges
    return (
        segment.version, segment.committed_at, segment.start, segment.until, files, segment.dead_letters, segment.skipped,
        segment.sure, resolved,
    )  # fmt: skip


def _unpacked(tp: TopicPartition, packed: Sequence[Any]) -> Segment:
    version, committed_at, start, until, files, dead_letters, skipped, sure, resolved = packed
    return Segment(
        tp, version, committed_at, start, until,
        tuple(_MADE(*plain, REASONS[reason], Upload(*upload), ROLES[role]) for plain, reason, role, upload in files),
        dead_letters, skipped, sure, resolved=None if resolved is None else OffsetSet(resolved),
    )  # fmt: skip


NOT_LISTED: Final = 0
"""In place of an ETag."""
LOW: Final = 2**32 - 1
MOST: Final = 2**31 - 1
"""A log has no entry beyond it, but by the name of a stray object."""
PARTS: Final = 16
"""Keys are looked through for repeated ones a part at a time, so that little is copied."""


class ClaimedKeys:
    """The claims on keys. First `add` in the order of the log, then `close`, then all else."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)
        self._digests, self._versions = array("Q"), array("i")
        self._sorted = np.array([], np.uint64)
        self._sizes, self._etags = np.array([], np.uint32), np.array([], np.uint32)
        self.repeated: dict[int, tuple[int, ...]] = {}

    def add(self, key: str, version: int) -> None:
        """Entry `version` claims the key."""
        self._digests.append(self.digest(key))
        self._versions.append(min(version, MOST))

    def close(self) -> None:
        """There are no more claims: finds the keys that are claimed more than once, `repeated` by digest with their entries in order."""
        digests = np.frombuffer(self._digests, np.uint64)
        self.repeated = _repeated(digests, np.frombuffer(self._versions, np.int32))
        self._digests, self._versions = array("Q"), array("i")
        digests.sort()  # where they lie: a sorted copy would be as large again
        self._sorted = np.unique(digests) if self.repeated else digests

    def __contains__(self, key: str) -> bool:
        """Whether any entry claims the key."""
        return self._row(key) is not None

    def standing(self, key: str, version: int) -> bool:
        """Whether this entry's claim on the key is the last one."""
        return not self.repeated or self.repeated.get(self.digest(key), (version,))[-1] == version

    def listed(self, infos: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        """Notes what a listing shows; gives the objects that no entry claims."""
        if not len(self._sorted):
            return list(infos)
        if not len(self._sizes):
            self._sizes = np.zeros(len(self._sorted), np.uint32)
            self._etags = np.full(len(self._sorted), NOT_LISTED, np.uint32)
        digests = np.array([self.digest(info.key) for info in infos], np.uint64)
        rows = np.minimum(self._sorted.searchsorted(digests), len(self._sorted) - 1)
        claimed = self._sorted[rows] == digests
        self._sizes[rows[claimed]] = np.array([info.size & LOW for info in infos], np.uint32)[claimed]
        self._etags[rows[claimed]] = np.array([self._short(info.etag) for info in infos], np.uint32)[claimed]
        return [info for info, known in zip(infos, claimed.tolist(), strict=True) if not known]

    def shown(self, key: str, size: int, *, etag: str | None) -> bool:
        """Whether the listing shows the key with this size and, unless that is None, this ETag."""
        row = self._row(key)
        if row is None or not len(self._etags) or self._etags[row] == NOT_LISTED or self._sizes[row] != size & LOW:
            return False
        return etag is None or int(self._etags[row]) == self._short(etag)

    def digest(self, text: str) -> int:
        """What stands for a text."""
        return int.from_bytes(
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt).digest(), "little"
        )

    def _short(self, etag: str) -> int:
        """What stands for an ETag; never NOT_LISTED."""
        return 1 + self.digest(etag) % LOW

    def _row(self, key: str) -> int | None:
        digest = self.digest(key)
        row = int(self._sorted.searchsorted(np.uint64(digest)))
        return row if row < len(self._sorted) and int(self._sorted[row]) == digest else None


def _repeated(digests: np.ndarray, versions: np.ndarray) -> dict[int, tuple[int, ...]]:
    """The digests that are there more than once, with their versions in order."""
    part_of = np.empty(len(digests), np.uint8)
    np.remainder(digests, np.uint64(PARTS), out=part_of, casting="unsafe")
    found: dict[int, tuple[int, ...]] = {}
    for part in range(PARTS):
        rows = np.flatnonzero(part_of == part)
        rows = rows[digests[rows].argsort(kind="stable")]
        some = digests[rows]
        same = some[1:] == some[:-1]
        twice = rows[np.append(same, False) | np.append(False, same)] if len(rows) else rows
        for digest, version in zip(digests[twice].tolist(), versions[twice].tolist(), strict=True):
            found[digest] = (*found.get(digest, ()), version)
    return found


REPORT_IT = "The log was changed by hand, or this is a defect of kafka-s3: keep the log, and please report it."


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets `[start, until)` of a topic-partition as commit entry `version` accounts for them.

    `sure` is False where an entry before it cannot be read, so that `start` is a guess. `superseded` says that the log went back behind
    it, or that its topic was recreated, and Kafka's records of these offsets are others now; `read_again` that the position was set back,
    and they are the same, which come once more. With `resolved` the entry is a replay: dead letters of earlier segments, now in its
    files or skipped.
    """

    topic_partition: TopicPartition
    version: int
    committed_at: str
    start: int
    until: int
    files: tuple[DataFile, ...] = ()
    dead_letters: int = 0
    skipped: int = 0
    sure: bool = True
    superseded: bool = False
    read_again: bool = False
    resolved: OffsetSet | None = None

    @property
    def place(self) -> str:
        """Where it is, for findings."""
        return f"{self.topic_partition} [{self.start}, {self.until}), commit entry {self.version}"

    @property
    def is_current(self) -> bool:
        """Whether its offsets stand for what Kafka has there now."""
        return not self.superseded and self.resolved is None

    @property
    def identity(self) -> tuple[int, int]:
        """What tells it from the other segments of its topic-partition: entry and first offset."""
        return self.version, self.start

    @property
    def data(self) -> list[DataFile]:
        """The objects that stand for records."""
        return counted(self.files)

    @property
    def written(self) -> int:
        """Records in objects."""
        return sum(file.records for file in self.data)


@dataclass(frozen=True, slots=True)
class Reset:
    """A position set by entry `version`: dead letters from `frontier` on are read again, but those still `recorded`."""

    topic_partition: TopicPartition
    version: int
    frontier: int
    recorded: OffsetSet

    def covers(self, offset: int) -> bool:
        """Whether a dead letter of this offset no longer counts."""
        return offset >= self.frontier and not any(first <= offset <= last for first, last in self.recorded.ranges)


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    """Which segments to look at: every one unless narrowed; offsets select every segment that they touch."""

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    since: datetime | None = None

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether a topic-partition is selected."""
        return self.topic in (None, topic_partition.topic) and self.partition in (None, topic_partition.partition)

    def takes(self, segment: Segment) -> bool:
        """Whether a segment is selected."""
        late = self.since is None or datetime.fromisoformat(segment.committed_at) >= self.since
        return late and self.has(segment.topic_partition) and self.touches(segment.start, segment.until - 1)

    def touches(self, first: int, last: int) -> bool:
        """Whether offsets `first..last` are selected at least in part; without any offset (dead letters only), whether `first` is."""
        return (self.first is None or max(first, last) >= self.first) and (self.last is None or first <= self.last)


def misplaced(segment: Segment) -> list[str]:
    """What is wrong with the offsets of a segment's files."""
    texts = []
    for file in segment.files:
        inside = file.role is Role.DEAD_LETTER or segment.start <= file.first_offset <= file.last_offset < segment.until
        room = file.last_offset - file.first_offset + 1
        if file.first_offset > file.last_offset or not inside:
            texts.append(
                f"{file.key} has offsets {file.first_offset} to {file.last_offset}, outside of [{segment.start}, {segment.until})."
            )
        elif not 0 < file.records <= room:
            texts.append(f"{file.key} claims {file.records} records in {room} offsets.")
        if file.bytes != file.upload.size or file.key != file.upload.key:
            texts.append(f"{file.key} and its upload differ in key or size.")
    return texts


@dataclass(slots=True)
class Span:
    """What the selected segments of a topic-partition cover; `add` takes one after the other.

    Of all `count` of them offsets `[low, high)`; of the `current` ones, neither superseded nor replayed, `[start, until)`, and
    `[begin, end)` from the first to the last; where none is current, as of all. `first` is the first of those that `start` is about.
    `superseded` and `replayed` are how many are, `readable` objects whose content can be compared. `letter_files` are the dead letter
    files of all segments, selected or not; `older` the segments that are read again and not selected.
    """

    topic_partition: TopicPartition
    count: int = 0
    low: int = 0
    high: int = 0
    current: int = 0
    start: int = 0
    until: int = 0
    begin: int = 0
    end: int = 0
    first: tuple[int, int] | None = None
    superseded: int = 0
    replayed: int = 0
    readable: int = 0
    letter_files: int = 0
    older: int = 0

    def add(self, segment: Segment, readable: int) -> None:
        """Takes the next segment in."""
        here = segment.start, segment.until
        self.low, self.high = (min(self.low, here[0]), max(self.high, here[1])) if self.count else here
        self.count += 1
        self.readable += readable
        self.superseded += segment.superseded
        self.replayed += segment.resolved is not None and not segment.superseded
        if segment.is_current:
            self.start, self.until = (min(self.start, here[0]), max(self.until, here[1])) if self.current else here
            self.begin, self.end = (self.begin if self.current else here[0]), here[1]
            self.first = self.first if self.current else segment.identity
            self.current += 1
        elif not self.current:
            self.start, self.until, self.begin, self.end = self.low, self.high, self.low, self.high
            self.first = self.first or segment.identity


class Overlaps:
    """Finds files of one directory whose offsets overlap: directories of one commit interleave, but no directory does with itself.

    Segments come in the order of their offsets, so of each directory the file that reaches furthest is enough. `target` gives the topic
    in whose folder a file lies, None where files of several may lie in one; `targets` are those that were met.
    """

    def __init__(self, target: Callable[[DataFile], str | None]) -> None:
        self._target = target
        self.targets: set[str] = set()
        self._furthest: dict[tuple[bool, str, str], tuple[int, int, str]] = {}

    def within(self, segment: Segment) -> Iterator[Finding]:
        """What the next segment of a topic-partition adds."""
        named = ((file, self._target(file)) for file in segment.data)
        data = [(file, target) for file, target in named if target is not None]
        self.targets.update(target for _, target in data)
        if not segment.is_current:  # replayed records lie between those of other files
            return
        for file, target in sorted(data, key=lambda one: (one[0].first_offset, one[0].last_offset)):
            place = file.role is Role.KEY, file.encoded_partition, target
            first, last, key = self._furthest.get(place, (0, -1, ""))
            if first <= file.last_offset and file.first_offset <= last and file.key != key:
                text = f"Its offsets from {file.first_offset} on are also in {key} (up to {last}). {REPORT_IT}"
                yield Finding(FindingKind.TWICE, file.key, text)
            if file.last_offset >= last:
                self._furthest[place] = file.first_offset, file.last_offset, file.key


def gaps_within(gaps: Iterable[Gap], topic_partition: TopicPartition, start: int, *, until: int) -> Mapping[str, int]:
    """How many offsets of `[start, until)` are declared gaps, by cause."""
    counts: dict[str, int] = {}
    for gap in gaps:
        size = min(gap.last + 1, until) - max(gap.first, start)
        if (gap.topic, gap.partition) == topic_partition and size > 0:
            counts[gap.cause] = counts.get(gap.cause, 0) + size
    return counts


RESTORE = "Restore it from a bucket version or a backup; until then its offsets cannot be verified."


@dataclass(slots=True)
class Claims:
    """Everything the log claims. `epochs` are the entries with which epochs begin, each with its epoch; `waiting` are uploads of files of
    earlier entries that the last one still has to complete, by key.
    """

    entries: int = 0
    last_version: int = -1
    cluster_id: str = ""
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    frontier: dict[TopicPartition, int] = field(default_factory=dict)
    segments: SegmentSpool = field(default_factory=SegmentSpool)
    gaps: list[Gap] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    keys: ClaimedKeys = field(default_factory=ClaimedKeys)
    topic_ids: dict[str, str] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    waiting: dict[str, Upload] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def selected(self, topic_partition: TopicPartition, selection: SegmentSelection) -> Iterator[Segment]:
        """The selected segments of a topic-partition, in order."""
        return (segment for segment in self.segments.of(topic_partition) if selection.takes(segment))

    def read_again(self, topic_partition: TopicPartition, version: int) -> Sequence[Reset]:
        """The positions set after an entry, behind which its dead letters no longer count."""
        return [reset for reset in self.resets if reset.topic_partition == topic_partition and reset.version > version]


def read_claims(store: ObjectStore, paths: StatePaths, *, after: int = -1) -> Claims:
    """The claims of all entries with a version above `after`; what is wrong with the log itself is in `findings`."""
    walk = _Walk(Claims(last_version=after))
    for stretch, tables in closed_stretches(store, paths, after=after):
        if tables is None:
            _read_entries(store, paths, walk, until=stretch.last)
        else:
            for entry in entries_of(tables):
                if entry.version > walk.claims.last_version:
                    walk.step(entry.version, entry)
    _read_entries(store, paths, walk)
    walk.claims.keys.close()
    return walk.claims


def _read_entries(store: ObjectStore, paths: StatePaths, walk: _Walk, *, until: int | None = None) -> None:
    """Takes in the entries behind the last one, each as it lies in the bucket."""
    after = walk.claims.last_version
    for info in store.list(f"{paths.root}commits/", start_after=paths.commit(after) if after >= 0 else ""):
        version = _version_of(info.key, walk.claims.last_version)
        if until is not None and version > until:
            return
        entry: CommitEntry | None
        try:
            entry = read_entry(store.get(info.key), key=info.key)
        except LogDamaged as error:
            walk.damaged(Finding(FindingKind.DAMAGED_ENTRY, info.key, f"{error} {RESTORE}"))
            entry = None
        walk.step(version, entry)


def _version_of(key: str, otherwise: int) -> int:
    name = key.rpartition("/")[2].removesuffix(".json")
    return int(name) if name.isdigit() else otherwise


def claimed_twice(claims: Claims) -> Iterator[Finding]:
    """Keys that an entry claims although an earlier one does, whose offsets stood when it was written."""
    versions = {version for repeated in claims.keys.repeated.values() for version in repeated}
    claimed: dict[str, list[tuple[int, DataFile]]] = {}
    places: dict[tuple[TopicPartition, int], list[tuple[int, int]]] = {}
    for tp in claims.segments if versions else ():
        for number, segment in enumerate(claims.segments.of(tp)):
            if segment.version in versions:
                places.setdefault((tp, segment.version), []).append((number, segment.until))
                for file in segment.files:
                    if claims.keys.digest(file.key) in claims.keys.repeated:
                        claimed.setdefault(file.key, []).append((segment.version, file))
    for key, several in claimed.items():
        for (earlier, _), (later, file) in pairwise(sorted(several, key=lambda one: one[0])):
            stood = (
                not claims.segments.was_superseded(file.topic_partition, number, until, by=later)
                for number, until in places.get((file.topic_partition, earlier), ())
            )
            if file.role is not Role.POINTER and any(stood):
                text = f"Commit entries {earlier} and {later} both claim this object; the later has overwritten the earlier. {REPORT_IT}"
                yield Finding(FindingKind.TWICE, key, text)


class _Walk:
    """Goes through the log in order. `era` counts the places where it cannot be read: what was known before is not sure after."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self._era = 0
        self._eras: dict[TopicPartition, int] = {}
        self._epoch = 0

    def damaged(self, finding: Finding) -> None:
        self.claims.findings.append(finding)
        self._era += 1

    def step(self, version: int, entry: CommitEntry | None) -> None:
        claims = self.claims
        expected = claims.last_version + 1
        if version != expected:
            text = f"Entry {expected} was expected, entry {version} is next: entries are missing. {RESTORE}"
            self.damaged(Finding(FindingKind.LOG, f"commit entry {expected}", text))
        claims.last_version = version
        if entry is None:
            return
        claims.entries += 1
        claims.cluster_id = entry.cluster_id or claims.cluster_id
        claims.waiting = {one.file.key: one.file.upload for one in entry.waiting}
        claims.findings += [
            Finding(FindingKind.LOG, f"commit entry {version}", f"{text} {REPORT_IT}")
            for text in self._wrong(version, entry)
        ]
        if entry.epoch > self._epoch:
            claims.epochs.append((version, entry.epoch))
        self._epoch = entry.epoch
        self._topics(entry)
        files: dict[TopicPartition, list[DataFile]] = {}
        for file in entry.files:
            files.setdefault(file.topic_partition, []).append(file)
            claims.keys.add(file.key, version)
        for tp, progress in entry.progress.items():
            if entry.kind is EntryKind.DATA:
                self._data(entry, tp, progress.frontier, files=tuple(files.get(tp, ())))
            else:
                self._position(entry, tp, progress.frontier)
            if entry.kind is not EntryKind.DATA:
                claims.resets.append(Reset(tp, version, progress.frontier, progress.recorded))
            claims.frontier[tp], self._eras[tp] = progress.frontier, self._era
        claims.gaps += entry.gaps
        for tp, offsets in entry.resolved.items():
            self._replay(entry, tp, offsets, files=tuple(files.get(tp, ())))

    def _wrong(self, version: int, entry: CommitEntry) -> Iterable[str]:
        yield from sums(entry)
        if entry.version != version:
            yield f"It says that it is entry {entry.version}."
        if entry.epoch < self._epoch:
            yield f"Its epoch {entry.epoch} is below the epoch {self._epoch} of an entry before it."
        strangers = {str(f.topic_partition) for f in entry.files} - {
            str(tp) for tp in (*entry.progress, *entry.resolved)
        }
        if strangers:
            yield f"It has files of {', '.join(sorted(strangers))}, which it does not move."

    def _topics(self, entry: CommitEntry) -> None:
        """A topic with a new id was recreated: nothing written before can be compared with Kafka."""
        for topic, new in entry.topic_ids.items():
            if not new:  # looked for, and not there yet
                continue
            if self.claims.topic_ids.get(topic, new) != new:
                for tp in [tp for tp in self.claims.segments if tp.topic == topic]:
                    self.claims.segments.supersede(tp, -1, by=entry.version, read_again=False)
                    self.claims.resets.append(Reset(tp, entry.version, 0, OffsetSet()))
            self.claims.topic_ids[topic] = new

    def _data(self, entry: CommitEntry, tp: TopicPartition, until: int, *, files: tuple[DataFile, ...]) -> None:
        before = self.claims.frontier.get(tp)
        sure = before is not None and self._eras[tp] == self._era
        if before is None and not self._era:
            self._complain(entry, f"It moves {tp}, to which no entry before it gave a position.")
        if before is None or not sure:
            before = min((file.first_offset for file in counted(files)), default=until)
        if until < before:
            self._complain(
                entry, f"It moves {tp} back from {before} to {until}, which only entries of kind position may."
            )
            before, sure = until, False
        self.claims.begins.setdefault(tp, before)
        dead = entry.dead_letters.get(tp)
        segment = Segment(
            tp, entry.version, entry.committed_at, before, until, files, dead.count if dead else 0, entry.skipped.get(tp, 0), sure
        )  # fmt: skip
        for text in misplaced(segment):
            self._complain(entry, text)
        self.claims.segments.add(segment)

    def _replay(
        self, entry: CommitEntry, tp: TopicPartition, offsets: OffsetSet, *, files: tuple[DataFile, ...]
    ) -> None:
        first, until = (
            min((a for a, _ in offsets.ranges), default=0),
            max((b + 1 for _, b in offsets.ranges), default=0),
        )
        segment = Segment(
            tp, entry.version, entry.committed_at, first, until, files,
            skipped=entry.skipped.get(tp, 0), sure=not self._era, resolved=offsets,
        )  # fmt: skip
        dead = entry.dead_letters.get(tp)
        counts = {len(offsets), segment.written + segment.skipped, -dead.count if dead else 0}
        texts = (
            misplaced(segment)
            if len(counts) == 1
            else [f"It resolves {len(offsets)} dead letters of {tp}, but counts others."]
        )
        for text in texts:
            self._complain(entry, text)
        self.claims.segments.add(segment)

    def _position(self, entry: CommitEntry, tp: TopicPartition, until: int) -> None:
        before = self.claims.frontier.get(tp)
        self.claims.segments.know(tp)
        self.claims.begins[tp] = min(self.claims.begins.get(tp, until), until)
        if before is None or until == before:
            return
        if until < before:
            self.claims.segments.supersede(tp, until, by=entry.version, read_again=True)
        elif not any((gap.topic, gap.partition) == tp for gap in entry.gaps):
            self.claims.gaps.append(Gap(*tp, before, until - 1, "position"))

    def _complain(self, entry: CommitEntry, text: str) -> None:
        self.claims.findings.append(Finding(FindingKind.LOG, f"commit entry {entry.version}", f"{text} {REPORT_IT}"))


def sums(entry: CommitEntry) -> list[str]:
    """Where an entry's totals are not the sums of its parts."""
    totals, data = entry.totals, counted(entry.files)
    letters = [file for file in entry.files if file.role is Role.DEAD_LETTER]
    dead = sum(count.count for count in entry.dead_letters.values())
    compared = {
        "totals.read and written + dead letters + skipped": (totals.read, totals.written + totals.dead_letters + totals.skipped),
        "totals.written and the records of its files": (totals.written, sum(file.records for file in data)),
        "totals.dead_letters and its counts": (totals.dead_letters, dead),
        "its dead letter counts and their stages": (dead, sum(sum(c.stages.values()) for c in entry.dead_letters.values())),
        "its dead letter counts and its dead letter files": (
            dead if entry.kind is EntryKind.DATA else 0, sum(file.records for file in letters)),
        "totals.skipped and its counts": (totals.skipped, sum(entry.skipped.values())),
        "totals.files and its files": (totals.files, len(data)),
        "totals.bytes and the bytes of its files": (totals.bytes, sum(file.bytes for file in data)),
    }  # fmt: skip
    return [f"{name} differ: {one} and {other}." for name, (one, other) in compared.items() if one != other]
