"""How far is Spark with what it reads? Asked of Spark beside the job: tasks that are done, of those that there are."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.model.threads import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class WatchedSource:
    """Tells `reading(records, wanted)` while it reads, in proportion to the tasks that are done; nothing where Spark does not say."""

    inner: Source
    spark: SparkSession
    reading: Callable[[int, int], None]

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """What `inner` reads."""
        wanted = sum(one.until - one.first_unread for one in assignments)
        tracker = _tracker(self.spark)
        if tracker is None:
            return self.inner.read(assignments)
        group = uuid.uuid4().hex  # several sinks may share the session
        self.spark.sparkContext.setJobGroup(group, "kafka-s3 reads")
        with _beside(lambda: self._look(tracker, group, wanted)):
            return self.inner.read(assignments)

    def _look(self, tracker: Any, group: str, wanted: int) -> None:
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        active = {*tracker.getActiveStageIds()}
        stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds if number in active]
        for stage in filter(None, stages):
            self.reading(wanted * stage.numCompletedTasks // max(stage.numTasks, 1), wanted)


def _tracker(spark: SparkSession) -> Any | None:
    """Who knows; None through Spark Connect."""
    context = getattr(spark, "_sc", None)
    return None if context is None else context.statusTracker()


@contextmanager
def _beside(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` now and then while the body runs, until it fails: what is only told must stop nothing."""
    over = Event()

    def look_until_over() -> None:
        while not over.wait(LOOK_S):
            try:
                look()
            except Exception:
                return

    thread = beside(look_until_over, "progress")
    try:
        yield
    finally:
        over.set()
        thread.join()
