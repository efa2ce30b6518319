"""How far is Spark with what it reads? The tasks that are done, of those that there are.

A task reads a topic-partition, so a round of few of them moves in large steps. Spark is asked through its status tracker; Spark Connect
reports by itself, every two seconds (`spark.connect.progress.reportInterval`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from kafka_s3.model.process import start_daemon
from kafka_s3.model.tasks import Assignment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The tasks of a stage, and how many of them are done."""

    tasks: int
    done: int


Report = Callable[[Iterable[TaskCount]], None]


@contextmanager
def progress_of(
    spark: SparkSession, assignments: Sequence[Assignment], reading: Callable[[int, int], None]
) -> Iterator[None]:
    """Calls `reading(records, wanted)` now and then while the body runs its job, in proportion to the tasks that are done.

    Not where Spark does not say: where the driver reads by itself, and through a Spark Connect older than 4.0.
    """
    wanted = sum(one.until - one.first_unread for one in assignments)

    def report(stages: Iterable[TaskCount]) -> None:
        known = list(stages)
        tasks = sum(stage.tasks for stage in known)
        if tasks:
            reading(wanted * sum(stage.done for stage in known) // tasks, wanted)

    with _watched(spark, report):
        yield


def _watched(spark: SparkSession, report: Report) -> AbstractContextManager[None]:
    """Calls `report` with the stages now and then while the body runs."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        tracker, group = context.statusTracker(), uuid.uuid4().hex
        context.setJobGroup(group, "kafka-s3 reads")  # several sinks may share the session
        return _beside(lambda: report(_active(tracker, group)))
    return _reported_by_connect(spark, report) if hasattr(spark, "registerProgressHandler") else nullcontext()


def _active(tracker: Any, group: str) -> list[TaskCount]:
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    own = {stage for job in jobs for stage in job.stageIds}
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds() if number in own]
    return [TaskCount(stage.numTasks, stage.numCompletedTasks) for stage in stages if stage is not None]


@contextmanager
def _reported_by_connect(spark: SparkSession, report: Report) -> Iterator[None]:
    """What Spark Connect sends with a job's answers; a display that fails stops nothing."""

    def handle(*, stages: Iterable[Any] | None, **_: object) -> None:
        with suppress(Exception):
            report([TaskCount(stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()])

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)


@contextmanager
def _beside(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` now and then while the body runs, until it fails: a display stops nothing."""
    over = Event()

    def look_until_over() -> None:
        while not over.wait(LOOK_S):
            try:
                look()
            except Exception:
                return

    thread = start_daemon(look_until_over, "progress")
    try:
        yield
    finally:
        over.set()
        thread.join()
