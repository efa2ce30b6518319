"""How is a benchmark's cost counted? In CPU-seconds, user and system, of a whole process tree; the wall clock is only mentioned."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import psutil


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    cpu_seconds: float
    wall_seconds: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Runs the work and counts this process and everything below it: Spark's JVM, its Python workers.

    A process that ends meanwhile counts nothing: Spark ends workers that were idle for a minute.
    """
    before, wall = tree_cpu_seconds(), time.monotonic()
    work()
    spent = sum(seconds - before.get(process, 0.0) for process, seconds in tree_cpu_seconds().items())
    return Cost(spent, time.monotonic() - wall)


def tree_cpu_seconds() -> dict[psutil.Process, float]:
    """CPU-seconds so far of this process and of each of its descendants."""
    me = psutil.Process()
    found = {}
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[process] = sum(process.cpu_times()[:2])
    return found


class PeakMemory:
    """The largest resident memory of one process below another: of Spark's Python workers, or of its JVM where there are none.

    A context manager; it watches from outside, so that what watching costs is not measured.
    """

    def __init__(self, pid: int) -> None:
        self._top = psutil.Process(pid)
        self._bytes = {"python": 0, "java": 0}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def mib(self) -> float:
        """What was seen, in MiB."""
        return (self._bytes["python"] or self._bytes["java"]) / (1 << 20)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            children: list[psutil.Process] = []
            with contextlib.suppress(psutil.NoSuchProcess):  # one that ends while they are listed
                children = self._top.children(recursive=True)
            for process in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    for kind in self._bytes:
                        if kind in process.name():
                            self._bytes[kind] = max(self._bytes[kind], process.memory_info().rss)


def spread(numbers: Sequence[float]) -> str:
    """`min / median / max`."""
    return f"{min(numbers):.3f} / {median(numbers):.3f} / {max(numbers):.3f}"
