"""What does the object hold in which a task keeps its open files? A JSON document with bytes in it, that is whole or of no use.

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
from pathlib import Path
from typing import Any, Final

from kafka_s3.engine.open_files.spill import Spilled, SpillFile, read_back, read_through, spilled
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.tasks import OpenState
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

    def __init__(self, folder: Path) -> None:
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
def opened_state(store: ObjectStore, state: OpenState, folder: Path) -> Iterator[dict[str, Any]]:
    """The document of a state; its bytes are `Bytes`, or `Spilled` below a folder for as long as this lasts or somebody takes a `part`.

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


def _document(part: Callable[[int, int], Bytes | Spilled], size: int, digest: bytes) -> dict[str, Any]:
    head = in_memory(part(0, min(HEAD, size)))
    if not head.startswith(MAGIC):
        raise StateUnusable("it is no state of open files, or one of another version")
    if in_memory(part(size - CHECKSUM, size)) != digest:
        raise StateUnusable(DAMAGED)
    end = HEAD + int.from_bytes(head[len(MAGIC) :], "big")

    def filled(value: dict[str, Any]) -> Any:
        if set(value) != {_BYTES}:
            return value
        at, length = value[_BYTES]
        return part(end + at, end + at + length)

    document: dict[str, Any] = json.loads(in_memory(part(HEAD, end)), object_hook=filled)
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
