"""With which settings did a sink run, and when did they change? Each start notes beside the log what is in effect, if it is new.

`<state.prefix>/<sink>/settings/<epoch>.json` holds every setting as a user would write it, secrets and resolved references masked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectStore

FORMAT: Final = 1
NEWEST: Final = 50
"""More changes than anybody looks at."""


@dataclass(frozen=True, slots=True)
class NotedSettings:
    """The settings in effect from an epoch of the log on, noted at a time (epoch ms); `given` names those that are no defaults."""

    epoch: int
    at_ms: int
    product: str
    settings: Mapping[str, str]
    given: tuple[str, ...]

    @property
    def set(self) -> dict[str, str]:
        """Those that are no defaults."""
        return {key: self.settings[key] for key in self.given if key in self.settings}


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that was changed with an epoch; None where it is not known to that version of the product."""

    epoch: int
    at_ms: int
    key: str
    before: str | None
    after: str | None


def note_settings(store: ObjectStore, paths: StatePaths, current: NotedSettings) -> None:
    """Notes settings, unless the last note says the same. Raises StorageError."""
    keys = _keys(store, paths)
    if keys:
        try:
            last = _read(store, keys[-1])
        except LogDamaged:
            last = None
        if last is not None and (last.product, last.settings, last.given) == (
            current.product,
            current.settings,
            current.given,
        ):
            return
    text = json.dumps({"format": FORMAT, **asdict(current)}, separators=(",", ":"))
    store.put(paths.settings(current.epoch), text.encode())


def read_notes(store: ObjectStore, paths: StatePaths) -> tuple[NotedSettings, ...]:
    """The newest NEWEST notes, oldest first. Raises LogDamaged, StorageError."""
    return tuple(_read(store, key) for key in _keys(store, paths)[-NEWEST:])


def changes(notes: Sequence[NotedSettings]) -> list[SettingChange]:
    """What changed from each note to the next, newest first."""
    found = []
    for before, after in pairwise(notes):
        pairs = {"(kafka-s3)": (before.product, after.product)} if before.product != after.product else {}
        for key in sorted({*before.settings, *after.settings}):
            pairs[key] = (before.settings.get(key), after.settings.get(key))  # type: ignore[assignment]
        found += [
            SettingChange(after.epoch, after.at_ms, key, *pair) for key, pair in pairs.items() if pair[0] != pair[1]
        ]
    return sorted(found, key=lambda change: -change.epoch)


def _keys(store: ObjectStore, paths: StatePaths) -> list[str]:
    return [info.key for info in store.list(paths.settings_notes())]


def _read(store: ObjectStore, key: str) -> NotedSettings:
    try:
        document: dict[str, Any] = json.loads(store.get(key))
        known = {name: document[name] for name in NotedSettings.__dataclass_fields__}
        return NotedSettings(**{**known, "settings": dict(known["settings"]), "given": tuple(known["given"])})
    except (ObjectMissing, ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"Noted settings {key} cannot be read ({type(error).__name__}). Delete it: the sink's next start notes them again."
        ) from error
