"""Which open files does a sink go on with, and who removes the others? The states in the bucket, and the hint that names those that hold.

The hint is an object beside the heartbeat, `<state.prefix>/<sink>/open-files.json`. It is written after what it refers to, and read by the
next driver and by those who tidy up. Without a hint, or with one that does not hold, the open tail is read again. Whoever may write below
the sink's state can write a hint: it is checked whole before any of it is used, and names states in the sink's own folder only.

A state is a JSON document with bytes in it, that is whole or of no use:

    `KS3OPEN2` | length of the document, 4 bytes | document | the bytes, one after the other | SHA-256 of all before

In the document `{"$bytes": [at, length]}` stands for bytes. `identity` is the configuration's fingerprint, `table` that of the topic's
Delta table: state is only ever continued by the version and configuration that wrote it, and under the same columns.

A state may be larger than the memory of the task. What waits on local disk is sent from there, and a large state is read to local disk,
where it waits on: the uploads that go on with it read their parts from its file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Final, TypeAlias

from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.spill import Spilled, SpillFile, read_back, read_through, spilled
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.tasks import OpenState, Tail
from kafka_s3.objects.format import CannotPause
from kafka_s3.store.store import ObjectStore

MAGIC: Final = b"KS3OPEN2"
ANY_MAGIC: Final = MAGIC[:-1]
"""What a state of any version begins with; the document and its uploads were always at the same place."""
FORMAT: Final = 2
LENGTH: Final = 4
HEAD: Final = len(MAGIC) + LENGTH
CHECKSUM: Final = 32
MOST_BYTES: Final = 512 << 20
"""More than that is read again rather than kept."""
IN_MEMORY: Final = 4 << 20
"""Of the bytes that are made for a state so many wait in memory; a state of so many is read in one go."""
FETCHED_BYTES: Final = 8 << 20
"""A larger state is read in such pieces."""
DIFFERS: Final = {"identity": "configuration or version", "table": "schema of the table"}
"""What a state's members are called where they differ."""
OF_ANOTHER: Final = "it is of another "
NEW_TABLE_SCHEMA: Final = OF_ANOTHER + DIFFERS["table"]
"""Why a state cannot go on where the sink itself has given its table another schema since: nothing is the matter then."""
DAMAGED: Final = "it is damaged"
_BYTES: Final = "$bytes"


class StateUnusable(SinkError):
    """Open files cannot be continued; the text is a clause that says why."""


class StateBytes:
    """The bytes of a state, one after the other. Those on local disk stay there, and so do most of those that are made for the state."""

    def __init__(self, folder: PathLike[str]) -> None:
        self.pieces: list[Bytes | Spilled] = []
        self.length = 0
        self._disk = SpillFile(folder)
        self._held = 0

    def add(self, pieces: Iterable[Bytes | Spilled]) -> dict[str, list[int]]:
        """Adds what waits somewhere already; gives the reference to it for the document. Raises CannotPause where it is too much."""
        begin = self.length
        for piece in pieces:
            self.pieces.append(piece)
            self.length += piece.size if isinstance(piece, Spilled) else len(piece)
        if self.length > MOST_BYTES:
            raise CannotPause(f"open files hold {self.length} bytes, more than {MOST_BYTES}")
        return self.since(begin)

    def keep(self, pieces: Collection[Bytes]) -> dict[str, list[int]]:
        """Adds what nobody else holds, as `add` does: on local disk where it would be much in memory. Raises LocalDiskError."""
        size = sum(map(len, pieces))
        if self._held + size > IN_MEMORY:
            return self.add([spilled(self._disk, pieces, f"{size} bytes of open files")])
        self._held += size
        return self.add([b"".join(pieces)])

    def since(self, begin: int) -> dict[str, list[int]]:
        """The reference for the document to all that was added since the length was `begin`."""
        return {_BYTES: [begin, self.length - begin]}

    def placed(self, paused: Any) -> Any:
        """What is paused, its bytes kept here."""
        if isinstance(paused, bytes | bytearray | memoryview):
            return self.keep([paused])
        if isinstance(paused, Mapping):
            return {name: self.placed(value) for name, value in paused.items()}
        return [self.placed(value) for value in paused] if isinstance(paused, list | tuple) else paused


class StateContent:
    """The object of a document and its bytes, which are read while it is sent (`store.store.Streamed`)."""

    def __init__(self, document: Mapping[str, Any], content: StateBytes) -> None:
        """Raises CannotPause where it would be too large, OSError where local disk cannot be read."""
        text = json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()
        size = len(text) + content.length
        if size > MOST_BYTES:
            raise CannotPause(f"open files hold {size} bytes, more than {MOST_BYTES}")
        digest = hashlib.sha256()
        self._pieces = [MAGIC + len(text).to_bytes(LENGTH, "big") + text, *content.pieces]
        for piece in read_through(self._pieces):
            digest.update(piece)
        self._pieces.append(digest.digest())
        self._length = HEAD + size + CHECKSUM

    def __len__(self) -> int:
        return self._length

    def pieces(self) -> Iterator[Bytes]:
        """All of it, from the beginning. Raises OSError."""
        return read_through(self._pieces)


@contextmanager
def opened_state(store: ObjectStore, state: OpenState, folder: PathLike[str]) -> Iterator[dict[str, Any]]:
    """The document of a state; its bytes are `Bytes`, or `Spilled` below a folder for as long as this lasts or somebody takes a `share`.

    Raises StateUnusable, ObjectMissing, StorageError, LocalDiskError.
    """
    if state.bytes <= IN_MEMORY:
        content = memoryview(store.get(state.key))
        digest = hashlib.sha256(content[:-CHECKSUM])
        yield _document(lambda begin, end: bytes(content[begin:end]), len(content), digest.digest())
        return
    digest, file = hashlib.sha256(), SpillFile(folder)
    whole = spilled(file, _fetched(store, state, digest.update), f"{state.bytes} bytes of open files")
    try:
        yield _document(lambda begin, end: Spilled(file, begin, end), whole.size, digest.digest())
    finally:
        file.drop()


def _fetched(store: ObjectStore, state: OpenState, seen: Callable[[bytes], None]) -> Iterator[bytes]:
    """A state piece by piece; all but its checksum is `seen`. Raises StateUnusable where it is not as long as was noted, StorageError."""
    info = store.head(state.key)
    if info is None:
        raise ObjectMissing(f"There is no object {state.key}.")
    if info.size != state.bytes:
        raise StateUnusable(DAMAGED)
    for first in range(0, state.bytes, FETCHED_BYTES):
        end = min(first + FETCHED_BYTES, state.bytes)
        piece = store.get_range(state.key, first, end - 1)
        seen(piece[: max(state.bytes - CHECKSUM - first, 0)])
        yield piece


def _document(read: Callable[[int, int], Bytes | Spilled], size: int, digest: bytes) -> dict[str, Any]:
    head = in_memory(read(0, min(HEAD, size)))
    if not head.startswith(MAGIC):
        raise StateUnusable("it is not a state of open files, or one of another version")
    if in_memory(read(size - CHECKSUM, size)) != digest:
        raise StateUnusable(DAMAGED)
    end = HEAD + int.from_bytes(head[len(MAGIC) :], "big")

    def filled(value: dict[str, Any]) -> Any:
        if set(value) != {_BYTES}:
            return value
        at, length = value[_BYTES]
        return read(end + at, end + at + length)

    document: dict[str, Any] = json.loads(in_memory(read(HEAD, end)), object_hook=filled)
    if document.get("format") != FORMAT:
        raise StateUnusable(f"it has format {document.get('format')}, and this version reads {FORMAT}")
    return document


def in_memory(paused: Any) -> Any:
    """What is paused, its bytes in memory. Raises OSError."""
    if isinstance(paused, Spilled):
        return read_back([paused])[0]
    if isinstance(paused, dict):
        return {name: in_memory(value) for name, value in paused.items()}
    return [in_memory(value) for value in paused] if isinstance(paused, list) else paused


def check_state(document: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Compares what a state says of itself with what is wanted of it. Raises StateUnusable for the first difference."""
    for name, value in expected.items():
        if document.get(name) != value:
            raise StateUnusable(OF_ANOTHER + DIFFERS.get(name, name))


def check_uploads(uploads: Iterable[tuple[str, str]], store: ObjectStore) -> None:
    """Looks whether these uploads (key, id) are still pending. Raises StateUnusable, StorageUnavailable."""
    for key, upload_id in uploads:
        if not store.upload_exists(key, upload_id):
            raise StateUnusable(f"the upload of {key} is gone")


def state_uploads(key: str, store: ObjectStore) -> list[tuple[str, str]]:
    """The uploads (key, id) of the state at a key, none where it cannot be read; its bytes are not fetched. Raises StorageError."""
    return _listed_uploads(key, store, "uploads")


def begun_uploads(key: str, store: ObjectStore) -> list[tuple[str, str]]:
    """Those of its uploads that its own task began; the others it took over from an earlier state. Raises StorageError."""
    return _listed_uploads(key, store, "begun")


def _listed_uploads(key: str, store: ObjectStore, name: str) -> list[tuple[str, str]]:
    begin = store.get_range(key, 0, HEAD - 1)
    if not begin.startswith(ANY_MAGIC) or len(begin) < HEAD:
        return []
    length = int.from_bytes(begin[len(MAGIC) :], "big")
    try:
        document = json.loads(store.get_range(key, HEAD, HEAD + length - 1))
        return [(upload_key, upload_id) for upload_key, upload_id in document[name]]
    except (ValueError, KeyError, TypeError):
        return []


ListUploads: TypeAlias = Callable[[str, ObjectStore], list[tuple[str, str]]]
HINT_FORMAT: Final = 2
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
    | driver, after a failed task | any that does not go on | any | none: `loop.open_states` judges what is pending | up to its own |
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
            if document["format"] != HINT_FORMAT:
                raise ValueError(f"it has format {document['format']!r}, and this version reads {HINT_FORMAT}")
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
        """Writes the hint again. Raises StorageError."""
        document = {"format": HINT_FORMAT, "open": [asdict(one) for one in hinted]}
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
        raise ValueError(f"{hinted.state.key!r:.100} is not a state of {tp}")
    if not 0 <= hinted.state.frontier <= hinted.state.examined:
        raise ValueError(f"offsets {hinted.state.frontier} to {hinted.state.examined} are not range")
    return hinted


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not text")
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
