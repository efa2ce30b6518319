"""What does the commit log claim? Its entries as segments of offsets, each with the objects, dead letters and skips that account for it.

A segment is what one entry says of one topic-partition: its frontier moved from `start` to `until`. Segments follow one another without a
hole, but for gaps that entries of kind `position` declare. Damaged and missing entries are findings here, not errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.history import closed_stretches
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.log.tables import entries_of
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, Role, Upload, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.ops.verify.claimed import ClaimedKeys
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.ops.verify.segments import REPORT_IT, Reset, Segment, SegmentSelection, misplaced
from kafka_s3.ops.verify.spool import SegmentSpool
from kafka_s3.store.store import ObjectStore

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
