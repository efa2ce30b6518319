"""Who reads a sink's records: its tasks by themselves, or Spark's Kafka source? One task tries it, in the first round.

An outage decides nothing: brokers that answer nobody say nothing about who has a way to them. The round ends then as in any outage, and
the next one tries again.

Workers load this module for the trial: it imports nothing that only the driver needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafka_s3.kafka.reader.reach import check_reach
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers
from kafka_s3.model.tasks import TaskFailure, reports_of
from kafka_s3.run.spark.failures import SPARK_ERRORS, python_reason
from kafka_s3.run.spark.report_form import outcome_of, outcome_text
from kafka_s3.run.spark.task import texts_by_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.run.spark.source import ReadRanges

Decided = Callable[[str, str], None]
REACHED: Final = "{}"


class KafkaReader(StrEnum):
    """The values of `kafka.reader`."""

    AUTO = "auto"
    TASKS = "tasks"
    SPARK = "spark"


class ReaderChoice:
    """Finds the reader by trial, once: `check` raises as `Trial.check`. `decided` is called with the choice and the reason."""

    def __init__(
        self,
        tasks: ReadRanges,
        by_spark: ReadRanges,
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
        self._chosen: ReadRanges | None = None
        self._lock = Lock()

    def choose(self, topic_partition: TopicPartition) -> ReadRanges:
        """The reader. Raises KafkaUnavailable, with nothing decided, where the brokers answer the driver no more than the tasks."""
        with self._lock:
            if self._chosen is None:
                self._chosen = self._try(topic_partition)
        return self._chosen

    def _try(self, topic_partition: TopicPartition) -> ReadRanges:
        failure = self._failure(topic_partition)
        if isinstance(failure, KafkaUnavailable):
            self._check_driver(topic_partition, failure)
            failure = self._failure(topic_partition)  # it may have been over by the time that the driver asked
        if failure is None:
            self._decided(
                f"kafka.reader={KafkaReader.TASKS}", f"a Spark task read {topic_partition} from Kafka directly."
            )
            return self._tasks
        self._decided(
            f"kafka.reader={KafkaReader.SPARK}",
            f"the tasks cannot read for themselves: {str(failure).rstrip('.')}. If that is over, start again, or set kafka.reader=tasks.",
        )
        return self._by_spark

    def _failure(self, topic_partition: TopicPartition) -> SourceError | None:
        try:
            self._check(topic_partition)
        except SourceError as error:
            return error
        return None

    def _check_driver(self, topic_partition: TopicPartition, failure: KafkaUnavailable) -> None:
        """Raises KafkaUnavailable where the topic-partition's leader does not answer the driver either."""
        try:
            answered = topic_partition in self._brokers.heads([topic_partition])
        except KafkaUnavailable:
            answered = False
        if not answered:
            raise KafkaUnavailable(f"Who reads (kafka.reader=auto) is not decided while Kafka is away: {failure}")


@dataclass(frozen=True)
class Trial:
    """How a task finds out whether tasks can read for themselves. `properties` are the consumer's, by their Java names."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)

    def check(self, spark: SparkSession, topic_partition: TopicPartition) -> None:
        """Tries it in one task. Raises KafkaUnavailable where the brokers did not answer it, SourceError where it cannot read."""
        try:
            (answer,) = texts_by_numbers(spark, 1, partial(self.run, topic_partition))
        except SPARK_ERRORS as error:
            raise SourceError(f"the trial failed in Spark: {python_reason(error)}") from error
        if answer != REACHED:
            reports_of([outcome_of(answer)])

    def run(self, topic_partition: TopicPartition, _: Iterable[int]) -> Iterator[str]:
        """The task's failure, or that there is none."""
        try:
            check_reach(self.bootstrap_servers, self.properties, topic_partition)
            yield REACHED
        except SourceError as error:
            yield outcome_text(TaskFailure(topic_partition, error))
