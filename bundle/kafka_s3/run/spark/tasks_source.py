"""How do Spark's tasks read the offset ranges by themselves? Spark hands out numbers, the tasks do the rest, and reports come back.

Only DataFrame calls that Spark Connect has too: no py4j, no RDD. `spark.range` with as many partitions as numbers gives each task one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.report_form import outcome_of
from kafka_s3.engine.loop.planner import RANGES_IN_A_TASK, is_quiet
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.spark.failures import SPARK_ERRORS, death
from kafka_s3.run.spark.source import REPORT
from kafka_s3.run.spark.task import ReadingTask, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_AT_LEAST: Final = 16
"""Quiet ranges share tasks only where there are more of them than this: each has requests to S3 to wait for."""


class TasksSource:
    """The engine on Spark whose tasks read for themselves. `properties` are the consumer's, by their Java names."""

    def __init__(
        self, spark: SparkSession, settings: Settings, *, bootstrap_servers: str, properties: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._bootstrap_servers = bootstrap_servers
        self._properties = dict(properties)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """Runs one Spark job for the assignments. Where Spark gives the job up as a whole, all of them have failed with its reason."""
        if not assignments:
            return []
        task = ReadingTask(
            Task(self._settings, ()),
            tuple(shares(assignments, self._settings.number("tasks.max"))),
            self._bootstrap_servers,
            self._properties,
        )
        numbers = self._spark.range(0, len(task.shares), 1, len(task.shares))
        try:
            return [outcome_of(row.report) for row in numbers.mapInArrow(task.run, REPORT).collect()]
        except SPARK_ERRORS as error:
            reason = death(error)
            if reason is None:
                raise
            return [TaskFailure(wanted.topic_partition, reason) for wanted in assignments]


def shares(assignments: Sequence[Assignment], tasks: int) -> list[tuple[Assignment, ...]]:
    """What each task reads: a long range alone, as one that has to be read apart; quiet ones together, of the same topics where possible.

    At most `tasks` where the assignments are those of one wave (`engine.loop.planner.waves`).
    """
    quiet = sorted((one for one in assignments if _shares(one)), key=lambda wanted: wanted.topic_partition)
    alone = [(wanted,) for wanted in assignments if not _shares(wanted)]
    needed = -(-len(quiet) // RANGES_IN_A_TASK)
    together = max(min(len(quiet), TASKS_AT_LEAST, tasks - len(alone)), needed)
    cuts = [number * len(quiet) // together for number in range(together + 1)] if together else []
    return alone + [tuple(quiet[start:stop]) for start, stop in pairwise(cuts)]


def _shares(wanted: Assignment) -> bool:
    """Whether a range may be read by the task of others."""
    return is_quiet(wanted) and not wanted.apart
