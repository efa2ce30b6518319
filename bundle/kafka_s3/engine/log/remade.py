"""What does an entry say of objects that had to be made again, or could not be? Parts and size of what is there now, and gaps.

A new upload has another token, and a compressed file that was kept open between tasks has other bytes than one that is written in one go:
a start, and what reads by size (`verify`, Delta tables), would take the object for another one. So the entry is put again, with the same
commit id, before the new uploads are completed. While a driver is being replaced two may make the same object:
`<state.prefix>/<sink>/again/%020d-<hash of the lost upload>.json` is put with `If-None-Match: *` first, and the facts that are there count
for both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, file_document, file_of
from kafka_s3.engine.log.fold import UNPUBLISHED
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import PreconditionFailed
from kafka_s3.model.files import DataFile, Role, counted
from kafka_s3.model.offsets import Gap, OffsetSet
from kafka_s3.store.store import ObjectStore, abort_uploads

_HOLDING: Final = frozenset({Role.VALUE, Role.KEY, Role.DEAD_LETTER})


@dataclass(frozen=True, slots=True)
class Remade:
    """Files that were made again, with their new uploads, and those that are lost: neither upload nor records are there any more.

    A file that is in neither is left out on purpose: its records are going to be read again.
    """

    files: Sequence[DataFile] = ()
    lost: Sequence[DataFile] = ()


Remake = Callable[[CommitEntry, list[DataFile]], Remade]
"""Makes files of an entry again whose uploads are gone. Raises OffsetsLost, CommitError where that cannot be done."""


def with_files(entry: CommitEntry, files: Iterable[DataFile]) -> CommitEntry:
    """The entry with these in place of its own of the same keys, and totals to match."""
    again = {file.key: file for file in files}
    found = tuple(again.get(file.key, file) for file in entry.files)
    if entry.kind is EntryKind.REWRITE:
        return replace(entry, files=found)
    more = sum(file.bytes for file in counted(found)) - sum(file.bytes for file in counted(entry.files))
    return replace(entry, files=found, totals=replace(entry.totals, bytes=entry.totals.bytes + more))


def agree_on_remade(
    store: ObjectStore, paths: StatePaths, entry: CommitEntry, *, made: Iterable[DataFile]
) -> list[DataFile]:
    """What counts of files that were made again: ours, or those of a driver that was first; then our uploads end. Raises StorageError."""
    before = {file.key: file for file in entry.files}
    found = []
    for file in made:
        lost = hashlib.sha256(before[file.key].upload.id.encode()).hexdigest()
        key = paths.remade(entry.version, lost)
        try:
            store.put_new(key, json.dumps(file_document(file), separators=(",", ":")).encode())
        except PreconditionFailed:
            first = file_of(json.loads(store.get(key)))
            if first.upload.id != file.upload.id:
                abort_uploads(store, [file])
            file = first
        found.append(file)
    return found


def gaps_of_lost(entry: CommitEntry, lost: Sequence[DataFile]) -> list[Gap]:
    """The offsets of an entry's records that lost files held; sidecars of a file that is there hold no records of their own."""
    spans = {(file.topic_partition, file.first_offset, file.last_offset) for file in lost if file.role in _HOLDING}
    gaps: list[Gap] = []
    for tp, first, last in sorted(spans):
        whole = OffsetSet(((first, last),))
        replayed = entry.kind is EntryKind.REPLAY
        inside = entry.resolved.get(tp, whole).since(first).before(last + 1) if replayed else whole
        gaps += [Gap(*tp, *ends, UNPUBLISHED) for ends in inside.ranges]
    return gaps
