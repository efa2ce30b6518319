"""How far have tables come that follow the log? One place for all of them, and one of its own for each that is behind."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectStore


@dataclass(slots=True)
class Places:
    """Up to which entry the tables have come: `version`, but for topics that are `behind`."""

    version: int = -1
    behind: dict[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """The entry up to which a topic's table has come."""
        return self.behind.get(topic, self.version)


def read_places(store: ObjectStore, key: str) -> Places:
    """The places that an object notes; the beginning where there is none. Raises LogDamaged, StorageError."""
    try:
        found = json.loads(store.get(key))
        return Places(int(found["version"]), dict(found.get("behind", {})))
    except ObjectMissing:
        return Places()
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"{key} cannot be read ({type(error).__name__}). Delete it: tables are compared with all of the log again."
        ) from error


def note_places(store: ObjectStore, key: str, places: Places) -> None:
    """Notes the places. Raises StorageError."""
    store.put(key, json.dumps(asdict(places)).encode())
