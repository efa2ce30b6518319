"""How long is the pause after something did not answer? It grows with each failure in a row, up to a longest one, with a random share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_DOUBLINGS: Final = 32  # the longest pause rules long before; an unbounded power would overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    """The first pause is `first_ms`; each further one is twice as long, `longest_ms` at most.

    A random part is taken off, so that sinks that lost the same service do not come back all at once; the share `least` is always
    waited. Where the first pause is the longest, every pause is exactly that long. `jitter` returns a number in [0, 1).
    """

    first_ms: int
    longest_ms: int
    jitter: Callable[[], float] = random.random
    least: float = 0.5

    def pause_ms(self, failures: int) -> int:
        """Milliseconds to wait after this many failures in a row, one or more."""
        if self.first_ms == self.longest_ms:
            return self.first_ms
        whole = min(self.longest_ms, self.first_ms << min(failures - 1, MOST_DOUBLINGS))
        return round(whole * (1 - self.jitter() * (1 - self.least)))
