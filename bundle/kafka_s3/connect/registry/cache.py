"""How is an answer kept for the next who asks, without keeping every answer for ever?"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """Keeps the `size` entries last used, each until its time is up. Safe for threads; None stands for "not here"."""

    def __init__(self, size: int, *, clock: Callable[[], float]) -> None:
        self._size = max(1, size)
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The entry of the key, if it is still there."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry[1] <= self._clock():
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, *, ttl_s: float = math.inf) -> None:
        """Keeps the entry for `ttl_s` seconds of the clock."""
        with self._lock:
            self._entries[key] = (value, self._clock() + ttl_s)
            self._entries.move_to_end(key)
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
