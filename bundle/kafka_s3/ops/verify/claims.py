"""What does the commit log claim? Its entries as segments of offsets, each with the objects, dead letters and skips that account for it.

The log's own fold says what follows from an entry; here all of it is kept, and checked. Segments of a topic-partition follow one another
without a hole, but for gaps that entries declare. Damaged and missing entries are findings, not errors.

A claimed key is kept as its 64-bit digest, with another salt in each run, so that tens of millions fit: that two keys of ten million
share one happens once in 300,000 runs. An ETag is 32 bits: one of four billion objects that were overwritten with as many bytes passes for
the one that is claimed. So are sizes: an object of 4 GiB more or less is found by its ETag alone.
"""

from __future__ import annotations

import secrets
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import LogFold, Replacement, Segment
from kafka_s3.engine.log.history import scan_history
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.engine.log.spill import SegmentStore
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, Role, Upload, counted
from kafka_s3.model.offsets import Gap, TopicPartition
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.store.store import ObjectInfo, ObjectStore

NOT_LISTED: Final = 0
"""In place of an ETag."""
LOW: Final = 2**32 - 1
MOST: Final = 2**31 - 1
"""A log has no entry beyond it, but by the name of a stray object."""
PARTS: Final = 16
"""Keys are looked through for repeated ones a part at a time, so that little is copied."""
REPORT_IT: Final = "The log was changed by hand, or this is a defect of kafka-s3: keep the log, and please report it."
RESTORE: Final = "Restore it from a bucket version or a backup; until then its offsets cannot be verified."


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    """Which segments to look at: every one unless narrowed; offsets select every segment that they touch."""

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    since: datetime | None = None

    def has(self, topic_partition: TopicPartition) -> bool:
        return self.topic in (None, topic_partition.topic) and self.partition in (None, topic_partition.partition)

    def takes(self, segment: Segment) -> bool:
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
            span, offsets = f"[{segment.start}, {segment.until})", f"{file.first_offset} to {file.last_offset}"
            texts.append(f"{file.key} has offsets {offsets}, outside of {span}.")
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
            directory = file.role is Role.KEY, file.encoded_partition, target
            first, last, key = self._furthest.get(directory, (0, -1, ""))
            if first <= file.last_offset and file.first_offset <= last and file.key != key:
                text = f"Its offsets from {file.first_offset} on are also in {key} (up to {last}). {REPORT_IT}"
                yield Finding(FindingKind.TWICE, file.key, text)
            if file.last_offset >= last:
                self._furthest[directory] = file.first_offset, file.last_offset, file.key


def gaps_within(gaps: Iterable[Gap], topic_partition: TopicPartition, start: int, *, until: int) -> Mapping[str, int]:
    """How many offsets of `[start, until)` are declared gaps, by cause."""
    counts: dict[str, int] = {}
    for gap in gaps:
        size = min(gap.last + 1, until) - max(gap.first, start)
        if gap.topic_partition == topic_partition and size > 0:
            counts[gap.cause] = counts.get(gap.cause, 0) + size
    return counts


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

    def is_last_claim(self, key: str, version: int) -> bool:
        """Whether this entry's claim on the key is the last one."""
        return not self.repeated or self.repeated.get(self.digest(key), (version,))[-1] == version

    def note_listing(self, infos: Sequence[ObjectInfo]) -> list[ObjectInfo]:
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

    def is_listed(self, key: str, size: int, *, etag: str | None) -> bool:
        """Whether the listing shows the key with this size and, unless that is None, this ETag."""
        row = self._row(key)
        if row is None or not len(self._etags) or self._etags[row] == NOT_LISTED or self._sizes[row] != size & LOW:
            return False
        return etag is None or int(self._etags[row]) == self._short(etag)

    def digest(self, text: str) -> int:
        content = text.encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(content, digest_size=8, key=self._salt).digest(), "little")

    def _short(self, etag: str) -> int:
        """An ETag in 32 bits; never NOT_LISTED."""
        return 1 + self.digest(etag) % LOW

    def _row(self, key: str) -> int | None:
        digest = self.digest(key)
        row = int(self._sorted.searchsorted(np.uint64(digest)))
        return row if row < len(self._sorted) and int(self._sorted[row]) == digest else None


class ReplacedKeys:
    """Which keys others have taken the place of, and by which entry last: first `add`, then `close`. 12 bytes a key."""

    def __init__(self, digest: Callable[[str], int]) -> None:
        self._digest = digest
        self._given, self._by = array("Q"), array("i")
        self._digests, self._versions = np.array([], np.uint64), np.array([], np.int32)

    def add(self, key: str, version: int) -> None:
        """Entry `version` replaces the key."""
        self._given.append(self._digest(key))
        self._by.append(min(version, MOST))

    def close(self) -> None:
        """There are no more."""
        digests, versions = np.array(self._given, np.uint64), np.array(self._by, np.int32)
        order = np.lexsort((versions, digests))
        self._digests, self._versions = digests[order], versions[order]
        self._given, self._by = array("Q"), array("i")

    def since(self, key: str, version: int) -> bool:
        """Whether the object that an entry claims was replaced by a later one."""
        behind = int(self._digests.searchsorted(np.uint64(self._digest(key)), side="right")) - 1
        return behind >= 0 and int(self._digests[behind]) == self._digest(key) and int(self._versions[behind]) > version


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


@dataclass(slots=True)
class Claims:
    """Everything the log claims; `add` takes one entry after the other.

    `epochs` are the entries with which epochs begin, each with its epoch; `waiting` are uploads of files of earlier entries that the last
    one still has to complete, by key; `replacements` are the objects that were made from others; `erased` counts records and dead letters.
    """

    entries: int = 0
    last_version: int = -1
    cluster_id: str = ""
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    segments: SegmentStore = field(default_factory=SegmentStore)
    gaps: list[Gap] = field(default_factory=list)
    keys: ClaimedKeys = field(default_factory=ClaimedKeys)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    waiting: dict[str, Upload] = field(default_factory=dict)
    replaced: ReplacedKeys = field(init=False)
    replacements: dict[TopicPartition, list[Replacement]] = field(default_factory=dict)
    erased: Counter[TopicPartition] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    fold: LogFold = field(default_factory=LogFold)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self.replaced = ReplacedKeys(self.keys.digest)

    def selected(self, topic_partition: TopicPartition, selection: SegmentSelection) -> Iterator[Segment]:
        """The selected segments of a topic-partition, in order."""
        return (segment for segment in self.segments.of(topic_partition) if selection.takes(segment))

    def add(self, version: int, entry: CommitEntry | None) -> None:
        """Takes the next entry in; None: it cannot be read."""
        expected = self.last_version + 1
        if version != expected:
            text = f"Entry {expected} was expected, entry {version} is next: entries are missing. {RESTORE}"
            self.add_damage(Finding(FindingKind.LOG, f"commit entry {expected}", text))
        self.last_version = version
        if entry is None:
            return
        self.entries += 1
        self.cluster_id = entry.cluster_id or self.cluster_id
        self.waiting = {one.file.key: one.file.upload for one in entry.waiting}
        for text in self._inconsistencies(version, entry):
            self._complain(version, text)
        if entry.epoch > self._epoch:
            self.epochs.append((version, entry.epoch))
        self._epoch = entry.epoch
        for file in entry.files:
            self.keys.add(file.key, version)
        for counts in (entry.erasure.records, entry.erasure.letters) if entry.erasure is not None else ():
            self.erased.update(counts)
        for event in self.fold.add(entry):
            if isinstance(event, Segment):
                self._add_segment(event, entry)
            elif isinstance(event, Reset):
                self.segments.reset(event)
                if not event.recreated:
                    tp = event.topic_partition
                    self.begins[tp] = min(self.begins.get(tp, event.frontier), event.frontier)
            elif isinstance(event, Replacement):
                self._add_replacement(event)
            elif isinstance(event, Gap):
                self.gaps.append(event)

    def add_damage(self, finding: Finding) -> None:
        """The log cannot be read here: what was known before is not sure after."""
        self.findings.append(finding)
        self.fold.lose_track()

    def _inconsistencies(self, version: int, entry: CommitEntry) -> Iterator[str]:
        yield from sums(entry)
        if entry.version != version:
            yield f"It says that it is entry {entry.version}."
        if entry.epoch < self._epoch:
            yield f"Its epoch {entry.epoch} is below the epoch {self._epoch} of an entry before it."
        moved = {
            str(tp)
            for tp in (*entry.progress, *entry.resolved, *(tp for swap in entry.swaps for tp in swap.topic_partitions))
        }
        strangers = {str(file.topic_partition) for file in entry.files} - moved
        if strangers:
            yield f"It has files of {', '.join(sorted(strangers))}, which it does not move."
        for tp, progress in entry.progress.items() if entry.kind is EntryKind.DATA else ():
            before = self.fold.frontier.get(tp)
            if before is None and self.fold.complete:
                yield f"It moves {tp}, to which no entry before it gave a position."
            elif before is not None and tp in self.fold.sure and progress.frontier < before:
                yield f"It moves {tp} back from {before} to {progress.frontier}, which only entries of kind position may."

    def _add_segment(self, segment: Segment, entry: CommitEntry) -> None:
        tp, texts = segment.topic_partition, misplaced(segment)
        if segment.resolved is None:
            self.begins.setdefault(tp, segment.start)
        else:
            dead, resolved = entry.dead_letters.get(tp), len(segment.resolved)
            if {segment.written + segment.skipped, -dead.count if dead else 0} != {resolved}:
                texts = [f"It resolves {resolved} dead letters of {tp}, but counts others."]
        for text in texts:
            self._complain(segment.version, text)
        self.segments.add(segment)

    def _add_replacement(self, event: Replacement) -> None:
        if event.topic_partition != event.swap.topic_partitions[0]:
            self._note_replacement(event)
            return
        for key in event.swap.keys:
            self.replaced.add(key, event.version)
        held = 0 if event.file is None else event.file.records
        redacted = event.file is not None and event.file.role is Role.DEAD_LETTER
        if held != event.swap.records - (0 if redacted else len(event.swap.dropped)):
            text = f"It puts an object of {held} records in the place of others with {event.swap.records}."
            self._complain(event.version, text)
        else:
            self._note_replacement(event)

    def _note_replacement(self, event: Replacement) -> None:
        if event.file is not None and event.topic_partition in event.file.topic_partitions:
            self.replacements.setdefault(event.topic_partition, []).append(event)

    def _complain(self, version: int, text: str) -> None:
        self.findings.append(Finding(FindingKind.LOG, f"commit entry {version}", f"{text} {REPORT_IT}"))


def read_claims(store: ObjectStore, paths: StatePaths, *, after: int = -1) -> Claims:
    """The claims of all entries with a version above `after`; what is wrong with the log itself is in `findings`."""
    claims = Claims(last_version=after)
    for key, entry in scan_history(store, paths, after=after):
        name = key.rpartition("/")[2].removesuffix(".json")
        version = int(name) if name.isdigit() else claims.last_version
        if isinstance(entry, LogDamaged):
            claims.add_damage(Finding(FindingKind.DAMAGED_ENTRY, key, f"{entry} {RESTORE}"))
            claims.add(version, None)
        else:
            claims.add(version, entry)
    claims.keys.close()
    claims.replaced.close()
    return claims


def claimed_twice(claims: Claims) -> Iterator[Finding]:
    """Keys that an entry claims although an earlier one does, whose offsets were not to be read again when it was written."""
    versions = {version for repeated in claims.keys.repeated.values() for version in repeated}
    claimed: dict[str, list[tuple[int, DataFile]]] = {}
    numbered: dict[tuple[TopicPartition, int], list[int]] = {}
    for tp in claims.segments if versions else ():
        for number, segment in enumerate(claims.segments.of(tp)):
            if segment.version in versions:
                numbered.setdefault((tp, segment.version), []).append(number)
                for file in segment.files:
                    if claims.keys.digest(file.key) in claims.keys.repeated:
                        claimed.setdefault(file.key, []).append((segment.version, file))
    for key, several in claimed.items():
        for (earlier, before), (later, file) in pairwise(sorted(several, key=lambda one: one[0])):
            current = (
                not claims.segments.was_superseded(file.topic_partition, number, before.last_offset, by=later)
                for number in numbered.get((file.topic_partition, earlier), ())
            )
            if file.role is not Role.POINTER and any(current):
                text = f"Commit entries {earlier} and {later} both claim this object; the later has overwritten the earlier. {REPORT_IT}"
                yield Finding(FindingKind.TWICE, key, text)


def sums(entry: CommitEntry) -> list[str]:
    """Where an entry's totals are not the sums of its parts."""
    totals, data = entry.totals, counted(entry.files) if entry.kind is not EntryKind.REWRITE else []
    of_records = entry.kind is EntryKind.DATA
    letters = [file for file in entry.files if of_records and file.role is Role.DEAD_LETTER]
    dead = sum(count.count for count in entry.dead_letters.values())
    compared = {
        "totals.read and written + dead letters + skipped": (totals.read, totals.written + totals.dead_letters + totals.skipped),
        "totals.written and the records of its files": (totals.written, sum(file.records for file in data)),
        "totals.dead_letters and its counts": (totals.dead_letters, dead),
        "its dead letter counts and their stages": (dead, sum(sum(c.stages.values()) for c in entry.dead_letters.values())),
        "its dead letter counts and its dead letter files": (
            dead if of_records else 0, sum(file.records for file in letters)),
        "totals.skipped and its counts": (totals.skipped, sum(entry.skipped.values())),
        "totals.files and its files": (totals.files, len(data)),
        "totals.bytes and the bytes of its files": (totals.bytes, sum(file.bytes for file in data)),
    }  # fmt: skip
    return [f"{name} differ: {one} and {other}." for name, (one, other) in compared.items() if one != other]
