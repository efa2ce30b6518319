"""Where on local disk may records wait, so that none of them stay there when their process is killed?

Each process has a folder of its own below the temporary folder, and holds a lock on it that ends with the process, however that ends.
Whoever begins sweeps away the folders that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

HELD: Final = "kafka-s3-spill-"
UNHELD: Final = "kafka-s3-new-"


def task_folder() -> Path:
    """A new, empty folder for one task. Raises OSError."""
    try:
        return Path(tempfile.mkdtemp(dir=_own_folder(os.getpid(), tempfile.gettempdir())))
    except FileNotFoundError:  # whatever cleans temporary folders thought it old
        _own_folder.cache_clear()
        return Path(tempfile.mkdtemp(dir=_own_folder(os.getpid(), tempfile.gettempdir())))


@lru_cache(maxsize=1)
def _own_folder(process: int, parent: str) -> Path:
    """The folder of this process: a forked child asks with another number, and so gets one of its own."""
    _sweep(Path(parent))
    made = Path(tempfile.mkdtemp(prefix=UNHELD, dir=parent))
    _locked(made)  # the descriptor stays open, and the folder locked, until the process ends
    return made.rename(made.with_name(made.name.replace(UNHELD, HELD)))  # only now do others look at it


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{HELD}*"):
        try:
            lock = _locked(folder)
        except OSError:
            continue  # in use, or another user's
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path) -> int:
    """A descriptor that holds the folder's lock. Raises OSError where another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
