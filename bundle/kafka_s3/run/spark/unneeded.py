"""What do libraries load that nobody needs here, and what of what they loaded is not needed again?

pyspark looks with the first call of its JVM whether tests could use pandas and grpc, by importing them: 48 MB. And LLVM puts loops together
when they are loaded, which takes its 66 MB of code through memory, and is not called any more.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final
from zipimport import zipimporter

OF_TESTS: Final = ("pandas", "grpc", "grpc_status", "google")
MAPPINGS: Final = Path("/proc/self/smaps")
OWN_PAGES: Final = ("Anonymous:", "Swap:")
"""Fields of a mapping: what it has that is not in its file, such as addresses filled in by the linker."""
LAST: Final = ["0-0", "---p"]
"""The head of a mapping behind the last one."""
DONTNEED: Final = 4
"""madvise's advice by that name, from mman.h."""


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """As if modules, those which nobody has imported yet, were not installed: neither imported nor found."""
    finders = sys.meta_path.copy()

    class Others:
        @staticmethod
        def find_spec(name: str, *where: Any) -> ModuleSpec | None:
            if name in modules:
                return None
            return next(filter(None, (finder.find_spec(name, *where) for finder in finders)), None)

    sys.meta_path[:] = [Others]
    try:
        yield
    finally:
        place = sys.meta_path.index(Others)  # what was imported may have brought finders of its own
        sys.meta_path[place : place + 1] = finders


def leave_testing_bare() -> None:
    """Has `pyspark.testing`, which all use of a JVM imports, find none of what its tests could use; who needs it can import it still."""
    with without(*OF_TESTS):
        importlib.import_module("pyspark.testing")


def forget_archives() -> None:
    """Spark's worker drops import caches before every task, and Python then reads the directory of each zip file on its path again.

    That takes as long as 100,000 records. Finders that are not there are not asked; an import that needs one makes it again.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def release_code() -> None:
    """Takes the pages of libraries out of this process that it has only read; what is used again comes back from the system's cache.

    Is for the time between loading and forking, when no other thread changes what is mapped. Does nothing where the system does not say
    what is.
    """
    try:
        lines = MAPPINGS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    for start, end in _only_read(lines):
        advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONTNEED)


def _only_read(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The mappings of files that are as their files are: not writable, and with no page of their own."""
    mapping, own = None, dict[str, str]()
    for first, *rest in (*map(str.split, lines), LAST):
        if first in OWN_PAGES:
            own[first] = rest[0]
        elif not first.endswith(":"):  # the head of the next
            if mapping is not None and own == dict.fromkeys(OWN_PAGES, "0"):
                yield mapping
            start, _, end = first.partition("-")
            is_file = len(rest) > 4 and rest[4].startswith("/")  # behind permissions, offset, device and inode
            mapping, own = (int(start, 16), int(end, 16)) if is_file and "w" not in rest[0] else None, {}
