"""A clock that only the test moves: on, as time does, or by a jump, as a host does whose clock is set."""

from __future__ import annotations

from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass
class MovingClock:
    """`true_ms` is the time everywhere else; the driver sees it `set_off_ms` wrong."""

    true_ms: int
    set_off_ms: int = 0

    def __call__(self) -> int:
        return self.true_ms + self.set_off_ms

    def advance(self, ms: int) -> None:
        """Time passes."""
        self.true_ms += ms

    def jump(self, ms: int) -> None:
        """The driver's clock is set forward, or back by a negative number."""
        self.set_off_ms += ms
