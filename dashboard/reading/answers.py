"""How does a page ask the bucket for something special, an entry or a file, without waiting for it? Threads ask; pages come again.

An answer is kept for all who ask the same: it is read once, however many look.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

PATIENCE_S: Final = 1.0
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
        self, key: Hashable, make: Callable[[], T], *, again_s: float = math.inf, wait_s: float = PATIENCE_S
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
        """Ends the threads."""
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
