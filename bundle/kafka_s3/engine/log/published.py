"""Which entry's objects are all visible? What was published once is the bucket's, and no start touches it again.

That an entry has a successor says that it is published, but for the files that the successor names as waiting. Of the last one, and of what
it names, a marker says it: `<state.prefix>/<sink>/published/%020d.json`, one object per epoch, written over with each entry of that epoch
whose objects are visible. A driver that was replaced writes into the marker of its own epoch alone, so it never takes back what its
successor has noted.
"""

from __future__ import annotations

import json

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectStore


def mark_published(store: ObjectStore, paths: StatePaths, entry: CommitEntry) -> None:
    """Notes that the objects of an entry, and those that waited, are visible; without any there is nothing to note. Raises StorageError."""
    if entry.uncompleted:
        marker = {"version": entry.version, "commit_id": entry.commit_id}
        store.put(paths.published(entry.epoch), json.dumps(marker, separators=(",", ":")).encode())


def is_published(store: ObjectStore, paths: StatePaths, entry: CommitEntry) -> bool:
    """Whether the objects that a log's last entry names are known to be visible. Raises LogDamaged, StorageError."""
    if not entry.uncompleted:
        return True
    key = paths.published(entry.epoch)
    try:
        return str(json.loads(store.get(key))["commit_id"]) == entry.commit_id
    except ObjectMissing:
        return False
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"The marker {key} cannot be read ({type(error).__name__}). Delete it: the uploads of entry {entry.version} are then looked at "
            "once more."
        ) from error
