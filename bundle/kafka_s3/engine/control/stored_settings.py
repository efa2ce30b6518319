"""What of a sink's settings lies beside its log? The configuration that is stored for later starts, and notes of what was in effect.

`<state.prefix>/<sink>/config.json` is the configuration as it was written; its secrets are references. Each start notes what is in effect
in `settings/<epoch>.json`, if it is new: every setting as a user would write it, secrets and resolved references masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from kafka_s3.connect.config.options.table import presentable
from kafka_s3.engine.control.heartbeat import read_document
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing, PreconditionFailed, Problem
from kafka_s3.model.text import MASK
from kafka_s3.store.store import ObjectStore

_REFERENCE: Final = re.compile(r"\$\{[A-Za-z][A-Za-z0-9_-]*:[^}]*\}")
_USER_INFO: Final = re.compile(r"(?<=//)([^/@\s]+)@")
_JAAS_OPTION: Final = re.compile(r"([A-Za-z][\w.]*)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|[^\s;]+)")
_JAAS_OPEN: Final = frozenset(
    {"username", "serviceName", "principal", "useKeyTab", "storeKey", "keyTab", "useTicketCache", "refreshKrb5Config"}
)
_REMEDY: Final = (
    "Write a reference instead, such as ${env:NAME} or ${secrets:scope/key}; it is looked up when the sink starts."
)
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


# ------------------------------------------------------------ the stored configuration


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A configuration as it was written, with what of the worker's file matters to it; its secrets are references."""

    name: str
    created_at: str
    product: str
    config: Mapping[str, str]
    worker: Mapping[str, str]


def store_config(store: ObjectStore, paths: StatePaths, stored: StoredConfig) -> bool:
    """Stores the first configuration of a sink; False, and nothing changed, where it has one."""
    try:
        store.put_new(paths.config(), _config_json(stored))
    except PreconditionFailed:
        return read_stored_config(store, paths) == stored  # after a lost answer it is our own
    return True


def replace_config(store: ObjectStore, paths: StatePaths, stored: StoredConfig) -> None:
    """Stores a configuration in place of another."""
    store.put(paths.config(), _config_json(stored))


def read_stored_config(store: ObjectStore, paths: StatePaths) -> StoredConfig | None:
    """The stored configuration, None where there is none. Raises LogDamaged where it cannot be read, StorageError."""

    def parse(document: dict[str, Any]) -> StoredConfig:
        return StoredConfig(**{name: document[name] for name in StoredConfig.__dataclass_fields__})

    remedy = "Write it again with `kafka-s3 create CONFIG --replace`."
    return read_document(store, paths.config(), parse, what="Stored configuration", remedy=remedy)


def plain_secrets(texts: Mapping[str, str]) -> Iterator[Problem]:
    """The settings with a secret in clear: each has to become a reference before the settings may lie in a bucket."""
    for key, text in texts.items():
        if text.strip() and not _is_open(key, text):
            yield Problem(key, MASK, "holds a secret in clear, and no secret is ever put into the bucket.", _REMEDY)


def _is_open(key: str, text: str) -> bool:
    """Whether nothing secret is in a text but by reference."""
    if presentable(key, "any") == "any":  # not a secret as a whole, but an address may hold user and password
        return all(_harmless(found) for found in _USER_INFO.findall(_REFERENCE.sub("", text)))
    if _REFERENCE.fullmatch(text.strip()):
        return True
    if key.endswith("jaas.config"):
        options = [(name, value.strip('"')) for name, value in _JAAS_OPTION.findall(text)]
        return bool(options) and all(name in _JAAS_OPEN or _REFERENCE.fullmatch(value) for name, value in options)
    return False


def _harmless(user_info: str) -> bool:
    _, separator, password = user_info.partition(":")
    return bool(separator) and not password


def _config_json(stored: StoredConfig) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(stored)}, indent=1).encode()
