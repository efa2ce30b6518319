"""What follows the commit log? The seam, and the place up to which a follower has come, as an object beside the log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing, SinkError
from kafka_s3.store.store import ObjectStore

REST: Final = 9
"""A follower that failed is left alone for so many times as long as its failure took."""


class Follower(Protocol):
    """Something that is brought up to the log's last published entry. It is idempotent by entry, and catches up."""

    @property
    def name(self) -> str:
        """What is followed, for messages."""
        ...

    def catch_up(self, log: CommitLog) -> None:
        """Follows the log; may raise any SinkError, and is then called again soon."""
        ...


@runtime_checkable
class ByTheClock(Protocol):
    """A follower that has work without any entry, when time has passed."""

    @property
    def due(self) -> bool:
        """Whether it wants to be called now. Asks nobody: it is looked at in every round."""
        ...


@dataclass
class Followed:
    """Calls followers, so that one which fails holds the loop for a tenth of the time at most: what fails at once is tried at once."""

    _failed: dict[str, tuple[int, int]] = field(default_factory=dict)

    def rests(self, follower: Follower, log: CommitLog) -> bool:
        """Whether the follower is left alone for now."""
        failed_ms, took_ms = self._failed.get(follower.name, (0, 0))
        return 0 <= log.clock_ms() - failed_ms < REST * took_ms

    def catch_up(self, follower: Follower, log: CommitLog) -> None:
        """Calls it. Raises what it raises."""
        begun = log.clock_ms()
        try:
            follower.catch_up(log)
        except SinkError:
            failed = log.clock_ms()
            self._failed[follower.name] = failed, failed - begun
            raise


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
