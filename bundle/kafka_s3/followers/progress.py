"""How far has a follower come? An object beside the log notes the last entry it has worked off, and of tables those that are behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class FollowerPosition:
    """The last entry that a follower has worked off, noted in the bucket."""

    store: ObjectStore
    paths: StatePaths
    follower: str

    def read(self) -> int | None:
        """The version noted, None where none ever was. Raises LogDamaged, StorageError."""
        key = self.paths.follower(self.follower)
        try:
            return int(json.loads(self.store.get(key))["version"])
        except ObjectMissing:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise LogDamaged(
                f"{key} cannot be read ({type(error).__name__}). Delete it: what it is about begins anew."
            ) from error

    def new_entries(self, log: CommitLog) -> Iterable[CommitEntry]:
        """The entries since the last one noted. Where none ever was, it begins with the next: the log so far is noted as worked off."""
        done = self.read()
        if done is None:
            self.note(log.state.version)
            return []
        return log.entries_since(done)

    def note(self, version: int) -> None:
        """Notes that everything up to `version` is done."""
        self.store.put(self.paths.follower(self.follower), json.dumps({"version": version}).encode())


@dataclass(slots=True)
class TablePositions:
    """Up to which entry the tables have come: `version`, but for topics that are `behind`."""

    version: int = -1
    behind: dict[str, int] = field(default_factory=dict)

    def position_of(self, topic: str) -> int:
        """The entry up to which a topic's table has come."""
        return self.behind.get(topic, self.version)


def read_positions(store: ObjectStore, key: str) -> TablePositions:
    """The positions that an object holds; the beginning where there is none. Raises LogDamaged, StorageError."""
    try:
        found = json.loads(store.get(key))
        return TablePositions(int(found["version"]), dict(found.get("behind", {})))
    except ObjectMissing:
        return TablePositions()
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"{key} cannot be read ({type(error).__name__}). Delete it: tables are compared with all of the log again."
        ) from error


def note_positions(store: ObjectStore, key: str, positions: TablePositions) -> None:
    """Notes the positions. Raises StorageError."""
    store.put(key, json.dumps(asdict(positions)).encode())
