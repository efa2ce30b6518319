"""Where do downloads of the demo and the tests stay between runs, how do two processes share them, and what can go wrong with them?"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_s3.model.errors import SinkError


class LocalServiceError(SinkError):
    """Java, a download or a local server is missing or did not start; the text says what to install or where to look."""


FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
CLOSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})
ELSEWHERE: Final = "or name another folder in XDG_CACHE_HOME."


def announce(text: str) -> None:
    """Prints on standard error what takes so long."""
    print(text, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """`kafka-s3` in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`). Everything in it may be deleted at any time."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "kafka-s3"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the lock of this name among all processes that use the cache; waits as long as it takes. Raises LocalServiceError."""
    path = cache_folder() / f"{name}.lock"
    with _explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder that becomes `target` if the block ends well and vanishes if not: `target` is never half filled.

    If another process has made `target` in the meantime, that one stays. Raises LocalServiceError where the disk is full, or the folder
    is not ours.
    """
    with _explained(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        with _explained(target.parent):
            yield folder
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Says what to do where the folder takes nothing."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise LocalServiceError(
                f"The disk of {folder} is full ({error.strerror}): free some space, {ELSEWHERE}"
            ) from error
        if error.errno in CLOSED:
            raise LocalServiceError(
                f"{folder} cannot be written to ({error.strerror}): change its owner or rights, {ELSEWHERE}"
            ) from error
        raise
