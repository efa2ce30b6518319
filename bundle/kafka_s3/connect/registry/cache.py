"""How is an answer of a registry kept for the next who asks, without keeping every answer for ever?"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kafka_s3.model.errors import UnknownSchema

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


class _Unknown(str):
    """Kept in place of an answer: the registry answered, in these words, that there is none."""


class AnswerCache(Generic[V]):
    """The answers of a registry by key, within the bounds of a `BoundedCache`; that it knows none is kept for `negative_ttl_s` seconds.

    Safe for threads; one of them asks at a time, under the lock `requests`.
    """

    def __init__(
        self, size: int, *, negative_ttl_s: float, clock: Callable[[], float], requests: threading.RLock | None = None
    ) -> None:
        self._negative_ttl_s = negative_ttl_s
        self._kept: BoundedCache[V | _Unknown] = BoundedCache(size, clock=clock)
        self._requests = requests or threading.RLock()

    def get(self, key: Hashable, ask: Callable[[], V], *, ttl_s: float = math.inf) -> V:
        """The answer, which `ask` gets where it is not kept, and which is kept for `ttl_s` seconds. Raises what `ask` raises."""
        found = self._kept.get(key)
        if found is None:
            with self._requests:
                found = self._kept.get(key)  # another thread may have asked while this one waited
                if found is None:
                    try:
                        found = ask()
                    except UnknownSchema as error:
                        self._kept.put(key, _Unknown(error), ttl_s=self._negative_ttl_s)
                        raise
                    self._kept.put(key, found, ttl_s=ttl_s)
        if isinstance(found, _Unknown):
            raise UnknownSchema(str(found))
        return found
