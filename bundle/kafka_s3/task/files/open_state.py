"""What does the object hold in which a task keeps its open files? A JSON document with bytes in it, that is whole or of no use.

    `KS3OPEN1` | length of the document, 4 bytes | document | the bytes, one after the other | SHA-256 of all before

In the document `{"$bytes": [at, length]}` stands for bytes. `identity` is the configuration's fingerprint, `table` that of the topic's
Delta table: state is only ever continued by the version and configuration that wrote it, and under the same columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from kafka_s3.formats.format import CannotPause
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.storage.store import ObjectStore

MAGIC: Final = b"KS3OPEN1"
FORMAT: Final = 1
LENGTH: Final = 4
CHECKSUM: Final = 32
MOST_BYTES: Final = 512 << 20
"""More than that is read again rather than kept."""
DIFFERS: Final = {"identity": "configuration or version", "table": "schema of the table"}
"""What a state's members are called where they differ."""
OF_ANOTHER: Final = "it is of another "
NEW_TABLE_SCHEMA: Final = OF_ANOTHER + DIFFERS["table"]
"""Why a state cannot go on where the sink itself has given its table another schema since: nothing is the matter then."""
_BYTES: Final = "$bytes"


class StateUnusable(SinkError):
    """Open files cannot be continued; the text is a clause that says why."""


def state_content(document: Mapping[str, Any]) -> bytes:
    """The object of a document. Raises CannotPause where it would be too large."""
    parts: list[bytes] = []
    length = 0

    def placed(value: bytes | bytearray) -> dict[str, list[int]]:
        nonlocal length
        parts.append(bytes(value))
        length += len(value)
        return {_BYTES: [length - len(value), len(value)]}

    text = json.dumps({"format": FORMAT, **document}, default=placed, separators=(",", ":")).encode()
    if length + len(text) > MOST_BYTES:
        raise CannotPause(f"open files hold {length + len(text)} bytes, more than {MOST_BYTES}")
    content = b"".join([MAGIC, len(text).to_bytes(LENGTH, "big"), text, *parts])
    return content + hashlib.sha256(content).digest()


def state_document(content: bytes) -> dict[str, Any]:
    """The document of an object. Raises StateUnusable."""
    whole, checksum = content[:-CHECKSUM], content[-CHECKSUM:]
    if not whole.startswith(MAGIC):
        raise StateUnusable("it is no state of open files, or one of another version")
    if hashlib.sha256(whole).digest() != checksum:
        raise StateUnusable("it is damaged")
    begin = len(MAGIC) + LENGTH
    end = begin + int.from_bytes(whole[len(MAGIC) : begin], "big")
    payload = memoryview(whole)[end:]

    def filled(value: dict[str, Any]) -> Any:
        if set(value) != {_BYTES}:
            return value
        at, length = value[_BYTES]
        return bytes(payload[at : at + length])

    document: dict[str, Any] = json.loads(whole[begin:end], object_hook=filled)
    if document.get("format") != FORMAT:
        raise StateUnusable(f"it has format {document.get('format')}, and this version reads {FORMAT}")
    return document


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
    return _listed(key, store, "uploads")


def _listed(key: str, store: ObjectStore, name: str) -> list[tuple[str, str]]:
    head = len(MAGIC) + LENGTH
    begin = store.get_range(key, 0, head - 1)
    if not begin.startswith(MAGIC) or len(begin) < head:
        return []
    length = int.from_bytes(begin[len(MAGIC) :], "big")
    try:
        document = json.loads(store.get_range(key, head, head + length - 1))
        return [(upload_key, upload_id) for upload_key, upload_id in document[name]]
    except (ValueError, KeyError, TypeError):
        return []


def drop_state(key: str, store: ObjectStore) -> None:
    """Removes a state that nobody continues, and ends its uploads. No error where it is gone. Raises StorageError."""
    _drop(key, store, "uploads", ())


def drop_unused_state(key: str, store: ObjectStore, spared: Collection[tuple[str, str]] = ()) -> None:
    """Removes a state that never held, and ends the uploads that its own task began but for those (key, id) that are `spared`.

    What that task took over is left: another state may go on with it. No error where it is gone. Raises StorageError.
    """
    _drop(key, store, "begun", spared)


def _drop(key: str, store: ObjectStore, name: str, spared: Collection[tuple[str, str]]) -> None:
    try:
        for upload_key, upload_id in _listed(key, store, name):
            if (upload_key, upload_id) not in spared:
                store.abort_upload(upload_key, upload_id)
    except ObjectMissing:
        return
    store.delete(key)
