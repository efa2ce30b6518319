"""Where do downloads of the demo and the tests stay between runs, and how do two processes share them?"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """`kafka-s3` in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`). Everything in it may be deleted at any time."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "kafka-s3"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the lock of this name among all processes that use the cache; waits as long as it takes."""
    path = cache_folder() / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder that becomes `target` if the block ends well and vanishes if not: `target` is never half filled.

    If another process has made `target` in the meantime, that one stays.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        yield folder
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
