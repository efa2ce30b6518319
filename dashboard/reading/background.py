"""How do pages get what a bucket says without waiting for it? A thread looks while somebody asks; pages take what it found last."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Final

from kafka_s3.connect.config.settings import reason_of
from kafka_s3.model.errors import SinkError

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


_log = logging.getLogger(__name__)


class Background:
    """A thread that calls `look` once for each time that somebody has asked, and rests `pause_s()` seconds in between.

    `failed` is told why a look failed; the thread goes on, for a page must never wait for one that is gone.
    """

    def __init__(
        self, name: str, look: Callable[[], None], *, failed: Callable[[str], None], pause_s: Callable[[], float]
    ) -> None:
        self._poll, self._failed, self._pause_s = look, failed, pause_s
        self._asked, self._over, self._first = Event(), Event(), Event()
        self._began = time.monotonic()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Has it look, now or when it has rested."""
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Waits for the first answer, at most so long after the beginning: whoever comes later finds a bucket that does not answer."""
        self._first.wait(max(self._began + seconds - time.monotonic(), 0))

    def answered(self) -> None:
        """There is something to show."""
        self._first.set()

    @property
    def asked(self) -> bool:
        """Whether somebody has asked since the last look began."""
        return self._asked.is_set()

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def close(self) -> None:
        """Ends the thread."""
        self._over.set()
        self._asked.set()

    def _work(self) -> None:
        while not self.closed:
            self._asked.wait()
            if self._first.is_set():
                PAGES_FIRST.wait()  # the page that asks has its answer, and is drawn now
            self._asked.clear()
            if self.closed:
                return
            try:
                self._poll()
            except SinkError as error:
                self._failed(str(error))
            except Exception as error:
                if self.closed:  # then the look's own threads refuse work
                    return
                _log.exception("Thread %s could not read.", self._thread.name)
                self._failed(reason_of(error))
            self.answered()
            self._over.wait(self._pause_s())
