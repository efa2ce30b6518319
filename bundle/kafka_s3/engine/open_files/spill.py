"""Where on local disk may records wait, so that none of them stay there when their process is killed?

Each process has a folder of its own below the temporary folder, and holds a lock on it that ends with the process, however that ends.
Whoever begins sweeps away the folders that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, Self

from kafka_s3.model.deflate import Bytes
from kafka_s3.model.errors import LocalDiskError

HELD: Final = "kafka-s3-spill-"
UNHELD: Final = "kafka-s3-new-"
READ_BYTES: Final = 1 << 20
"""So much is read back at once where it only passes through memory."""
REMEDY: Final = "Make room there, have TMPDIR name a larger disk, or raise writer.memory.bytes."


class SpillFolder:
    """A task's folder on local disk for parts that wait, made with the first of them: most tasks need none.

    Gone at the end of the `with` block, or, should its process be killed, with the next process that begins.
    """

    def __init__(self) -> None:
        """Sweeps away what killed processes left, once in a process. Raises LocalDiskError."""
        self._path: Path | None = None
        with _made():
            _own_folder(os.getpid(), tempfile.gettempdir())

    def __fspath__(self) -> str:
        """Raises LocalDiskError."""
        with _made():
            self._path = self._path or _new_folder()
            return str(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


@contextmanager
def _made() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalDiskError(f"No folder can be made on local disk: {error.strerror}. {REMEDY}") from error


class SpillFile:
    """A file in a task's folder, made with the first bytes, gone with the last: those of many uploads lie in it behind each other.

    To make a file takes a hundred times as long as to write a few kilobytes. It is not kept open, for a task may have a thousand.
    """

    def __init__(self, folder: PathLike[str]) -> None:
        self.folder = folder
        self._path: Path | None = None
        self._end = 0
        self._left = 0
        self._lock = Lock()

    def append(self, pieces: Iterable[Bytes]) -> Spilled:
        """Writes pieces behind each other. Raises OSError."""
        if self._path is None:
            with tempfile.NamedTemporaryFile(dir=os.fspath(self.folder), prefix="part-", delete=False) as file:
                self._path = Path(file.name)
        with self._path.open("ab") as file:
            file.writelines(pieces)
            begin, self._end = self._end, file.tell()
        self._left += 1
        return Spilled(self, begin, self._end)

    def share(self, begin: int, end: int) -> Spilled:
        """Bytes that are in the file, for one upload more, which drops them by itself."""
        self._left += 1
        return Spilled(self, begin, end)

    def opened(self) -> BinaryIO:
        """The file, to read from. Raises OSError."""
        assert self._path is not None
        return self._path.open("rb")

    def drop(self) -> None:
        """One upload less needs its bytes."""
        with self._lock:  # uploads end side by side
            self._left -= 1
            if self._left or self._path is None:
                return
            self._path.unlink()
            self._path, self._end = None, 0


class Spilled(NamedTuple):
    """Bytes of one upload in a file, from `begin` to `end`."""

    file: SpillFile
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.begin


def spilled(into: SpillFile, pieces: Iterable[Bytes], what: str) -> Spilled:
    """Moves pieces to local disk; `what` names them in the error. Raises LocalDiskError."""
    try:
        return into.append(pieces)
    except OSError as error:
        text = f"{what} cannot be kept on local disk, in {Path(into.folder).parent}: {error.strerror}. {REMEDY}"
        raise LocalDiskError(text) from error


def read_back(pieces: Iterable[Bytes | Spilled]) -> list[Bytes]:
    """Pieces of which some wait on local disk, in memory. Raises OSError."""
    with ExitStack() as stack:
        files = dict[SpillFile, BinaryIO]()
        found = list[Bytes]()
        for piece in pieces:
            if isinstance(piece, Spilled):
                if piece.file not in files:
                    files[piece.file] = stack.enter_context(piece.file.opened())
                files[piece.file].seek(piece.begin)
                piece = files[piece.file].read(piece.end - piece.begin)
            found.append(piece)
        return found


def read_through(pieces: Iterable[Bytes | Spilled]) -> Iterator[Bytes]:
    """Pieces of which some wait on local disk, a little of those at a time. Raises OSError."""
    with ExitStack() as stack:
        last: tuple[SpillFile, BinaryIO] | None = None
        for piece in pieces:
            if not isinstance(piece, Spilled):
                yield piece
                continue
            if last is None or last[0] is not piece.file:
                stack.close()
                last = piece.file, stack.enter_context(piece.file.opened())
            last[1].seek(piece.begin)
            for begin in range(piece.begin, piece.end, READ_BYTES):
                yield last[1].read(min(READ_BYTES, piece.end - begin))


def _new_folder() -> Path:
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
