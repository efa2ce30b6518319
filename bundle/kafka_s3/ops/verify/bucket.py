"""Are a sink's objects as the log claims them? Existence, size, ETag and content of each; and objects that no entry claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.log.state_paths import DeadLetterKeys, StatePaths
from kafka_s3.model.errors import ObjectArchived, ObjectMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.verify.check import RESTORE_IT, check_info, check_letters, check_reading, expected_etag
from kafka_s3.ops.verify.claims import Claims, Overlaps, SegmentSelection, Span, claimed_twice, read_claims
from kafka_s3.ops.verify.digests import Digest
from kafka_s3.ops.verify.findings import Finding, FindingKind
from kafka_s3.ops.verify.form import Form, Letter, ObjectCount, Unreadable, read_letter_file, read_object
from kafka_s3.store.store import ObjectStore

THREADS: Final = 8
LISTED: Final = 1000
"""Objects of a listing that are compared with the claims at a time."""
NOT_READ: Final = frozenset({Role.DEAD_LETTER, Role.POINTER})
Notify = Callable[[str, int, int], None]
"""Called with progress: what, how many of them are done, of how many."""


def silent(what: str, done: int, total: int) -> None:
    """Notifies nobody."""


class _Unclaimed(NamedTuple):
    """An object in the folder of a topic that no entry claims; `sources` are the topics of Kafka whose records go to that folder.

    Other sinks may route there, too: in the folder of a topic that is none of these, only names of this sink's own count.
    """

    key: str
    folder: str
    sources: set[str]
    layout: DataKeys


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
        earlier = 0
        for one in unclaimed:
            if one.key in later.keys or one.key.startswith(self.paths.root) != isinstance(one.layout, DeadLetterKeys):
                continue
            finding = self._orphan(one)
            if finding is None:
                earlier += 1
            else:
                self.findings.append(finding)
        if earlier:
            where = "other topic-partitions or offsets than those verified"
            self.notes.append(f"{earlier} objects of {where} were not looked at.")

    def _unclaimed(self, layout: DataKeys, folders: Mapping[str, set[str]]) -> Iterator[_Unclaimed]:
        """What no entry claims in the folders of these topics."""
        for prefix, mine in _by_prefix(layout, folders).items():
            infos = self.store.list(prefix)
            while some := list(islice(infos, LISTED)):
                for info in self.claims.keys.note_listing(some):
                    owner = next((topic for topic in mine if not layout.is_foreign(info.key, topic)), None)
                    if owner is not None:
                        yield _Unclaimed(info.key, owner, folders[owner], layout)

    def _orphan(self, one: _Unclaimed) -> Finding | None:
        """The finding on an unclaimed object; None where it lies outside of what is verified, or before the log's first position."""
        names = (one.folder, *sorted(one.sources))
        named = next((found for name in names if (found := one.layout.read(one.key, name))), None)
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
                if self.selection.takes(segment) or (file.last_offset >= span.low and file.first_offset < span.high):
                    self._read_letters(file, segment)

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

    def _read(self, file: DataFile) -> ObjectCount | Finding:
        try:
            return read_object(file, self.store.get(file.key), self.form)
        except (Unreadable, ObjectArchived) as error:
            return _unreadable(file, error)
        except ObjectMissing:
            return Finding(FindingKind.MISSING_OBJECT, file.key, f"It was removed during the check. {RESTORE_IT}")


def _by_prefix(layout: DataKeys, topics: Iterable[str]) -> dict[str, list[str]]:
    """The topics by the prefix that is listed for them."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        found.setdefault(layout.prefix_of(topic), []).append(topic)
    return found


def _unreadable(file: DataFile, error: Unreadable | ObjectArchived) -> Finding:
    if isinstance(error, ObjectArchived):
        checked = "It lies in an archive: existence, size and ETag were checked, its content cannot be."
        text = f"{checked} Restore it to have it read, or look at later commits only (--since)."
        return Finding(FindingKind.ARCHIVED, file.key, text)
    text = f"It cannot be read as {file.format} ({error}): damaged or overwritten. {RESTORE_IT}"
    return Finding(FindingKind.UNREADABLE, file.key, text)
