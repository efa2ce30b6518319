"""How do tests wait? For a condition, with a generous limit, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], *, seconds: float = 240, what: Callable[[], str] = str) -> None:
    """Waits until it holds, or fails with what is there instead."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)
