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
    """Runs the work and counts this process, everything below it (Spark's JVM, its Python workers) and what of that has ended."""
    cpu, wall = tree_cpu_seconds(), time.monotonic()
    work()
    return Cost(tree_cpu_seconds() - cpu, time.monotonic() - wall)


def tree_cpu_seconds() -> float:
    """CPU-seconds so far of this process and its descendants."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])  # user, system, and both of ended children
    return total


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
            for process in self._top.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    kind = "java" if "java" in process.name() else "python"
                    self._bytes[kind] = max(self._bytes[kind], process.memory_info().rss)


def spread(numbers: Sequence[float]) -> str:
    """`min / median / max`."""
    return f"{min(numbers):.3f} / {median(numbers):.3f} / {max(numbers):.3f}"
