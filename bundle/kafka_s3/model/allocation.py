"""How does a process keep memory that its next batch needs again, and give it back when it is short?

By itself glibc gives much of it back at once, and gets it anew page by page; what lies between blocks in use it never gives back.
"""

from __future__ import annotations

import ctypes
from typing import Final

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's names of the options, from malloc.h."""
KEPT_BYTES: Final = 64 << 20
LARGEST_BYTES: Final = 32 << 20
"""Larger blocks come from the system and go back to it; glibc takes no higher number."""


def keep_memory() -> None:
    """Lets this process keep up to `KEPT_BYTES` of freed memory in each of malloc's arenas. Does nothing without glibc."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(TRIM_THRESHOLD, KEPT_BYTES)
        tune(MMAP_THRESHOLD, LARGEST_BYTES)


def give_memory_back() -> None:
    """Gives all freed memory of this process back, also what lies between blocks in use. Does nothing without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
