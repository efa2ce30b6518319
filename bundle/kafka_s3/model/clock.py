"""What time is it? The one wall clock of the product; whatever decides by time is given it as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def age(ms: int) -> str:
    """A duration in its largest whole unit."""
    seconds = max(ms, 0) // 1000
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    return next((f"{seconds // size} {unit}" for unit, size in units if seconds >= size), f"{seconds} s")
