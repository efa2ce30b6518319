"""How does something that happens very often become a few lines?"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Seldom:
    """Lets one of each kind through in `every_s` seconds, and counts the others. `clock` gives seconds that never go back."""

    every_s: float
    clock: Callable[[], float] = time.monotonic
    _shown_s: dict[Hashable, float] = field(default_factory=dict)
    _waiting: dict[Hashable, int] = field(default_factory=dict)

    def due(self, kind: Hashable = None, count: int = 1) -> int:
        """How many of this kind a line now stands for, these and those that went before it unseen; 0: not yet."""
        waiting, now = self._waiting.pop(kind, 0) + count, self.clock()
        if kind in self._shown_s and now - self._shown_s[kind] < self.every_s:
            self._waiting[kind] = waiting
            return 0
        self._shown_s[kind] = now
        return waiting
