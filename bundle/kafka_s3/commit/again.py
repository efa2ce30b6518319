"""What does an entry say of objects that had to be made again? The facts of what is there now: parts and size may be others than before.

A compressed file that was kept open between tasks has other bytes than one that is written in one go; what reads by size (`verify`, Delta
tables) would take the object for one that was overwritten. So the entry is put again, with the same commit id, before the new uploads are
completed. While a driver is being replaced two may make the same object: `<state.prefix>/<sink>/again/%020d-<hash of the lost upload>.json`
is put with `If-None-Match: *` first, and the facts that are there count for both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from kafka_s3.commit.entry import CommitEntry, file_document, file_of
from kafka_s3.model.errors import PreconditionFailed
from kafka_s3.model.files import DataFile, counted
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore
from kafka_s3.storage.uploads import abort_uploads


def with_files(entry: CommitEntry, files: Iterable[DataFile]) -> CommitEntry:
    """The entry with these in place of its own of the same keys, and totals to match."""
    again = {file.key: file for file in files}
    found = tuple(again.get(file.key, file) for file in entry.files)
    more = sum(file.bytes for file in counted(found)) - sum(file.bytes for file in counted(entry.files))
    return replace(entry, files=found, totals=replace(entry.totals, bytes=entry.totals.bytes + more))


def has_other_bytes(entry: CommitEntry, made: Iterable[DataFile]) -> bool:
    """Whether an object that was made again differs from the one that the entry counts."""
    before = {file.key: file for file in entry.files}
    return any(
        (file.upload.parts, file.bytes) != (before[file.key].upload.parts, before[file.key].bytes) for file in made
    )


def agreed(store: ObjectStore, paths: StatePaths, entry: CommitEntry, *, made: Iterable[DataFile]) -> list[DataFile]:
    """What counts of files that were made again: ours, or those of a driver that was first; then our uploads end. Raises StorageError."""
    before = {file.key: file for file in entry.files}
    found = []
    for file in made:
        lost = hashlib.sha256(before[file.key].upload.id.encode()).hexdigest()
        key = paths.again(entry.version, lost)
        try:
            store.put_new(key, json.dumps(file_document(file), separators=(",", ":")).encode())
        except PreconditionFailed:
            first = file_of(json.loads(store.get(key)))
            if first.upload.id != file.upload.id:
                abort_uploads(store, [file])
            file = first
        found.append(file)
    return found
