"""Who reads the records of a sink: its tasks by themselves, or Spark's Kafka source? Decided once, with the first ranges to be read.

An outage decides nothing: brokers that answer nobody say nothing about who has a way to them. The round ends then as in any outage, and the
next one tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_s3.engine.log.report_form import outcome_of, outcome_text
from kafka_s3.kafka.reader.reach import check_reach
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Source
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, reports_of
from kafka_s3.run.spark.failures import SPARK_ERRORS, python_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Decided = Callable[[str, str], None]
REACHED: Final = "{}"


class KafkaReader(StrEnum):
    """The values of `kafka.reader`."""

    AUTO = "auto"
    TASKS = "tasks"
    SPARK = "spark"


@dataclass(frozen=True)
class Trial:
    """How a task finds out whether tasks can read for themselves. `properties` are the consumer's, by their Java names."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)

    def check(self, spark: SparkSession, place: TopicPartition) -> None:
        """Tries it in one task. Raises KafkaUnavailable where the brokers did not answer it, SourceError where it cannot read."""
        try:
            (row,) = spark.range(0, 1, 1, 1).mapInArrow(partial(self.run, place), "answer string").collect()
        except SPARK_ERRORS as error:
            raise SourceError(f"the trial failed in Spark: {python_reason(error)}") from error
        if row.answer != REACHED:
            reports_of([outcome_of(row.answer)])

    def run(self, place: TopicPartition, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the task's failure, or that there is none."""
        for _ in batches:
            pass
        try:
            check_reach(self.bootstrap_servers, self.properties, place)
            answer = REACHED
        except SourceError as error:
            answer = outcome_text(TaskFailure(place, error))
        yield pa.RecordBatch.from_arrays([pa.array([answer])], names=["answer"])


class ChosenSource:
    """The engine whose reader is found by trial: `check` raises as `Trial.check`. `decided` is told the choice and the reason."""

    def __init__(
        self,
        tasks: Source,
        by_spark: Source,
        *,
        check: Callable[[TopicPartition], None],
        brokers: Brokers,
        decided: Decided,
    ) -> None:
        self._tasks = tasks
        self._by_spark = by_spark
        self._check = check
        self._brokers = brokers
        self._decided = decided
        self._chosen: Source | None = None
        self._lock = Lock()

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One report per assignment, by the chosen reader. Raises the store's errors and SourceError; KafkaUnavailable, with nothing
        decided, where the brokers answer the driver no more than the tasks.
        """
        if not assignments:
            return []
        with self._lock:
            if self._chosen is None:
                self._chosen = self._choose(assignments[0].topic_partition)
        return self._chosen.read(assignments)

    def _choose(self, place: TopicPartition) -> Source:
        failure = self._failure(place)
        if isinstance(failure, KafkaUnavailable):
            self._check_driver(place, failure)
            failure = self._failure(place)  # it may have been over by the time that the driver asked
        if failure is None:
            self._decided(f"kafka.reader={KafkaReader.TASKS}", f"a task of Spark reached {place} by itself.")
            return self._tasks
        self._decided(
            f"kafka.reader={KafkaReader.SPARK}",
            f"the tasks cannot read for themselves: {str(failure).rstrip('.')}. If that is over, start again, or set kafka.reader=tasks.",
        )
        return self._by_spark

    def _failure(self, place: TopicPartition) -> SourceError | None:
        try:
            self._check(place)
        except SourceError as error:
            return error
        return None

    def _check_driver(self, place: TopicPartition, failure: KafkaUnavailable) -> None:
        """Raises KafkaUnavailable where the topic-partition's leader does not answer the driver either."""
        try:
            answered = place in self._brokers.heads([place])
        except KafkaUnavailable:
            answered = False
        if not answered:
            raise KafkaUnavailable(f"Who reads (kafka.reader=auto) is not decided while Kafka is away: {failure}")
