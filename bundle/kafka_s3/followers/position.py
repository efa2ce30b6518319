"""How far has a follower come? The version of the last entry that it has worked off, as an object beside the log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

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
