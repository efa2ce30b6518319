"""How much memory do the driver and the processes below it hold? From `/proc`, so on Linux; nothing is told elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafka_s3.run.metrics.instruments import MEMORY, Sample

PROC: Final = Path("/proc")


def memory_samples() -> Iterator[Sample]:
    """Resident bytes of the driver, of Java, and of the tasks' Python, as far as they are processes of this machine below this one."""
    sums: dict[str, int] = {}
    for pid, name in _family(os.getpid()).items():
        kind = "driver" if pid == os.getpid() else "java" if name == "java" else "tasks"
        sums[kind] = sums.get(kind, 0) + _resident(pid)
    return (Sample(MEMORY, (kind,), size) for kind, size in sums.items())


def _family(root: int) -> dict[int, str]:
    """A process and all below it, with their names."""
    parents, names = dict[int, int](), dict[int, str]()
    for folder in PROC.glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)], names[int(folder.name)] = int(rest.split()[1]), name.partition("(")[2]
    return {pid: names[pid] for pid in parents if root in _line(pid, parents)}


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process and those above it."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def _resident(pid: int) -> int:
    try:
        pages = int((PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
