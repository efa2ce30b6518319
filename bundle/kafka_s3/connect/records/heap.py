"""What does a worker keep of freed memory? All of it, up to a bound, for the next batch: Arrow's, NumPy's and librdkafka's alike.

By itself glibc gives much of it back at once, gets it again page by page, and never gives back what lies between blocks in use; and Arrow
has a heap of its own, of which the others get nothing.
"""

from __future__ import annotations

import ctypes
import os
from mmap import PAGESIZE
from pathlib import Path
from typing import Final

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""glibc's names of the options, from malloc.h."""
KEPT_BYTES: Final = 128 << 20
LARGEST_BYTES: Final = 32 << 20
"""Larger blocks come from the system and go back to it; glibc takes no higher number."""
ARROW_HEAP: Final = "ARROW_DEFAULT_MEMORY_POOL"
"""Arrow reads the variable once, when it first needs memory."""
STATUS: Final = Path("/proc/self/statm")


def keep_memory() -> None:
    """Lets this process keep up to `KEPT_BYTES` of freed memory, in one arena for Arrow and all threads: what one of them frees, the others
    take. Does nothing without glibc.

    Is best called before a process imports Arrow: an arena of a thread from before, of which Arrow has some, stays, and so does what Arrow
    itself has in its own heap. Called again, it counts what the process holds by now as in use.
    """
    global _clean_bytes
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(ARENA_MAX, 1)
        tune(TRIM_THRESHOLD, KEPT_BYTES)
        tune(MMAP_THRESHOLD, LARGEST_BYTES)
        os.environ.setdefault(ARROW_HEAP, "system")
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())  # where Arrow was there already, at least what Python asks it for
        _clean_bytes = _held_bytes()


def give_memory_back() -> None:
    """Gives all freed memory of this process back, also what lies between blocks in use, where the process has grown by more than
    `KEPT_BYTES` since it last did. For moments when little is in use. Does nothing where none is kept, or the system does not say.
    """
    global _clean_bytes
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if _clean_bytes is not None and trim is not None and _held_bytes() - _clean_bytes > KEPT_BYTES:
        trim(0)
        _clean_bytes = _held_bytes()


_clean_bytes: int | None = None
"""What this process held when it last kept no freed memory; None: it keeps none on purpose."""


def _held_bytes() -> int:
    """The bytes of this process in memory that are of no file; 0 where the system does not say."""
    try:
        _, resident, of_files, *_ = STATUS.read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(of_files)) * PAGESIZE
