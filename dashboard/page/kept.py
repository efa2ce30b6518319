"""What was worked out already? Figures of half a million files are kept as long as the log says the same, for all sessions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeVar

MOST: Final = 64
T = TypeVar("T")


class KeptResults:
    """Results by their key, of one state of a log: another state begins anew, and beyond `most` the one used longest ago goes.

    Thread-safe; whoever asks at once may work it out twice.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._state: object = None
        self._results: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, state: object, key: Hashable, *, make: Callable[[], T]) -> T:
        """The result of this key for this state (told by its identity), made if it is not there."""
        with self._lock:
            if self._state is not state:
                self._state, self._results = state, OrderedDict()
            results = self._results
            if key in results:
                results.move_to_end(key)
                found: T = results[key]
                return found
        made = make()
        with self._lock:
            results[key] = made
            while len(results) > self._most:
                results.popitem(last=False)
        return made
