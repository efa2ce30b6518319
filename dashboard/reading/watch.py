"""Which sinks are there, and how is each? A thread asks the bucket while somebody watches; pages take the last answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.control.sinks import READERS, glance_of, sink_names
from kafka_s3.control.status import SinkSnapshot
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore
from reading.background import Background
from reading.read_ahead import THREADS, ReadAhead

LOOK_EVERY_S: Final = 5.0
NAMES_EVERY_S: Final = 30.0


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
        self._named = -NAMES_EVERY_S
        self.sight = Sight()
        self._background = Background("watch", self._poll, failed=self._told, pause_s=lambda: LOOK_EVERY_S)

    def ask(self, seconds: float) -> Sight:
        """The last answer, waiting these seconds for the first one; a fresh look begins behind it."""
        self._background.ask()
        self._background.wait(seconds)
        return self.sight

    def close(self) -> None:
        """Ends the thread."""
        self._background.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _told(self, trouble: str) -> None:
        self.sight = replace(self.sight, trouble=trouble)

    def _poll(self) -> None:
        if time.monotonic() - self._named >= NAMES_EVERY_S or not self.sight.names:
            names = tuple(sink_names(self._store, self._prefix))
            self._named = time.monotonic()
            self.sight = replace(self.sight, names=names)
            self._background.answered()  # a page can choose its sink already
        for name in self.sight.names:
            self._sinks.setdefault(name, ReadAhead(self._store, self._readers))
        with ThreadPoolExecutor(READERS) as pool:
            known = tuple(one for one in pool.map(self._known, self.sight.names) if one is not None)
        self.sight = Sight(known, self.sight.names, self._clock_ms())

    def _known(self, name: str) -> SinkSnapshot | None:
        known = glance_of(self._sinks[name], StatePaths(self._prefix, name), seen_ms=self._clock_ms())
        if known is not None and known.damage:
            self._sinks[name].forget()  # somebody may restore what is damaged
        return known
