"""How far have the tables over a sink's objects come? What each follower that keeps tables notes beside the log, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.progress import HeldTable, TablePositions, read_positions
from kafka_s3.model.errors import LogDamaged
from kafka_s3.store.store import ObjectStore

DELTA: Final = "Delta"
ICEBERG: Final = "Iceberg"
FORMATS: Final[Mapping[str, str]] = {"delta": DELTA, "delta-spark": "Delta, by Spark", "iceberg": ICEBERG}
"""How notes of tables are called, up to a digest, and what they are about."""
Noted = Mapping[str, TablePositions | str]
"""What is noted of the tables of each format; a text says why it cannot be read."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """How far one topic's table has come.

    It is complete through entry `position` of the log (-1: it has none, None: nobody says it), but for `left_out` objects that stay out of
    it. `held` says why it does not follow, and since when; None where it follows.
    """

    topic: str
    format: str
    position: int | None
    held: HeldTable | None = None
    left_out: tuple[str, ...] = ()


def read_noted(store: ObjectStore, paths: StatePaths) -> Noted:
    """What is noted of a sink's tables, by format. Raises StorageError."""
    folder = paths.follower("").removesuffix(".json")
    found: dict[str, TablePositions | str] = {}
    for name in store.names(folder):
        stem, dot, kind = name.rpartition(".")
        about = next((FORMATS[one] for one in sorted(FORMATS, key=len, reverse=True) if _is_of(stem, one)), None)
        if not dot or kind != "json" or about is None:
            continue
        try:
            noted = read_positions(store, f"{folder}{name}")
        except LogDamaged as error:
            found[about] = str(error)
            continue
        before = found.get(about)
        if (
            not isinstance(before, TablePositions) or before.version < noted.version
        ):  # tables of another name are no longer kept
            found[about] = noted
    return found


def _is_of(stem: str, name: str) -> bool:
    """Whether a note is of these tables: of copies under several names each has a digest."""
    return stem == name or stem.startswith(f"{name}-")
