"""When is a directory of a time complete? Then something is done with it: a marker is written into it, for those who wait for whole hours
or days, or its small files are put together (`followers.compaction.DirectoryCompaction`).

A directory is complete when its time is over by the clock, and each topic-partition of its topic has committed a record of a later time, or
has none that is not committed. It is looked at with each commit, and when its time ends: so a topic that goes quiet gets its last marker,
too. A record that comes later all the same lets the marker be written again, with what it brought: the entry in it tells a reader whether
it is one that was seen before.

What is open is kept in one object beside the log, written after the markers: a crash writes the same markers again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.progress import read_note
from kafka_s3.model.files import DataFile, counted
from kafka_s3.model.protocols import Brokers

NAME: Final = "done-markers"
AGAIN_MS: Final = 60_000
"""A directory whose time is over is looked at so often by the clock alone, as long as it is not complete."""
MOST_BYTES: Final = 4 << 20
"""What may be known of directories that are not marked yet, some 25,000 of them; those that ended first are given up beyond it."""
DIRECTORY_BYTES: Final = 128
"""What one costs beside its name."""


@dataclass
class OpenDirectory:
    """A directory that is not marked yet: its topic, the end of its time (epoch ms), what is in it, and the first and the last entry that
    added to it.
    """

    topic: str
    end_ms: int
    files: int = 0
    records: int = 0
    entry: int = -1
    first: int = -1


@dataclass
class Seen:
    """What is known up to entry `version`. `reached` is the latest record time in objects, per topic-partition as text.

    `size` is what the open directories take, in bytes.
    """

    version: int = -1
    open: dict[str, OpenDirectory] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add_entry(self, entry: CommitEntry, end_of: Callable[[int], int]) -> None:
        """Takes the next entry in. What takes the place of other objects brings no record."""
        for file in counted(entry.files) if entry.kind is not EntryKind.REWRITE else ():
            if file.max_timestamp is not None:
                self._take(file, file.max_timestamp, entry.version, end_of)
        self.version = entry.version

    def _take(self, file: DataFile, latest_ms: int, version: int, end_of: Callable[[int], int]) -> None:
        name = str(file.topic_partition)
        self.reached[name] = max(self.reached.get(name, latest_ms), latest_ms)
        folder = file.key.rpartition("/")[0]
        found = self.open.get(folder)
        if found is None:
            found = self.open[folder] = OpenDirectory(file.topic, end_of(latest_ms), first=version)
            self.size += size_of(folder)
        found.files, found.records, found.entry = found.files + 1, found.records + file.records, version

    def close(self, folder: str) -> OpenDirectory:
        """Takes a directory out."""
        self.size -= size_of(folder)
        return self.open.pop(folder)

    def beyond(self, most: int) -> list[str]:
        """The directories to give up where all take more than `most` bytes, so that the others take nine tenths of it."""
        found: list[str] = []
        left = self.size
        for folder in sorted(self.open, key=lambda one: self.open[one].end_ms) if left > most else ():
            if left <= most * 9 // 10:
                break
            found.append(folder)
            left -= size_of(folder)
        return found


def size_of(folder: str) -> int:
    """What an open directory takes, in bytes."""
    return len(folder.encode()) + DIRECTORY_BYTES


Complete = Callable[[CommitLog, str, OpenDirectory], bool]
"""Does what is to be done with a complete directory; whether all of it is done, or it is to be called again. Raises StorageError."""


def write_marker(marker: str) -> Complete:
    """Writes an object of that name into the directory, which says what was in it."""

    def write(log: CommitLog, folder: str, found: OpenDirectory) -> bool:
        document = {name: value for name, value in asdict(found).items() if name != "first"}
        log.store.put(f"{folder}/{marker}", json.dumps(document, separators=(",", ":")).encode())
        return True

    return write


@dataclass(slots=True)
class CompleteDirectories:
    """The follower. `end_of` gives the end of the directory's time for a record's time (epoch ms), `complete` is what is done then; `name`
    is also that of the note of what is open.
    """

    complete: Complete
    end_of: Callable[[int], int]
    brokers: Brokers
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    name: str = NAME
    most_bytes: int = MOST_BYTES
    _seen: Seen | None = None
    _looked_ms: int = -1

    @property
    def due(self) -> bool:
        """Whether a directory may have become complete by the clock alone. Asks nobody."""
        now = self.clock_ms()
        again = now - self._looked_ms >= AGAIN_MS
        ends = (one.end_ms for one in self._seen.open.values()) if self._seen is not None else ()
        return any(end <= now and (again or end > self._looked_ms) for end in ends)

    def catch_up(self, log: CommitLog) -> None:
        """Takes in every entry since the last one noted, and marks what is complete. Raises Fenced, StorageError, SourceError."""
        seen, self._seen = self._seen or self._read(log), None
        before = seen.version
        for entry in log.entries_since(before):
            seen.add_entry(entry, self.end_of)
            if seen.beyond(self.most_bytes):
                self._mark(seen, log)
                self._give_up(seen)
        if self._mark(seen, log) or seen.version != before:
            seen.reached = {str(tp): seen.reached[str(tp)] for tp in log.state.frontier if str(tp) in seen.reached}
            log.store.put(log.paths.follower(self.name), json.dumps(asdict(seen), separators=(",", ":")).encode())
        self._seen = seen

    def _mark(self, seen: Seen, log: CommitLog) -> bool:
        """Does what is due with complete directories; whether all of it is done of any."""
        complete = self._complete(seen, log)
        if complete:
            # where a topic is quiet, nothing else would say that another driver has taken over
            log.check_owner(log.state.version)
        done = [folder for folder in complete if self.complete(log, folder, seen.open[folder])]
        for folder in done:
            seen.close(folder)
        return bool(done)

    def _give_up(self, seen: Seen) -> None:
        folders = seen.beyond(self.most_bytes)
        for folder in folders:
            seen.close(folder)
        if folders:
            self.warn(
                f"{self.name}: {len(folders):,} directories are passed over, {folders[0]} the first: more than {self.most_bytes:,} bytes "
                "of them wait for topic-partitions that lag. Let these be committed (flush.idle.ms, kafka-s3 flush) or removed."
            )

    def _complete(self, seen: Seen, log: CommitLog) -> list[str]:
        now = self._looked_ms = self.clock_ms()
        over = {folder: one for folder, one in seen.open.items() if one.end_ms <= now}
        if not over:
            return []
        latest: dict[str, int] = {}
        for one in over.values():
            latest[one.topic] = max(latest.get(one.topic, 0), one.end_ms)
        reached = {tp: seen.reached.get(str(tp), -1) for tp in log.state.frontier if tp.topic in latest}
        behind = [tp for tp, ms in reached.items() if ms < latest[tp.topic]]
        heads = self.brokers.heads(behind) if behind else {}
        for tp in behind:
            if tp in heads and log.state.frontier[tp] >= heads[tp]:
                del reached[tp]  # it has nothing that is not committed
        passed = {topic: min((ms for tp, ms in reached.items() if tp.topic == topic), default=now) for topic in latest}
        return [folder for folder, one in over.items() if one.end_ms <= passed[one.topic]]

    def _read(self, log: CommitLog) -> Seen:
        def parse(found: dict[str, Any]) -> Seen:
            known = {folder: OpenDirectory(**one) for folder, one in found["open"].items()}
            return Seen(found["version"], known, found["reached"], sum(map(size_of, known)))

        key = log.paths.follower(self.name)
        return read_note(log.store, key, parse, remedy="markers are written again.") or Seen()
