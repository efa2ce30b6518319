"""Which open files does a sink go on with, and who removes the others? The states in the bucket, and the hint that names those that hold.

The hint is an object beside the heartbeat, `<state.prefix>/<sink>/open-files.json`. It is written after what it refers to, and read by the
next driver and by those who tidy up. Without a hint, or with one that does not hold, the open tail is read again. Whoever may write below
the sink's state can write a hint: it is checked whole before any of it is used, and names states in the sink's own folder only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.state_object import begun_uploads, state_uploads
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.tasks import OpenState, Tail
from kafka_s3.store.store import ObjectStore

ListUploads: TypeAlias = Callable[[str, ObjectStore], list[tuple[str, str]]]
FORMAT: Final = 2
MOST: Final = 2**53
"""No offset, time or size is larger; what is made of them fits into 64 bits."""


class HintUnusable(SinkError):
    """The hint that a driver wrote of its open files cannot be used."""


@dataclass(frozen=True, slots=True)
class HintedState:
    """The open files of one topic-partition in the hint: their state, what the planner knows of them, and the schedule's mark (epoch ms).

    `topic_id` and `fingerprint` say for which topic and configuration they are, `leader_epoch` which one Kafka's log had when it reached to
    the end of what they hold (None: not known). `recorded` are the offsets that the log knew as dead letters, so that the files do without
    them (None: not known).
    """

    topic_partition: TopicPartition
    topic_id: str
    fingerprint: str
    rotation_ms: int | None
    tail: Tail
    state: OpenState
    leader_epoch: int | None = None
    recorded: OffsetSet | None = None


@dataclass(frozen=True, slots=True)
class OpenFileStates:
    """The states of a sink's open files, and the only class that removes one or ends the uploads that one names.

    | who removes a state | which one | was it committed | uploads that end with it | of which epochs |
    |---|---|---|---|---|
    | driver, after its hint | overtaken, a later task went on with it | yes | none: they are in a later state or an entry | own |
    | driver, after its hint | overtaken, a later task dropped it | yes | all | own |
    | driver that gives up a report | the report's | no | those that its task began | own |
    | driver, at its start | of the last hint, where that does not hold | yes | all | up to its own |
    | driver, at its start | any other that does not go on | any | those that its task began, if no state has them | up to its own |
    | driver, after a failed task | any that does not go on | any | none: `loop.leftovers` judges what is pending | up to its own |
    | `kafka-s3 sweep` | old, and not in the hint | any | none: it judges what is pending | any |
    | `control delete`, with the log | every one | any | all | any |

    A driver learns whether it was replaced before it removes what may be a successor's (`CommitLog.check_owner`), and leaves states of
    later epochs. A task removes no state: one that fails ends the uploads that it began (`FileUpload.abort`), never one that it took over.
    """

    store: ObjectStore
    paths: StatePaths

    def read_hint(self) -> list[HintedState]:
        """What the hint says; nothing where there is none. Raises HintUnusable where it is not what a driver writes, StorageError."""
        try:
            document = json.loads(self.store.get(self.paths.open_files()))
            if document["format"] != FORMAT:
                raise ValueError(f"it has format {document['format']!r}, and this version reads {FORMAT}")
            return [_hinted(one, self.paths) for one in document["open"]]
        except ObjectMissing:
            return []
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise HintUnusable(
                f"{self.paths.open_files()}, the note of open files, cannot be used ({reason:.200}). A start of the sink drops it, and "
                "reads their records again; it may be deleted."
            ) from None

    def write_hint(self, hinted: Iterable[HintedState]) -> None:
        """Writes the hint anew. Raises StorageError."""
        document = {"format": FORMAT, "open": [asdict(one) for one in hinted]}
        self.store.put(self.paths.open_files(), json.dumps(document, separators=(",", ":")).encode())

    def keys(self) -> list[str]:
        """The keys of all states that are there. Raises StorageError."""
        return [info.key for info in self.store.list(self.paths.open_states())]

    def first_unread(self, log: LogState) -> dict[TopicPartition, int]:
        """The first offset that the open files of the hint do not hold, of those that the log's frontier agrees with.

        Raises StorageError.
        """
        try:
            hinted = self.read_hint()
        except HintUnusable:
            return {}
        frontier = log.frontier
        agreed = [one for one in hinted if one.state.frontier == frontier.get(one.topic_partition)]
        return {one.topic_partition: one.state.examined for one in agreed}

    def uploads_in_use(self, *, younger_than_ms: int, now_ms: int) -> set[tuple[str, str]]:
        """The uploads (key, id) of all states that somebody may go on with. Raises StorageError, HintUnusable."""
        found, gone = set[tuple[str, str]](), True
        while gone:  # a state that went since the listing has a successor with the same uploads
            gone = False
            overtaken = set(self.overtaken(older_than_ms=younger_than_ms, now_ms=now_ms))
            for key in self.keys():  # listed last: a state that is written meanwhile is among them
                try:
                    found |= set(state_uploads(key, self.store)) if key not in overtaken else set()
                except ObjectMissing:
                    gone = True
        return found

    def overtaken(self, *, older_than_ms: int, now_ms: int) -> Iterator[str]:
        """The keys of states that nobody goes on with. Raises StorageError, HintUnusable: then nobody knows."""
        hinted = {one.state.key for one in self.read_hint()}
        for info in self.store.list(self.paths.open_states()):
            if info.key not in hinted and now_ms - info.modified_ms >= older_than_ms:
                yield info.key

    def remove_overtaken(self, *, older_than_ms: int, now_ms: int) -> int:
        """Removes overtaken states; says how many there were. Raises StorageError, HintUnusable.

        Their uploads are judged with all others: a successor may go on with them, or an entry hold them that is not published yet.
        """
        keys = list(self.overtaken(older_than_ms=older_than_ms, now_ms=now_ms))
        for key in keys:
            self.remove(key)
        return len(keys)

    def remove_all(self) -> int:
        """Removes every state of a sink that nobody runs, and ends their uploads; says how many there were. Raises StorageError."""
        keys = self.keys()
        for key in keys:
            self.remove_with_uploads(key)
        return len(keys)

    def remove(self, key: str) -> None:
        """Removes a state whose uploads go on elsewhere, or are judged with all others. Raises StorageError."""
        self.store.delete(key)

    def remove_with_uploads(self, key: str) -> None:
        """Removes a state that nobody continues, and ends its uploads. No error where it is gone. Raises StorageError."""
        self._remove(key, state_uploads)

    def remove_unused(self, key: str, spared: Collection[tuple[str, str]] = ()) -> None:
        """Removes a state that never held, and ends the uploads that its own task began but those (key, id) that are `spared`.

        What that task took over is left: another state may go on with it. No error where it is gone. Raises StorageError.
        """
        self._remove(key, begun_uploads, spared)

    def _remove(self, key: str, uploads: ListUploads, spared: Collection[tuple[str, str]] = ()) -> None:
        try:
            for upload_key, upload_id in uploads(key, self.store):
                if (upload_key, upload_id) not in spared:
                    self.store.abort_upload(upload_key, upload_id)
        except ObjectMissing:
            return
        self.store.delete(key)


def _hinted(document: dict[str, Any], paths: StatePaths) -> HintedState:
    topic, partition = document["topic_partition"]
    tp = TopicPartition(_text(topic), _number(partition))
    tail, state = document["tail"], document["state"]
    hinted = HintedState(
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
        _offsets_or_none(document.get("recorded")),
    )
    if not paths.is_open_state(hinted.state.key, tp):
        raise ValueError(f"{hinted.state.key!r:.100} is no state of {tp}")
    if not 0 <= hinted.state.frontier <= hinted.state.examined:
        raise ValueError(f"offsets {hinted.state.frontier} to {hinted.state.examined} are no range")
    return hinted


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST:
        raise TypeError(f"{value!r:.100} is no number of a hint")
    return value


def _offsets_or_none(value: Any) -> OffsetSet | None:
    return (
        None if value is None else OffsetSet(tuple((_number(first), _number(last)) for first, last in value["ranges"]))
    )


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)
