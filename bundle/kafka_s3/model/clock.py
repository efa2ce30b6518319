"""What time is it? The one wall clock of the product; whatever decides by time is given it as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000
