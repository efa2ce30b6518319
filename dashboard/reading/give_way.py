"""Who goes first? Pages: reading the older entries of a log waits while one is drawn, for Python runs one thread at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock
from typing import Final

PATIENCE_S: Final = 2.0
"""No reader waits longer at a time: many visitors slow reading down, and do not stop it."""
UNDER_WAY_S: Final = 0.3
"""A page that is drawn has still to be sent."""


class GiveWay:
    """Readers ask `wait` before each piece of work; pages are drawn within `drawing`."""

    def __init__(self) -> None:
        self._lock, self._free, self._pages, self._sent = Lock(), Event(), 0, 0.0
        self._free.set()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """A page is drawn while the body runs."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def wait(self) -> None:
        """Waits until no page is drawn or on its way, and no longer than PATIENCE_S and UNDER_WAY_S."""
        self._free.wait(PATIENCE_S)
        time.sleep(max(self._sent - time.monotonic(), 0))

    def _count(self, more: int) -> None:
        with self._lock:
            self._pages += more
            if self._pages:
                self._free.clear()
            else:
                self._sent = time.monotonic() + UNDER_WAY_S
                self._free.set()


PAGES_FIRST: Final = GiveWay()
"""Of this process."""
