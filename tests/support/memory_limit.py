"""How is a process with all that it starts kept below a limit of memory? By a control group of the kernel, where this user may make one."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
FIELDS: Final = {True: ("memory.max", "memory.events"), False: ("memory.limit_in_bytes", "memory.oom_control")}
"""By whether the kernel has control groups of the second version: the file of the limit, and the one that counts who was killed."""


class MemoryLimit:
    """A control group below this process's own. A context manager; raises OSError where this user may not make one.

    What the kernel cannot keep below the limit it kills, and counts: `killed`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unified = (ROOT / "cgroup.controllers").exists()
        self._folder = _own_folder(unified=self._unified) / f"limited-{os.getpid()}-{time.monotonic_ns()}"
        self._limit_name, self._count_name = FIELDS[self._unified]

    def __enter__(self) -> MemoryLimit:
        self._folder.mkdir()
        (self._folder / self._limit_name).write_text(str(self._limit))
        return self

    def __exit__(self, *_: object) -> None:
        for _attempt in range(100):
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            time.sleep(0.1)  # what was killed is not gone at once

    def add(self, pid: int) -> None:
        """Puts a process in; what it starts from now on is in, too."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def held(self) -> int:
        """Bytes that the processes hold; what the kernel merely keeps of files is not counted, since it gives that up when asked."""
        lines = dict(line.split() for line in (self._folder / "memory.stat").read_text().splitlines())
        return (
            int(lines["anon"]) + int(lines["shmem"])
            if self._unified
            else int(lines["total_rss"]) + int(lines.get("total_shmem", 0))
        )

    @property
    def killed(self) -> int:
        """How many processes the kernel has ended for want of memory."""
        lines = dict(line.split() for line in (self._folder / self._count_name).read_text().splitlines())
        return int(lines["oom_kill"])


def _own_folder(*, unified: bool) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if unified and number == "0":
            return ROOT / path.lstrip("/")
        if not unified and "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/")
    raise OSError("This process is in no control group for memory.")
