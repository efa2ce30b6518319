"""Which open files does a sink still go on with? The states that are noted, and young ones, which a running task may just have written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.noted_files import HintUnusable, noted_open_files
from kafka_s3.engine.open_files.open_state import drop_state, state_uploads
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The states of a sink's open files."""

    store: ObjectStore
    paths: StatePaths

    def uploads(self, *, younger_than_ms: int, now_ms: int) -> set[tuple[str, str]]:
        """The uploads (key, id) of all states that somebody may go on with. Raises StorageError."""
        found, gone = set[tuple[str, str]](), True
        while gone:  # a state that went since the listing has a successor with the same uploads
            gone = False
            overtaken = set(self.overtaken(older_than_ms=younger_than_ms, now_ms=now_ms))
            for info in self.store.list(self.paths.open_states()):
                try:
                    found |= set(state_uploads(info.key, self.store)) if info.key not in overtaken else set()
                except ObjectMissing:
                    gone = True
        return found

    def held(self, state: LogState) -> dict[TopicPartition, int]:
        """The first offset that the noted open files do not hold, of those that the log's frontier agrees with. Raises StorageError."""
        try:
            noted = noted_open_files(self.store, self.paths)
        except HintUnusable:
            return {}
        frontier = state.frontier
        return {
            one.topic_partition: one.state.examined
            for one in noted
            if one.state.frontier == frontier.get(one.topic_partition)
        }

    def overtaken(self, *, older_than_ms: int, now_ms: int) -> Iterator[str]:
        """The keys of states that nobody goes on with. Raises StorageError, HintUnusable: then nobody knows."""
        noted = {one.state.key for one in noted_open_files(self.store, self.paths)}
        for info in self.store.list(self.paths.open_states()):
            if info.key not in noted and now_ms - info.modified_ms >= older_than_ms:
                yield info.key

    def remove(self, *, older_than_ms: int, now_ms: int) -> int:
        """Removes overtaken states; says how many there were. Raises StorageError.

        Their uploads are judged with all others: a successor may go on with them, or an entry hold them that is not published yet.
        """
        keys = list(self.overtaken(older_than_ms=older_than_ms, now_ms=now_ms))
        for key in keys:
            self.store.delete(key)
        return len(keys)

    def remove_all(self) -> int:
        """Removes every state of a sink that nobody runs, and ends their uploads; says how many there were. Raises StorageError."""
        keys = [info.key for info in self.store.list(self.paths.open_states())]
        for key in keys:
            drop_state(key, self.store)
        return len(keys)
