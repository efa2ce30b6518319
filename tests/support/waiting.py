"""How do tests wait? For a condition, with a generous limit, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], *, seconds: float = 240, what: Callable[[], str] = str) -> None:
    """Waits until it holds, or fails with what is there instead. Asks often at first, for most things are there at once."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(pause)
        pause = min(2 * pause, 0.2)
