"""Which state of open files did the driver note last? A hint beside the heartbeat, `<state.prefix>/<sink>/open-files.json`.

It is written after what it refers to, and read by the next driver and by those who tidy up. Nothing depends on it: without a hint, or with
one that does not hold, the open tail is read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import OpenState, Tail
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class NotedFiles:
    """The open files of one topic-partition: their state, what the planner knows of them, and the schedule's mark (epoch ms).

    `topic_id` and `fingerprint` say for which topic and configuration they are.
    """

    topic_partition: TopicPartition
    topic_id: str
    fingerprint: str
    rotation_ms: int | None
    tail: Tail
    state: OpenState


def note_open_files(noted: Iterable[NotedFiles], store: ObjectStore, paths: StatePaths) -> None:
    """Writes the hint anew. Raises StorageError."""
    document = {"format": FORMAT, "open": [asdict(one) for one in noted]}
    store.put(paths.open_files(), json.dumps(document, separators=(",", ":")).encode())


def noted_open_files(store: ObjectStore, paths: StatePaths) -> list[NotedFiles]:
    """What the hint says; nothing where there is none that can be read. Raises StorageError."""
    try:
        document = json.loads(store.get(paths.open_files()))
        return [_noted(one) for one in document["open"]] if document["format"] == FORMAT else []
    except (ObjectMissing, ValueError, KeyError, TypeError):
        return []


def _noted(document: dict[str, Any]) -> NotedFiles:
    return NotedFiles(
        **{
            **document,
            "topic_partition": TopicPartition(*document["topic_partition"]),
            "tail": Tail(**document["tail"]),
            "state": OpenState(**document["state"]),
        }
    )
