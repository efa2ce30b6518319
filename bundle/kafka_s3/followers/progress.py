"""How far has a follower come? An object beside the log notes the last entry it has processed, and of tables those that are behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.timing import iso_time
from kafka_s3.store.store import ObjectStore

T = TypeVar("T")
MOST_WHY: Final = 2000
"""Characters of a reason that are noted."""


def read_note(store: ObjectStore, key: str, parse: Callable[[dict[str, Any]], T], *, remedy: str) -> T | None:
    """What a follower noted, None where it never did. Raises LogDamaged, with what deleting the note leads to, and StorageError."""
    try:
        return parse(json.loads(store.get(key)))
    except ObjectMissing:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(f"{key} cannot be read ({type(error).__name__}). Delete it: {remedy}") from error


@dataclass(frozen=True, slots=True)
class FollowerPosition:
    """The last entry that a follower has processed, noted in the bucket."""

    store: ObjectStore
    paths: StatePaths
    follower: str

    def read(self) -> int | None:
        """The version noted, None where none ever was. Raises LogDamaged, StorageError."""
        key = self.paths.follower(self.follower)
        return read_note(self.store, key, lambda note: int(note["version"]), remedy="what it is about starts again.")

    def new_entries(self, log: CommitLog) -> Iterable[CommitEntry]:
        """The entries since the last one noted. Where none ever was, it begins with the next: the log so far is noted as processed."""
        done = self.read()
        if done is None:
            self.note(log.state.version)
            return []
        return log.entries_since(done)

    def note(self, version: int) -> None:
        """Notes that everything up to `version` is done."""
        self.store.put(self.paths.follower(self.follower), json.dumps({"version": version}).encode())


@dataclass(frozen=True, slots=True)
class HeldTable:
    """Why a table does not follow, and since when (epoch ms)."""

    why: str
    since_ms: int


@dataclass(slots=True)
class TablePositions:
    """Up to which entry the tables have come: `version`, but for topics that are `behind`; why these are `held`.

    `metadata` is the location of the file that says what is in a topic's table, where only a catalog knows it.
    """

    version: int = -1
    behind: dict[str, int] = field(default_factory=dict)
    held: dict[str, HeldTable] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def position_of(self, topic: str) -> int:
        """The entry up to which a topic's table has come."""
        return self.behind.get(topic, self.version)

    @property
    def problems(self) -> list[str]:
        """What each table that is held says, by topic."""
        return [
            f"the table of {topic} does not follow since {iso_time(one.since_ms, 'seconds')}: {one.why}"
            for topic, one in sorted(self.held.items())
        ]

    def hold(self, topic: str, *, after: int, why: str, now_ms: int) -> bool:
        """Keeps a topic's table at an entry; whether that says something new."""
        before = self.held.get(topic)
        self.behind[topic] = after
        self.held[topic] = HeldTable(why[:MOST_WHY], before.since_ms if before is not None else now_ms)
        return self.held[topic] != before


def read_positions(store: ObjectStore, key: str) -> TablePositions:
    """The positions that an object holds; the beginning where there is none. Raises LogDamaged, StorageError."""
    remedy = "tables are compared with all of the log again."
    return read_note(store, key, _positions, remedy=remedy) or TablePositions()


def _positions(note: dict[str, Any]) -> TablePositions:
    held = {str(topic): HeldTable(str(one["why"]), int(one["since_ms"])) for topic, one in note.get("held", {}).items()}
    return TablePositions(int(note["version"]), dict(note.get("behind", {})), held, dict(note.get("metadata", {})))


def note_positions(store: ObjectStore, key: str, positions: TablePositions) -> None:
    """Notes the positions. Raises StorageError."""
    store.put(key, json.dumps(asdict(positions)).encode())
