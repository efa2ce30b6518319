"""Which objects has a log committed from one entry to another, and up to which entry can all of them be read?

For readers of records: `read_committed` and the stream of the same name. An entry that is the log's last may name objects that are not
visible yet, and any entry may name some that wait; so there is a last entry through which the log is `complete_through`. `committed_files`
is the one answer to what counts of a stretch of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.fold import LiveObject, group_by_file, live_objects
from kafka_s3.engine.log.log import CommitLog, is_published
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import OffsetSet
from kafka_s3.store.store import ObjectStore

_RECORDS: Final = frozenset({Role.VALUE, Role.KEY})


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file of records: its object of values, None where it holds tombstones only; that of its keys, None without; and its entry. Each
    slice of an object of several topic-partitions is a file.

    `until`: records from this offset on count elsewhere, because the position was set back into its midst; None: all of them count.
    `erased` are the offsets between its first and its last whose records it lacks because they were erased.
    """

    entry: int
    values: DataFile | None
    keys: DataFile | None
    until: int | None = None
    erased: OffsetSet = field(default_factory=OffsetSet)

    @property
    def facts(self) -> DataFile:
        """What the log says of its records."""
        found = self.values or self.keys
        assert found is not None
        return found

    @property
    def rows(self) -> int:
        """How many of its first records are meant: the n-th has the first offset and n, or a later one."""
        if self.until is None:
            return self.facts.records
        before = self.until - self.facts.first_offset - len(self.erased.before(self.until))
        return min(max(before, 0), self.facts.records)

    @property
    def first_offset(self) -> int | None:
        """The first offset, where from it on each that was not erased is that of a record; None with other gaps or sorted rows."""
        file = self.facts
        known = not file.sorted_by and file.records == file.last_offset - file.first_offset + 1 - len(self.erased)
        return file.first_offset if known else None


def committed_files(
    entries: Iterable[CommitEntry], topic: str, *, later: Iterable[CommitEntry] = ()
) -> list[CommittedFile]:
    """The files of a topic's records that consecutive entries committed, in the order of the log: `live_objects` of this stretch.

    A rewrite commits no records. Its objects stand for those of the stretch where all that it replaced are of the stretch; else the
    originals are read, as long as they are there. `later` are the entries behind the stretch, of which nothing but rewrites count. Raises
    LogDamaged where originals are deleted that the rewrite merged with objects of other entries, or where rows that count no more are
    among sorted ones.
    """
    stretch = _Stretch(topic)
    live = live_objects(chain(stretch.own(entries), stretch.rewrites(later)))
    stretch.check(live)
    slices = (part for one in live.values() for part in one.by_slice)
    return [_file(parts) for parts in group_by_file(slices) if not _RECORDS.isdisjoint(parts)]


def _file(parts: Mapping[Role, LiveObject]) -> CommittedFile:
    values, keys = parts.get(Role.VALUE), parts.get(Role.KEY)
    one = values or keys
    assert one is not None
    if one.until is not None and one.file.sorted_by:
        raise LogDamaged(
            f"{one.file.key} holds records from offset {one.until} on that count elsewhere, since the position went back, and its rows are "
            f"sorted by {one.file.sorted_by}: which they are it does not say. Read from a later entry, or to an earlier one."
        )
    if one.lacks_rows:
        raise LogDamaged(
            f"{one.file.key} of entry {one.version} takes the place of an object with more records, which had been read again before. Read "
            "to a later entry."
        )
    value_file, key_file = (part.file if part is not None else None for part in (values, keys))
    return CommittedFile(one.version, value_file, key_file, one.until, one.erased)


class _Stretch:
    """The entries of a stretch as they would be if there were no others."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._named: dict[str, int] = {}
        self._merged: dict[str, int] = {}
        self._deleted: set[int] = set()
        self._written_over: dict[str, int] = {}

    def own(self, entries: Iterable[CommitEntry]) -> Iterator[CommitEntry]:
        """Each entry with its files, and the swaps of what the stretch names."""
        for entry in entries:
            yield self._without_others(entry)

    def rewrites(self, entries: Iterable[CommitEntry]) -> Iterator[CommitEntry]:
        """Of later entries those that rewrite what the stretch names."""
        for entry in entries:
            again = (file.key for file in entry.files if file.key in self._named)
            self._written_over.update((key, entry.version) for key in again)
            found = self._without_others(entry) if entry.kind is EntryKind.REWRITE else None
            if found is not None and found.swaps:
                yield found

    def check(self, live: Mapping[str, LiveObject]) -> None:
        """Raises LogDamaged where an object that has to be read was deleted after a rewrite, or written over."""
        for key, version in self._merged.items():
            if key in live and version in self._deleted:
                raise LogDamaged(
                    f"{key} of entry {self._named[key]} is deleted: entry {version} merged it with objects of entries that are not meant "
                    "here, so that its records cannot be distinguished from theirs. Read from an earlier entry, or to a later one."
                )

        for key, version in self._written_over.items():
            if key in live and live[key].version < version:
                raise LogDamaged(
                    f"{key} of entry {live[key].version} was written over by entry {version}, which read its offsets again. Read to that "
                    "entry or a later one."
                )

    def _without_others(self, entry: CommitEntry) -> CommitEntry:
        self._deleted.update(entry.deleted)
        if entry.kind is EntryKind.REWRITE:
            own = self._named.keys() - self._written_over.keys()
            swaps = tuple(swap for swap in entry.swaps if own >= set(swap.keys))
            for swap in entry.swaps:
                if swap not in swaps:
                    self._merged.update({key: entry.version for key in swap.keys if key in self._named})
            by = {swap.by for swap in swaps}
            entry = replace(entry, swaps=swaps, files=tuple(file for file in entry.files if file.key in by))
        self._named.update({file.key: entry.version for file in entry.files if file.topic == self._topic})
        return replace(entry, files=tuple(file for file in entry.files if file.topic == self._topic))


def entries_between(log: CommitLog, first: int, last: int) -> Iterator[CommitEntry]:
    """The entries from version `first` to `last`, both included, one behind the other. Raises LogDamaged where one is missing."""
    wanted = max(first, 0)
    for entry in log.entries(after=wanted - 1):
        if entry.version > last or wanted > last:
            return
        if entry.version != wanted:
            raise LogDamaged(_missing(log, wanted, entry.version - 1, f"begin with entry {entry.version}"))
        wanted += 1
        yield entry
    if wanted <= last:
        raise LogDamaged(_missing(log, wanted, last, f"end before entry {wanted}"))


def rewrites_behind(log: CommitLog, last: int) -> Iterator[CommitEntry]:
    """The entries behind a version up to the log's end, for those that rewrite objects or write over them; none of a log without."""
    if last < log.state.version and (log.state.rewritten or log.state.incarnations.newest > last):
        yield from entries_between(log, last + 1, complete_through(log))


def end_of_merges(log: CommitLog, first: int, last: int, *, until: int, topic: str) -> int:
    """Return the last entry of a stretch that is extended until it holds whatever was merged with its objects as a whole.

    What a rewrite merged can be read together only, once the originals are deleted. The log is complete `until` this entry. Raises
    LogDamaged, StorageError.
    """
    if not log.state.rewritten or last >= until:
        return last
    spans: dict[str, tuple[int, int]] = {}
    merges = list[tuple[int, int]]()
    for entry in entries_between(log, first, until):
        if entry.kind is not EntryKind.REWRITE:
            spans.update({file.key: (entry.version, entry.version) for file in entry.files if file.topic == topic})
        for swap in entry.swaps:
            named = [spans[key] for key in swap.keys if key in spans]
            if named:
                merges.append((min(begin for begin, _ in named), max(end for _, end in named)))
                spans[swap.by] = merges[-1]
    for begin, end in sorted(merges):
        if begin <= last:
            last = max(last, end)
    return last


def _missing(log: CommitLog, first: int, last: int, way_out: str) -> str:
    which = (
        f"entry {log.paths.commit(first)} is"
        if first == last
        else f"entries {first} to {last} of {log.paths.root}commits/ are"
    )
    return (
        f"Commit {which} missing, and nothing else says which objects were committed there: a checkpoint keeps positions only. Restore the "
        f"objects from bucket versions or a backup, or {way_out}."
    )


def complete_through(log: CommitLog) -> int:
    """The last version up to which every object is visible, -1 where there is none; of a log that is loaded.

    Raises LogDamaged, StorageError.
    """
    last = log.last
    if last is None:
        return -1
    if is_published(log.store, log.paths, last):
        return last.version
    return min([last.version, *(one.version for one in last.waiting)]) - 1


def last_committed_by(log: CommitLog, at: datetime, *, until: int) -> int:
    """The last version up to `until` that was committed at that time or before, -1 where none was. Raises LogDamaged, StorageError.

    Times of entries are milliseconds: one microsecond earlier means before that time.
    """
    low, high = -1, until  # entry `low` was committed by then; no entry after `high` was
    while low < high:
        middle = (low + high + 1) // 2
        if datetime.fromisoformat(entry_at(log.store, log.paths, middle).committed_at) <= at:
            low = middle
        else:
            high = middle - 1
    return low


def entry_at(store: ObjectStore, paths: StatePaths, version: int) -> CommitEntry:
    """The entry of a version. Raises LogDamaged where it is not there or cannot be read, StorageError."""
    key = paths.commit(version)
    try:
        return read_entry(store.get(key), key=key)
    except ObjectMissing as error:
        raise LogDamaged(
            f"Commit entry {key} is missing. Restore the object from a bucket version or backup."
        ) from error
