"""Keep freed memory of a worker for the next batch, in one heap for Arrow, NumPy and librdkafka.

By itself glibc gives much of it back at once and gets it again page by page, and Arrow has a heap of its own.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""glibc's names of the options, from malloc.h."""
KEPT_BYTES: Final = 128 << 20
LARGEST_BYTES: Final = 32 << 20
"""Larger blocks come from the system and go back to it; glibc takes no higher number."""


def keep_memory() -> None:
    """Let this process keep up to `KEPT_BYTES` of freed memory. Do nothing without glibc. Call it before Arrow is imported."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(ARENA_MAX, 1)
        tune(TRIM_THRESHOLD, KEPT_BYTES)
        tune(MMAP_THRESHOLD, LARGEST_BYTES)
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow reads it once, when it first needs memory
