"""Since when do the settings make of a record what they make of it now? What was written before under others cannot be compared."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.settings_notes import NotedSettings, noted

SHAPING: Final = (
    "value.converter", "key.converter", "header.converter", "transforms", "predicates", "format.", "json.decimal.format", "block.gzip.",
    "record.metadata.enable", "schema.compatibility", "behavior.on.null.values", "compatibility.strict",
)  # fmt: skip
"""What the names of settings begin with that say what a record leaves in an object."""
ACCESS: Final = (".registry.", ".auth.", ".ssl.", ".cache.")
"""What is in the names of those of them that only say where schemas are."""


def shaping_settings(settings: Settings) -> dict[str, str]:
    """The settings given that shape values, secrets masked."""
    return _shaping(noted(settings, epoch=0, at_ms=0))


def same_since(notes: Sequence[NotedSettings], now: Mapping[str, str]) -> tuple[int, list[str]]:
    """The first epoch from which on all notes say the same as now, and the settings that were others before it; 0: there were none."""
    later: int | None = None
    for note in reversed(notes):
        then = _shaping(note)
        if then != now:
            names = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
            return sys.maxsize if later is None else later, names
        later = note.epoch
    return 0, []


def first_version(epochs: Sequence[tuple[int, int]], epoch: int, *, last: int) -> int:
    """The first entry of that epoch or a later one, by the entries with which epochs begin: one behind `last` where there is none."""
    at = bisect_left(epochs, epoch, key=lambda one: one[1])
    return epochs[at][0] if at < len(epochs) else last + 1


def _shaping(note: NotedSettings) -> dict[str, str]:
    return {
        key: text for key, text in note.set.items() if key.startswith(SHAPING) and not any(one in key for one in ACCESS)
    }
