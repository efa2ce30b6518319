"""Which entries of a log cannot be read, and which offsets did they hold?

What counts of a long log is in closed stretches, which are proved by digests (`engine.log.reading`), and in the entries behind the last
one. These are looked at here, each once: who looks again reads what is new, or another object than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry, read_entry
from kafka_s3.engine.log.reading import READ_THREADS, last_closed
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectInfo, ObjectStore

MOST_ENTRIES: Final = 2000
"""Of a log without closed stretches no more are looked at, the newest ones."""
NEIGHBOURS: Final = 50
"""Entries on either side that tell what a damaged one held."""
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """Offsets from `start` (None: no neighbour says it) up to, and without, `until`, that no other entry accounts for."""

    topic_partition: TopicPartition
    start: int | None
    until: int

    def __str__(self) -> str:
        beginning = "up" if self.start is None else f"{self.start}"
        return f"{self.topic_partition} {beginning} to {self.until - 1}"


@dataclass(frozen=True, slots=True)
class DamagedEntries:
    """Neighbouring entries, versions `first` to `last`, that are missing or cannot be read; `text` is about the first of them."""

    first: int
    last: int
    text: str
    held: tuple[HeldOffsets, ...] = ()

    def __str__(self) -> str:
        more = f" So are the entries up to {self.last}." if self.last > self.first else ""
        return f"{self.text}{more} {held_text(self.held)}"


def held_text(held: Iterable[HeldOffsets]) -> str:
    """Which offsets damaged entries held, in a sentence."""
    texts = list(map(str, held))
    if not texts:
        return "Its neighbours leave out no offsets."
    rest = f" and {len(texts) - SHOWN:,} more topic-partitions" if len(texts) > SHOWN else ""
    return f"It held the offsets that its neighbours leave out: {', '.join(texts[:SHOWN])}{rest}."


@dataclass(slots=True)
class DamageSearch:
    """Looks for damage in one sink's log, again and again. Not thread-safe."""

    store: ObjectStore
    paths: StatePaths
    _sound: dict[str, str] = field(default_factory=dict)

    def find(self) -> list[DamagedEntries]:
        """What is damaged now, in the order of the log. Raises StorageError."""
        closed = last_closed(self.store, self.paths)
        start = self.paths.commit(closed) if closed >= 0 else ""
        infos = list(self.store.list(f"{self.paths.root}commits/", start_after=start))[-MOST_ENTRIES:]
        found = {info.key: info for info in infos}
        self._sound = {key: etag for key, etag in self._sound.items() if key in found and found[key].etag == etag}
        with ThreadPool(READ_THREADS) as pool:
            damaged = dict(pool.each(self._read, [info for info in infos if info.key not in self._sound]))
        texts = {version_of(key): text for key, text in damaged.items() if text}
        texts |= dict(self._missing(infos, closed))
        return [self._described(run, texts[run[0]]) for run in _runs(sorted(texts))]

    def _read(self, info: ObjectInfo) -> tuple[str, str]:
        """The key, and why the entry cannot be read, blank where it can."""
        try:
            entry = read_entry(self.store.get(info.key), key=info.key)
        except ObjectMissing:
            return info.key, _missing_text(info.key)
        except LogDamaged as error:
            return info.key, str(error)
        if self.paths.commit(entry.version) != info.key:
            return (
                info.key,
                f"Commit entry {info.key} calls itself entry {entry.version}. Restore the object from a backup.",
            )
        self._sound[info.key] = info.etag
        return info.key, ""

    def _missing(self, infos: list[ObjectInfo], closed: int) -> Iterator[tuple[int, str]]:
        versions = [version_of(info.key) for info in infos]
        first = closed + 1 if len(infos) < MOST_ENTRIES else versions[0]
        for version in sorted(set(range(first, versions[-1] + 1 if versions else first)) - set(versions)):
            yield version, _missing_text(self.paths.commit(version))

    def _described(self, run: list[int], text: str) -> DamagedEntries:
        return DamagedEntries(run[0], run[-1], text, held_by(self.store, self.paths, run[0], run[-1]))


AGAIN_MS: Final = 60_000
"""Who looks again and again looks for damage once in so long a time."""


@dataclass(slots=True)
class DamageWatch:
    """The searches of many sinks. Thread-safe for different sinks."""

    store: ObjectStore
    _searches: dict[StatePaths, DamageSearch] = field(default_factory=dict)
    _found: dict[StatePaths, tuple[int, list[DamagedEntries]]] = field(default_factory=dict)

    def damaged_entries(self, paths: StatePaths, now_ms: int) -> list[DamagedEntries]:
        """What is damaged in a sink's log, as it was AGAIN_MS ago at the earliest. Raises StorageError."""
        looked_ms, found = self._found.get(paths, (0, []))
        if (
            paths not in self._found or found or now_ms - looked_ms >= AGAIN_MS
        ):  # what is damaged may have been restored
            found = self._searches.setdefault(paths, DamageSearch(self.store, paths)).find()
            self._found[paths] = now_ms, found
        return found


def held_by(store: ObjectStore, paths: StatePaths, first: int, last: int) -> tuple[HeldOffsets, ...]:
    """The offsets that entries `first` to `last` held, as far as the entries around them tell. Raises StorageError."""
    before = _entries(store, paths, range(max(first - NEIGHBOURS, 0), first))
    after = _entries(store, paths, range(last + 1, last + 1 + NEIGHBOURS))
    ends: dict[TopicPartition, int] = {}
    for entry in before:
        ends |= {tp: max(one.frontier, one.recorded.until) for tp, one in entry.progress.items()}
    starts: dict[TopicPartition, int] = {}
    for entry in after:
        starts = {**_starts(entry), **starts}
    found = (HeldOffsets(tp, ends.get(tp), until) for tp, until in sorted(starts.items()))
    whole = first <= NEIGHBOURS  # a topic-partition that no earlier entry names began later
    return tuple(one for one in found if (not whole if one.start is None else one.start < one.until))


def _starts(entry: CommitEntry) -> Mapping[TopicPartition, int]:
    """The first offset of each topic-partition that an entry accounts for; its frontier where the entry has none."""
    found = {tp: one.frontier for tp, one in entry.progress.items()}
    for tp, offset in (
        *((file.topic_partition, file.first_offset) for file in entry.files),
        *((gap.topic_partition, gap.first) for gap in entry.gaps),
    ):
        found[tp] = min(found.get(tp, offset), offset)
    return found


def _entries(store: ObjectStore, paths: StatePaths, versions: range) -> list[CommitEntry]:
    """Those of the entries that can be read."""

    def read(version: int) -> CommitEntry | None:
        key = paths.commit(version)
        try:
            return read_entry(store.get(key), key=key)
        except (ObjectMissing, LogDamaged):
            return None

    with ThreadPool(READ_THREADS) as pool:
        return [one for one in pool.each(read, versions) if one is not None]


def version_of(key: str) -> int:
    """The version that the key of a commit entry names, -1 where it names none."""
    stem = key.rpartition("/")[2].removesuffix(".json")
    return int(stem) if stem.isdigit() else -1


def _missing_text(key: str) -> str:
    return f"Commit entry {key} is missing. Restore the object from a bucket version or backup."


def _runs(versions: Iterable[int]) -> list[list[int]]:
    """Versions in order, those that follow one another together."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][-1] + 1 == version:
            runs[-1].append(version)
        else:
            runs.append([version])
    return runs
