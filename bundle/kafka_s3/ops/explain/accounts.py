"""What does each entry of the log say about one offset of a topic-partition? In the log's order, one entry in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.engine.log.again import UNPUBLISHED
from kafka_s3.engine.log.dead_letters import Ledger
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.explain.answer import Account, Fate

BY_HAND: Final = "a position set by hand left these offsets out"


@dataclass
class Accounts:
    """What the log says of `offset`. `start` is where the sink began with the topic-partition, `frontier` where it stands (None: not yet).

    `known` are all topic-partitions of the log; `ledger` has the dead letter files that may hold the offset.
    """

    topic_partition: TopicPartition
    offset: int
    start: int | None = None
    frontier: int | None = None
    found: list[Account] = field(default_factory=list)
    known: set[TopicPartition] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    _topic_id: str = ""

    def add(self, entry: CommitEntry) -> None:
        """Takes the next entry in."""
        self.known.update(entry.progress)
        self._note_topic(entry)
        self.ledger.add(replace(entry, files=tuple(file for file in entry.files if self._may_be_letter(file))))
        progress = entry.progress.get(self.topic_partition)
        if progress is not None:
            (self._data if entry.kind is EntryKind.DATA else self._position)(entry, progress)
            self.start = progress.frontier if self.start is None else min(self.start, progress.frontier)
            self.frontier = progress.frontier
        for gap in entry.gaps:
            if (gap.topic, gap.partition) == self.topic_partition and gap.first <= self.offset <= gap.last:
                if gap.cause == UNPUBLISHED:
                    self._overrule()
                self._say(entry, Fate.GAP, f"offsets {gap.first} to {gap.last} are a gap: {gap.cause}")
        if has(entry.resolved.get(self.topic_partition, OffsetSet()), self.offset):
            self._replay(entry)

    def standing(self) -> Account | None:
        """The last account that still holds."""
        return next((one for one in reversed(self.found) if one.stands), None)

    def _data(self, entry: CommitEntry, progress: Progress) -> None:
        if self.frontier is None or not self.frontier <= self.offset < progress.frontier:
            return
        files, skipped = self._files(entry), entry.skipped.get(self.topic_partition, 0)
        span = f"offsets {self.frontier} to {progress.frontier - 1}"
        if files:
            self._say(entry, Fate.OBJECT, f"{span} were committed with it", files)
        else:
            text = f"{span} were committed with it; no object of it reaches to this offset, and it skipped {skipped} records"
            self._say(entry, Fate.SKIPPED if skipped else Fate.NO_RECORD, text)

    def _position(self, entry: CommitEntry, progress: Progress) -> None:
        before, now = self.frontier, progress.frontier
        if before is None or now == before:
            return
        if now < before and self.offset >= now and not has(progress.recorded, self.offset):
            self._overrule()
        elif before <= self.offset < now and not entry.gaps:
            self._say(entry, Fate.GAP, f"offsets {before} to {now - 1} are a gap: {BY_HAND}")

    def _replay(self, entry: CommitEntry) -> None:
        if files := self._files(entry):
            self._say(entry, Fate.OBJECT, "the dead letter was replayed", files)
        else:
            self._say(entry, Fate.SKIPPED, f"the dead letter was resolved by hand: {entry.reason or 'no reason given'}")

    def _note_topic(self, entry: CommitEntry) -> None:
        """A topic that was created again: what was said before is about other records."""
        new = entry.topic_ids.get(self.topic_partition.topic, "")
        if new and self._topic_id and new != self._topic_id:
            self._overrule()
            self.start, self.frontier = None, None
        self._topic_id = new or self._topic_id

    def _files(self, entry: CommitEntry) -> tuple[DataFile, ...]:
        """The objects of an entry whose offsets reach over this one."""
        return tuple(
            file
            for file in entry.files
            if file.topic_partition == self.topic_partition
            and file.role not in (Role.DEAD_LETTER, Role.POINTER)
            and file.first_offset <= self.offset <= file.last_offset
        )

    def _may_be_letter(self, file: DataFile) -> bool:
        here = file.topic_partition == self.topic_partition and file.first_offset <= self.offset <= file.last_offset
        return here or file.role is not Role.DEAD_LETTER

    def _overrule(self) -> None:
        self.found = [replace(one, stands=False) for one in self.found]

    def _say(self, entry: CommitEntry, outcome: Fate, text: str, files: tuple[DataFile, ...] = ()) -> None:
        self.found.append(Account(entry.version, entry.committed_at, outcome, text, files))


def accounts_of(entries: Iterable[CommitEntry], topic_partition: TopicPartition, offset: int) -> Accounts:
    """What a whole log says of an offset."""
    found = Accounts(topic_partition, offset)
    for entry in entries:
        found.add(entry)
    return found


def has(offsets: OffsetSet, offset: int) -> bool:
    """Whether an offset is in the set."""
    return any(first <= offset <= last for first, last in offsets.ranges)
