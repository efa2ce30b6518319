"""Which open files does a sink go on with? The states that its hint names, and young ones, which a running task may just have written.

The hint is an object beside the heartbeat, `<state.prefix>/<sink>/open-files.json`. It is written after what it refers to, and read by the
next driver and by those who tidy up. Without a hint, or with one that does not hold, the open tail is read again. Whoever may write below
the sink's state can write a hint: it is checked whole before any of it is used, and names states in the sink's own folder only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.state_object import drop_state, state_uploads
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import OpenState, Tail
from kafka_s3.store.store import ObjectStore

FORMAT: Final = 2
MOST: Final = 2**53
"""No offset, time or size is larger; what is made of them fits into 64 bits."""


class HintUnusable(SinkError):
    """What a driver noted of its open files cannot be used."""


@dataclass(frozen=True, slots=True)
class NotedFiles:
    """The open files of one topic-partition: their state, what the planner knows of them, and the schedule's mark (epoch ms).

    `topic_id` and `fingerprint` say for which topic and configuration they are, `leader_epoch` which one Kafka's log had when it reached to
    the end of what they hold (None: not known).
    """

    topic_partition: TopicPartition
    topic_id: str
    fingerprint: str
    rotation_ms: int | None
    tail: Tail
    state: OpenState
    leader_epoch: int | None = None


def note_open_files(noted: Iterable[NotedFiles], store: ObjectStore, paths: StatePaths) -> None:
    """Writes the hint anew. Raises StorageError."""
    document = {"format": FORMAT, "open": [asdict(one) for one in noted]}
    store.put(paths.open_files(), json.dumps(document, separators=(",", ":")).encode())


def noted_open_files(store: ObjectStore, paths: StatePaths) -> list[NotedFiles]:
    """What the hint says; nothing where there is none. Raises HintUnusable where it is not what a driver writes, StorageError."""
    try:
        document = json.loads(store.get(paths.open_files()))
        if document["format"] != FORMAT:
            raise ValueError(f"it has format {document['format']!r}, and this version reads {FORMAT}")
        return [_noted(one, paths) for one in document["open"]]
    except ObjectMissing:
        return []
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise HintUnusable(
            f"{paths.open_files()}, the note of open files, cannot be used ({reason:.200}). A start of the sink drops it, and reads their "
            "records again; it may be deleted."
        ) from None


def _noted(document: dict[str, Any], paths: StatePaths) -> NotedFiles:
    topic, partition = document["topic_partition"]
    tp = TopicPartition(_text(topic), _number(partition))
    tail, state = document["tail"], document["state"]
    noted = NotedFiles(
        tp,
        _text(document["topic_id"]),
        _text(document["fingerprint"]),
        _number_or_none(document["rotation_ms"]),
        Tail(
            _number(tail["records"]),
            _number(tail["bytes"]),
            _number_or_none(tail["base_ms"]),
            _number(tail["open_files"]),
        ),
        OpenState(_text(state["key"]), *(_number(state[name]) for name in ("bytes", "epoch", "frontier", "examined"))),
        _number_or_none(document["leader_epoch"]),
    )
    if not paths.is_open_state(noted.state.key, tp):
        raise ValueError(f"{noted.state.key!r:.100} is no state of {tp}")
    if not 0 <= noted.state.frontier <= noted.state.examined:
        raise ValueError(f"offsets {noted.state.frontier} to {noted.state.examined} are no range")
    return noted


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST:
        raise TypeError(f"{value!r:.100} is no number of a hint")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


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
