"""Which dead letters does a sink have, and what became of each? Read back from its log and its bucket.

The log says which files hold dead letters and what happened to them since: an entry of kind replay settles them, an entry that moves a
position back lets Kafka's records be read again, so that the letters no longer count. Files without an entry do not count.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final

import numpy as np

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, committed_ms
from kafka_s3.engine.log.reading import read_entries
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.dead_letters import DeadLetter, iterate_letters
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.store.store import ObjectStore

TOGETHER: Final = 20
"""Letters that are judged at a time."""


class LetterState(StrEnum):
    """What became of a dead letter. `READ_AGAIN`: the position was moved back before its record. `ERASED`: its content is gone."""

    OPEN = "open"
    REPLAYED = "replayed"
    RESOLVED = "resolved"
    READ_AGAIN = "read again"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry that takes offsets of a topic-partition out of the open dead letters of the entries before it."""

    entry: int
    state: LetterState
    offsets: OffsetSet
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LetterFile:
    """A dead letter file and the entry that committed it, at `committed_ms`."""

    file: DataFile
    entry: int
    committed_ms: int


@dataclass(frozen=True, slots=True)
class FiledLetter:
    """A dead letter, the entry that made it one (at `committed_ms`), and what became of it: in which entry, and why, if that is known."""

    letter: DeadLetter
    entry: int
    committed_ms: int
    state: LetterState
    settled: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Which dead letters are meant; None is all, and so are no `topics`. `exception` is a class name, whole or its last part.

    `since_ms` (included) and `until_ms` (excluded) are about the time when the record became a dead letter, epoch ms.
    """

    stage: str | None = None
    topics: frozenset[str] = frozenset()
    partition: int | None = None
    offset: int | None = None
    exception: str | None = None
    entry: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    states: frozenset[LetterState] = frozenset(LetterState)

    def may_hold(self, candidate: LetterFile) -> bool:
        """Whether a file can hold such letters, judged without reading it."""
        file = candidate.file
        return (
            (not self.topics or file.topic in self.topics)
            and self.partition in (None, file.partition)
            and self.entry in (None, candidate.entry)
            and (self.offset is None or file.first_offset <= self.offset <= file.last_offset)
            and (self.since_ms is None or candidate.committed_ms >= self.since_ms)
            and (self.until_ms is None or candidate.committed_ms < self.until_ms)
        )

    def takes(self, filed: FiledLetter) -> bool:
        """Whether a letter of such a file is meant."""
        letter = filed.letter
        return (
            filed.state in self.states
            and self.stage in (None, letter.stage)
            and self.offset in (None, letter.offset)
            and self.exception in (None, letter.exception, letter.exception.rpartition(".")[2])
        )


@dataclass
class Ledger:
    """What the log up to entry `version` says of dead letters: the files by key, and per topic-partition what settled some of them."""

    version: int = -1
    files: dict[str, LetterFile] = field(default_factory=dict)
    settled: dict[TopicPartition, list[Settled]] = field(default_factory=dict)

    def add(self, entry: CommitEntry) -> None:
        """Takes the next entry in."""
        self.version = entry.version
        if entry.kind is EntryKind.POSITION:
            for tp, progress in entry.progress.items():
                self._settle(tp, Settled(entry.version, LetterState.READ_AGAIN, progress.to_read))
        state = LetterState.REPLAYED if entry.files else LetterState.RESOLVED
        for tp, offsets in entry.resolved.items():
            self._settle(tp, Settled(entry.version, state, offsets, entry.reason))
        for tp, offsets in entry.erased.items():
            self._erase(tp, Settled(entry.version, LetterState.ERASED, offsets))
        before = {swap.by: self.files.pop(key) for swap in entry.swaps for key in swap.keys if key in self.files}
        for file in entry.files:
            if file.role is Role.DEAD_LETTER:
                first = before.get(file.key)
                made = (first.entry, first.committed_ms) if first else (entry.version, committed_ms(entry))
                self.files[file.key] = LetterFile(file, *made)

    def _erase(self, tp: TopicPartition, erased: Settled) -> None:
        """Whatever became of the letters before: nobody is to read them again."""
        self.settled.setdefault(tp, []).insert(0, erased)

    def _settle(self, topic_partition: TopicPartition, settled: Settled) -> None:
        self.settled.setdefault(topic_partition, []).append(settled)


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters that failed for the same reason in the same topic-partition; times are those of their entries, epoch ms.

    `example` is the first one's message.
    """

    stage: str
    exception: str
    topic_partition: TopicPartition
    state: LetterState
    count: int
    first_ms: int
    last_ms: int
    example: str


def read_ledger(store: ObjectStore, paths: StatePaths) -> Ledger:
    """The ledger of a whole log. Raises LogDamaged."""
    ledger = Ledger()
    for _, entry in read_entries(store, paths):
        ledger.add(entry)
    return ledger


def letters(
    ledger: Ledger, store: ObjectStore, *, selection: LetterSelection, missing: Callable[[LetterFile], None]
) -> Iterator[FiledLetter]:
    """The selected letters in the order of their entries, one file in memory at a time; `missing` is called with files that are not there.

    Raises LogDamaged.
    """
    for candidate in ledger.files.values():
        if not selection.may_hold(candidate):
            continue
        try:
            content = store.get(candidate.file.key)
        except ObjectMissing:
            missing(candidate)
            continue
        found = sorted(_unpacked(content, candidate), key=lambda letter: letter.offset)
        yield from filter(selection.takes, _judged(found, candidate, ledger.settled))


def letters_of(
    store: ObjectStore, origin: LetterFile, settled: Mapping[TopicPartition, Sequence[Settled]], *, first: int = 0
) -> Iterator[FiledLetter]:
    """The letters of one file in its order, from number `first` on; they are unpacked as they are asked for, so that none is held.

    Raises ObjectMissing, LogDamaged.
    """
    lines = islice(_unpacked(store.get(origin.file.key), origin), first, None)
    while some := list(islice(lines, TOGETHER)):
        yield from _judged(some, origin, settled)


def grouped(found: Iterable[FiledLetter]) -> list[LetterGroup]:
    """Counts by stage, exception class, topic-partition and state; open ones first, then by number."""
    groups: dict[tuple[str, str, TopicPartition, LetterState], list[int]] = {}
    examples: dict[tuple[str, str, TopicPartition, LetterState], str] = {}
    for filed in found:
        letter = filed.letter
        key = (letter.stage, letter.exception, letter.topic_partition, filed.state)
        count = groups.setdefault(key, [0, filed.committed_ms, 0])
        examples.setdefault(key, letter.message)
        count[0] += 1
        count[1], count[2] = min(count[1], filed.committed_ms), max(count[2], filed.committed_ms)
    rows = [LetterGroup(*key, number, first, last, examples[key]) for key, (number, first, last) in groups.items()]
    return sorted(rows, key=lambda row: (row.state is not LetterState.OPEN, -row.count, row.topic_partition, row.stage))


def _judged(
    found: Sequence[DeadLetter], origin: LetterFile, settled: Mapping[TopicPartition, Sequence[Settled]]
) -> Iterator[FiledLetter]:
    """What became of each letter of a file: the first entry behind the file's own that covers its offset says it."""
    offsets = np.array([letter.offset for letter in found], np.int64)
    by: dict[int, Settled] = {}
    for one in settled.get(origin.file.topic_partition, ()):
        if one.entry > origin.entry:
            for row in np.flatnonzero(one.offsets.mask(offsets)).tolist():
                by.setdefault(row, one)
    for row, letter in enumerate(found):
        end = by.get(row)
        if end is None:
            yield FiledLetter(letter, origin.entry, origin.committed_ms, LetterState.OPEN)
        else:
            yield FiledLetter(letter, origin.entry, origin.committed_ms, end.state, end.entry, end.reason)


def _unpacked(content: bytes, origin: LetterFile) -> Iterator[DeadLetter]:
    try:
        yield from iterate_letters(content)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"Dead letter file {origin.file.key} of entry {origin.entry} is damaged ({type(error).__name__}). Restore the object from a "
            "bucket version or backup; to leave it out, select other entries or topics."
        ) from error


def counts_by_stage(found: Iterable[DeadLetter]) -> Mapping[TopicPartition, dict[str, int]]:
    """How many letters each topic-partition has, by stage."""
    counts: dict[TopicPartition, dict[str, int]] = {}
    for letter in found:
        stages = counts.setdefault(letter.topic_partition, {})
        stages[letter.stage] = stages.get(letter.stage, 0) + 1
    return counts
