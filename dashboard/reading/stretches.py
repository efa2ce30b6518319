"""Which closed stretches of a log are there as tables? Fetched newest first, some ahead of who takes them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from kafka_s3.engine.log.history import Tables, known_stretches, tables_or_none
from kafka_s3.engine.log.reading import Stretch
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.store.store import ObjectStore
from reading.frames import LogPart, part_of_tables

AHEAD: Final = 4
"""Stretches that are fetched before they are asked for."""


class Stretches:
    """The stretches of one log. What is of no use is left out as it is met."""

    def __init__(self, store: ObjectStore, paths: StatePaths, pool: ThreadPoolExecutor) -> None:
        self._store, self._paths, self._pool = store, paths, pool
        self._coming: dict[int, Future[Tables | None]] = {}
        self._known: dict[int, Stretch] | None = None

    def end_below(self, version: int) -> int:
        """Behind the last version below this one that is in a stretch, 0 where none is. Raises StorageError."""
        return max((one.last + 1 for one in self._stretches().values() if one.last < version), default=0)

    def holding(self, version: int) -> Stretch | None:
        """The stretch with this version, None where none has it. Raises StorageError."""
        return next((one for one in self._stretches().values() if one.first <= version <= one.last), None)

    def take(self, stretch: Stretch) -> LogPart | None:
        """A stretch; None, with a line why, where it has to be read entry by entry. Raises StorageError."""
        before = [one for one in self._stretches().values() if one.last <= stretch.last]
        for one in before[-AHEAD:]:
            if one.last not in self._coming:
                self._coming[one.last] = self._pool.submit(tables_or_none, self._store, self._paths, one)
        tables = self._coming.pop(stretch.last).result()
        if tables is None:
            del self._stretches()[stretch.last]
            return None
        return part_of_tables(tables, first=stretch.first, last=stretch.last)

    def _stretches(self) -> dict[int, Stretch]:
        """By their last version, in order."""
        if self._known is None:
            self._known = {one.last: one for one in known_stretches(self._store, self._paths).stretches}
        return self._known
