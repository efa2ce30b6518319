"""A task of Spark whose Python worker, or the executor around it, is killed (SIGKILL) in the middle of its work, once.

The class is shipped to the workers by value: they need not have the tests on their path.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.run.spark.task import ReadingTask, Task

WORKER, EXECUTOR = "worker", "executor"


@dataclass(frozen=True)
class Death:
    """`victim` dies once, in the first task to get there; every attempt leaves a file in `traces`."""

    victim: str
    traces: str

    def note_attempt(self) -> None:
        context = TaskContext.get()
        assert context is not None
        name = f"stage-{context.stageId()}-task-{context.partitionId()}-attempt-{context.attemptNumber()}"
        (Path(self.traces) / name).touch()

    def strike(self) -> None:
        try:
            mark = os.open(Path(self.traces) / "struck", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return
        victim = (
            os.getpid() if self.victim == WORKER else parent(os.getppid())
        )  # worker, its daemon, the executor's JVM
        os.write(mark, f"{self.victim} {victim}".encode())
        os.close(mark)
        os.kill(victim, signal.SIGKILL)
        time.sleep(60)  # a worker outlives its executor for a moment


@dataclass(frozen=True)
class DyingTask(Task):
    """Dies before the third of its Arrow batches."""

    death: Death = Death(WORKER, "")

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return super().run(self._until_death(batches))

    def _until_death(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.death.note_attempt()
        for number, batch in enumerate(batches, 1):
            if number == 3:
                self.death.strike()
            yield batch


@dataclass(frozen=True)
class DyingReadingTask(ReadingTask):
    """Dies when its files are uploaded, before it reports them."""

    death: Death = Death(WORKER, "")

    def _outcomes(self, share: tuple[Assignment, ...]) -> Iterator[TaskOutcome]:
        self.death.note_attempt()
        for outcome in super()._outcomes(share):
            self.death.strike()
            yield outcome


def parent(pid: int) -> int:
    """The parent of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def dying(victim: str, traces: Path) -> Callable[..., DyingTask]:
    """Takes the place of `kafka_s3.run.spark.source.Task`. Makes the folder for the traces."""
    traces.mkdir()
    return partial(DyingTask, death=Death(victim, str(traces)))


def dying_reading(victim: str, traces: Path) -> Callable[..., DyingReadingTask]:
    """Takes the place of `kafka_s3.run.spark.source.ReadingTask`. Makes the folder for the traces."""
    traces.mkdir()
    return partial(DyingReadingTask, death=Death(victim, str(traces)))


def struck(traces: Path) -> list[str]:
    """What was killed: its kind and process id. Fails where nothing was."""
    return (traces / "struck").read_text().split()


def attempts(traces: Path) -> list[int]:
    """The numbers of all attempts at tasks: above 0 Spark has tried a task again."""
    return sorted(int(path.name.rpartition("-")[2]) for path in traces.glob("stage-*"))
