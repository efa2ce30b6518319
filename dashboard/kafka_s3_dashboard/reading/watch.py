"""Which sinks are there, and how is each? A thread asks the bucket while somebody watches; pages take the last answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.engine.control.damage import DamagedEntries, DamageWatch
from kafka_s3.engine.control.status import READERS, SinkSnapshot, quick_snapshot_of, state_folders, with_damage
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import StorageError
from kafka_s3.store.store import ObjectStore
from kafka_s3_dashboard.reading.background import PAGES_FIRST, Background
from kafka_s3_dashboard.reading.reader import THREADS, ReadAhead

LOOK_EVERY_S: Final = 5.0
FRESH_MS: Final = 6_000
"""Whoever opens a page sees a look that is no older, if the bucket answers."""
NAMED_S: Final = 0.5
"""A first look that takes longer names the sinks that it has seen: a page can choose its sink already."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The sinks at a moment (epoch ms, 0: not looked yet); `trouble` is why the last look failed, blank if it did not."""

    sinks: tuple[SinkSnapshot, ...] = ()
    names: tuple[str, ...] = ()
    looked_ms: int = 0
    trouble: str = ""


class Watch:
    """The sinks of a bucket; close it when done."""

    def __init__(self, store: ObjectStore, prefix: str, *, clock_ms: Callable[[], int]) -> None:
        self._store, self._prefix, self._clock_ms = store, prefix, clock_ms
        self._readers = ThreadPoolExecutor(THREADS, thread_name_prefix="read sinks")
        self._sinks: dict[str, ReadAhead] = {}
        self._damage = DamageWatch(store)
        self._damaged: dict[str, list[DamagedEntries]] = {}
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="search for damage")
        self._searching: Future[None] | None = None
        self.sight = Sight()
        self._background = Background("watch", self._poll, failed=self._failed, pause_s=lambda: LOOK_EVERY_S)

    def ask(self, seconds: float) -> Sight:
        """The last answer, waiting these seconds for the first one; a fresh look begins behind it."""
        self._background.ask()
        self._background.wait(seconds)
        return self.sight

    def ask_fresh(self, seconds: float) -> Sight:
        """A look that is no older than FRESH_MS, or what there is after these seconds."""
        since_ms, before = self._clock_ms() - FRESH_MS, self.sight

        def holds() -> bool:
            """A new look, or the next one failed."""
            now = self.sight
            return now.looked_ms >= since_ms or (now is not before and bool(now.trouble))

        self._background.wait_until(holds, seconds)
        return self.sight

    def close(self) -> None:
        self._background.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._searcher.shutdown(wait=False, cancel_futures=True)

    def _failed(self, trouble: str) -> None:
        self.sight = replace(self.sight, trouble=trouble)

    def _poll(self) -> None:
        began, began_ms = time.monotonic(), self._clock_ms()
        folders = state_folders(self._store, self._prefix)
        for name in folders:
            self._sinks.setdefault(name, ReadAhead(self._store, self._readers))
        known: list[SinkSnapshot] = []
        with ThreadPoolExecutor(READERS) as pool:
            for one in filter(None, pool.map(self._known, folders)):
                known.append(one)
                if not self.sight.names and time.monotonic() - began > NAMED_S:
                    self.sight = replace(self.sight, names=tuple(sink.name for sink in known))
                    self._background.answered()
        self.sight = Sight(tuple(known), tuple(one.name for one in known), began_ms)
        if self._searching is None or self._searching.done():
            self._searching = self._searcher.submit(self._search, self.sight.names)

    def _search(self, names: Sequence[str]) -> None:
        """Looks for damage in the logs of sinks, behind pages and looks: an open end may have a thousand entries."""
        for name in names:
            PAGES_FIRST.wait()
            with suppress(StorageError):  # the look says so
                self._damaged[name] = self._damage.damaged_entries(StatePaths(self._prefix, name), self._clock_ms())

    def _known(self, name: str) -> SinkSnapshot | None:
        paths, now_ms = StatePaths(self._prefix, name), self._clock_ms()
        known = quick_snapshot_of(self._sinks[name], paths, seen_ms=now_ms)
        if known is None:
            return None
        known = with_damage(known, self._damaged.get(name, ()))
        if known.damage:
            self._sinks[name].forget()  # somebody may restore what is damaged
        return known
