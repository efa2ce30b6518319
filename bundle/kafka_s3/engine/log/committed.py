"""Which objects has a log committed from one entry to another, and up to which entry can all of them be read?

For readers of records: `read_committed` and the stream of the same name. An entry that is the log's last may name objects that are not
visible yet, and any entry may name some that wait; so there is a last entry through which the log is `complete_through`. `committed_files`
is the one answer to what counts of a stretch of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_s3.engine.log.entry import CommitEntry, read_entry
from kafka_s3.engine.log.fold import UNPUBLISHED, Event, LogFold, Replacement, Reset, Segment
from kafka_s3.engine.log.log import CommitLog, is_published
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import Gap
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file of records: its object of values, None where it holds tombstones only; that of its keys, None without; and its entry.

    `read_again`: its position was set back later, so that its records are in later files, too; it may never have appeared.
    """

    entry: int
    values: DataFile | None
    keys: DataFile | None
    read_again: bool = False

    @property
    def facts(self) -> DataFile:
        """What the log says of its records."""
        found = self.values or self.keys
        assert found is not None
        return found


def committed_files(entries: Iterable[CommitEntry], topic: str) -> list[CommittedFile]:
    """The files of a topic's records that consecutive entries committed, in the order of the log; each object once.

    An object that was written again under its key, because a position was set back, counts with the later entry. One whose upload was
    lost for good never appeared. An object that a rewrite put in the place of others counts where all of those are of these entries; where
    only some are, these count as long as they are there.
    """
    fold, found = LogFold(), dict[str, CommittedFile]()
    for entry in entries:
        for event in sorted(fold.add(entry), key=_is_of_sidecars):
            if event.topic_partition.topic != topic:
                continue
            if isinstance(event, Segment):
                for file in _files(event):
                    found.pop(file.facts.key, None)
                    found[file.facts.key] = file
            elif isinstance(event, Reset):
                if event.goes_back and not event.recreated:
                    _set_back(found, event)
            elif isinstance(event, Replacement):
                _replace(found, event)
            elif event.cause == UNPUBLISHED:
                for key in [key for key, one in found.items() if _is_within(one.facts, event)]:
                    del found[key]
    return list(found.values())


def _files(segment: Segment) -> Iterator[CommittedFile]:
    """The files of a segment, each with its objects. Where a transform routes records, only the folder tells files apart."""
    groups: dict[tuple[str, str, int], dict[Role, DataFile]] = {}
    for file in segment.files:
        place = (file.key.rpartition("/")[0], file.encoded_partition, file.first_offset)
        groups.setdefault(place, {})[file.role] = file
    for parts in groups.values():
        values, keys = parts.get(Role.VALUE), parts.get(Role.KEY)
        if values is not None or keys is not None:
            yield CommittedFile(segment.version, values, keys)


def _is_of_sidecars(event: Event) -> bool:
    """Whether it is about keys or headers, whose values have to be replaced first."""
    return isinstance(event, Replacement) and event.file is not None and event.file.role is not Role.VALUE


def _replace(found: dict[str, CommittedFile], event: Replacement) -> None:
    replaced, file = [found[key] for key in event.swap.keys if key in found], event.file
    if file is None or (replaced and len(replaced) == len(event.swap.keys)):
        for one in replaced:
            del found[one.facts.key]
    if file is None:
        return
    if replaced and len(replaced) == len(event.swap.keys):
        values, keys = (file, None) if file.role is Role.VALUE else (None, file)
        found[file.key] = CommittedFile(replaced[-1].entry, values, keys, any(one.read_again for one in replaced))
    elif file.role is Role.KEY:
        for key, one in found.items():
            if one.values is not None and one.keys is None and _coordinates(one.values) == _coordinates(file):
                found[key] = replace(one, keys=file)


def _coordinates(file: DataFile) -> tuple[object, ...]:
    return file.topic_partition, file.encoded_partition, file.first_offset, file.last_offset


def _set_back(found: dict[str, CommittedFile], reset: Reset) -> None:
    for key, one in found.items():
        if one.facts.topic_partition == reset.topic_partition and one.facts.last_offset >= reset.frontier:
            found[key] = replace(one, read_again=True)


def _is_within(file: DataFile, gap: Gap) -> bool:
    return (
        file.topic_partition == gap.topic_partition and gap.first <= file.first_offset <= file.last_offset <= gap.last
    )


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
