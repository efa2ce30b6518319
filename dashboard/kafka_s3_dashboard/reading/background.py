"""How do pages get what a bucket says without waiting for it? A thread looks while somebody asks; pages take what it found last.

Of something special, an entry or a file, threads ask, and pages come again. Such an answer is kept for all who ask the same: it is read
once, however many look. Pages go first: reading the older entries of a log waits while one is drawn, for Python runs one thread at a time.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Event, Lock, Thread
from typing import Any, Final, TypeVar

from kafka_s3.model.errors import SinkError, reason_of

PATIENCE_S: Final = 2.0
"""No reader waits longer at a time: many visitors slow reading down, and do not stop it."""
UNDER_WAY_S: Final = 0.3
"""A page that is drawn has still to be sent."""


class GiveWay:
    """Readers ask `wait` before each piece of work; pages are drawn within `drawing`."""

    def __init__(self) -> None:
        self._lock, self._free = Lock(), Event()
        self._pages, self._in_need, self._sent = 0, 0, 0.0
        self._free.set()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """A page is drawn while the body runs."""
        self._count(pages=1)
        try:
            yield
        finally:
            self._count(pages=-1)

    @contextmanager
    def in_need(self) -> Iterator[None]:
        """What is drawn waits for a reader while the body runs: nobody gives way."""
        self._count(in_need=1)
        try:
            yield
        finally:
            self._count(in_need=-1)

    def wait(self) -> None:
        """Waits until no page is drawn or on its way, and no longer than PATIENCE_S and UNDER_WAY_S."""
        self._free.wait(PATIENCE_S)
        time.sleep(0 if self._in_need else max(self._sent - time.monotonic(), 0))

    def _count(self, *, pages: int = 0, in_need: int = 0) -> None:
        with self._lock:
            self._pages, self._in_need = self._pages + pages, self._in_need + in_need
            if not self._pages and pages:
                self._sent = time.monotonic() + UNDER_WAY_S
            if self._pages and not self._in_need:
                self._free.clear()
            else:
                self._free.set()


PAGES_FIRST: Final = GiveWay()
"""Of this process."""


_log = logging.getLogger(__name__)


class Background:
    """A thread that calls `look` once for each time that somebody has asked, and rests `pause_s()` seconds in between.

    `failed` learns why a look failed; the thread goes on, for a page must never wait for one that is gone.
    """

    def __init__(
        self, name: str, look: Callable[[], None], *, failed: Callable[[str], None], pause_s: Callable[[], float]
    ) -> None:
        self._poll, self._failed, self._pause_s = look, failed, pause_s
        self._asked, self._over, self._first = Event(), Event(), Event()
        self._changed = Condition()
        self._began = time.monotonic()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Has it look, now or when it has rested."""
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Waits for the first answer, at most so long after the beginning: whoever comes later finds a bucket that does not answer."""
        self._first.wait(max(self._began + seconds - time.monotonic(), 0))

    def wait_until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Asks, and waits until it holds, at most so long; the look gives way to no page meanwhile."""
        self.ask()
        if not holds():
            with PAGES_FIRST.in_need(), self._changed:
                self._changed.wait_for(holds, seconds)

    def answered(self) -> None:
        """There is something to show."""
        self._first.set()
        with self._changed:
            self._changed.notify_all()

    @property
    def asked(self) -> bool:
        """Whether somebody has asked since the last look began."""
        return self._asked.is_set()

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def close(self) -> None:
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


FIRST_S: Final = 1.0
"""A first answer is waited for so long, from the first question on."""
FAILED_S: Final = 5.0
"""What failed is asked again after this time."""
T = TypeVar("T")


@dataclass(slots=True)
class _Held:
    """A question: when it was asked last, the answer that is on its way, and the one before."""

    asked_s: float
    coming: Future[Any]
    before: Future[Any] | None = None


class Answers:
    """The `most` answers that were asked for last, got by so many threads; close it when done. Thread-safe."""

    def __init__(self, name: str, *, threads: int, most: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most, self._clock_s, self._lock = most, clock_s, Lock()
        self._held: OrderedDict[Hashable, _Held] = OrderedDict()

    def of(
        self, key: Hashable, make: Callable[[], T], *, again_s: float = math.inf, wait_s: float = FIRST_S
    ) -> T | None:
        """The answer to a question, None while there is none yet; raises what `make` raised.

        Only the first answer is waited for. One that is older than `again_s` is given while a newer one is on its way.
        """
        held = self._asked(key, make, again_s)
        if held.before is not None and not held.coming.done():
            before: T = held.before.result()
            return before
        try:
            found: T = held.coming.result(max(held.asked_s + wait_s - self._clock_s(), 0))
        except TimeoutError:
            return None
        return found

    def ready(self, key: Hashable) -> bool:
        """Whether nothing is on its way of what was asked."""
        with self._lock:
            held = self._held.get(key)
        return held is None or held.coming.done()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _asked(self, key: Hashable, make: Callable[[], Any], again_s: float) -> _Held:
        with self._lock:
            now, held = self._clock_s(), self._held.get(key)
            if held is None:
                held = self._held[key] = _Held(now, self._pool.submit(make))
            elif held.coming.done():
                failed = held.coming.exception() is not None
                if now - held.asked_s > (FAILED_S if failed else again_s):
                    held.before, held.asked_s, held.coming = held.coming, now, self._pool.submit(make)
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)[1].coming.cancel()
            return held
