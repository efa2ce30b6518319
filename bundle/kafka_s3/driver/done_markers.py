"""When is a directory of a time complete? Then a marker is written into it, for those who wait for whole hours or days.

A directory is complete when its time is over by the clock, and each topic-partition of its topic has committed a record of a later time, or
has none that is not committed. It is looked at with each commit. A record that comes later all the same lets the marker be written anew,
with what it brought: what a reader has seen once is told apart by the entry in it.

What is open is kept in one object beside the log, written after the markers: a crash writes the same markers again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kafka_s3.commit.entry import CommitEntry
from kafka_s3.commit.log import CommitLog
from kafka_s3.driver.follower import entries_since
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers

NAME: Final = "done-markers"


@dataclass
class OpenDirectory:
    """A directory that is not marked yet: its topic, the end of its time (epoch ms), what is in it, and the last entry that added to it."""

    topic: str
    end_ms: int
    files: int = 0
    records: int = 0
    entry: int = -1


@dataclass
class Seen:
    """What is known up to entry `version`. `reached` is the latest record time in objects, per topic-partition as text."""

    version: int = -1
    open: dict[str, OpenDirectory] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)

    def take(self, entry: CommitEntry, end_of: Callable[[int], int]) -> None:
        """Takes the next entry in."""
        for file in entry.files:
            if file.role in (Role.VALUE, Role.KEY) and file.max_timestamp is not None:
                self._take(file, file.max_timestamp, entry.version, end_of)
        self.version = entry.version

    def _take(self, file: DataFile, latest_ms: int, version: int, end_of: Callable[[int], int]) -> None:
        place = str(file.topic_partition)
        self.reached[place] = max(self.reached.get(place, latest_ms), latest_ms)
        folder = file.key.rpartition("/")[0]
        found = self.open.setdefault(folder, OpenDirectory(file.topic, end_of(latest_ms)))
        found.files, found.records, found.entry = found.files + 1, found.records + file.records, version


@dataclass(frozen=True, slots=True)
class DoneMarkers:
    """The follower. `marker` is the name of the objects, `end_of` gives the end of the directory's time for a record's time (epoch ms)."""

    marker: str
    end_of: Callable[[int], int]
    brokers: Brokers
    clock_ms: Callable[[], int]
    name: str = "done-markers"

    def catch_up(self, log: CommitLog) -> None:
        """Takes in every entry since the last one noted, and marks what is complete. Raises StorageError, SourceError."""
        seen = self._read(log)
        for entry in entries_since(log, seen.version):
            seen.take(entry, self.end_of)
        for folder in self._complete(seen, log):
            done = asdict(seen.open.pop(folder))
            log.store.put(f"{folder}/{self.marker}", json.dumps(done, separators=(",", ":")).encode())
        log.store.put(log.paths.follower(NAME), json.dumps(asdict(seen), separators=(",", ":")).encode())

    def _complete(self, seen: Seen, log: CommitLog) -> list[str]:
        now = self.clock_ms()
        over = {folder: one for folder, one in seen.open.items() if one.end_ms <= now}
        if not over:
            return []
        topics = {one.topic for one in over.values()}
        places = [tp for tp in log.state.frontier if tp.topic in topics]
        behind = [tp for tp in places if seen.reached.get(str(tp), -1) < max(one.end_ms for one in over.values())]
        heads = self.brokers.heads(behind) if behind else {}
        empty = {tp for tp in behind if log.state.frontier[tp] >= heads.get(tp, log.state.frontier[tp] + 1)}

        def passed(tp: TopicPartition, end_ms: int) -> bool:
            return tp in empty or seen.reached.get(str(tp), -1) >= end_ms

        return [
            folder
            for folder, one in over.items()
            if all(passed(tp, one.end_ms) for tp in places if tp.topic == one.topic)
        ]

    def _read(self, log: CommitLog) -> Seen:
        key = log.paths.follower(NAME)
        try:
            found: dict[str, Any] = json.loads(log.store.get(key))
            return Seen(found["version"], {k: OpenDirectory(**v) for k, v in found["open"].items()}, found["reached"])
        except ObjectMissing:
            return Seen()
        except (ValueError, KeyError, TypeError) as error:
            raise LogDamaged(
                f"{key} cannot be read ({type(error).__name__}). Delete it: markers are written anew."
            ) from error
