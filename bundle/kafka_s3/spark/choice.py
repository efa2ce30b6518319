"""Who reads the records of a sink: its tasks by themselves, or Spark's Kafka source? Decided once, with the first ranges to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_s3.kafka.reader.reach import why_out_of_reach
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.spark.failures import SPARK_ERRORS, python_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Decided = Callable[[str, str], None]


class KafkaReader(StrEnum):
    """The values of `kafka.reader`."""

    AUTO = "auto"
    TASKS = "tasks"
    SPARK = "spark"


@dataclass(frozen=True)
class Trial:
    """What a task does to find out whether tasks can read for themselves."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)
    place: TopicPartition

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the reason why not, or nothing."""
        for _ in batches:
            pass
        reason = why_out_of_reach(self.bootstrap_servers, self.properties, self.place)
        yield pa.RecordBatch.from_arrays([pa.array([reason or ""])], names=["reason"])

    def reason(self, spark: SparkSession) -> str:
        """The reason, tried in one task; empty: it can."""
        try:
            (row,) = spark.range(0, 1, 1, 1).mapInArrow(self.run, "reason string").collect()
        except SPARK_ERRORS as error:
            return f"the trial failed in Spark: {python_reason(error)}"
        return str(row.reason)


class ChosenSource:
    """The engine whose reader is found by trial. `decided` is told the choice and the reason."""

    def __init__(
        self,
        spark: SparkSession,
        tasks: Source,
        by_spark: Source,
        *,
        bootstrap_servers: str,
        properties: Mapping[str, str],
        decided: Decided,
    ) -> None:
        self._spark = spark
        self._tasks = tasks
        self._by_spark = by_spark
        self._bootstrap_servers = bootstrap_servers
        self._properties = dict(properties)
        self._decided = decided
        self._chosen: Source | None = None

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """One report per assignment, by the chosen reader. Raises the store's errors and SourceError."""
        if not assignments:
            return []
        if self._chosen is None:
            self._chosen = self._choose(assignments[0].topic_partition)
        return self._chosen.read(assignments)

    def _choose(self, place: TopicPartition) -> Source:
        reason = Trial(self._bootstrap_servers, self._properties, place).reason(self._spark)
        if not reason:
            self._decided(f"kafka.reader={KafkaReader.TASKS}", f"a task of Spark reached {place} by itself.")
            return self._tasks
        self._decided(
            f"kafka.reader={KafkaReader.SPARK}",
            f"the tasks cannot read for themselves: {reason.rstrip('.')}. If that is over, start again, or set kafka.reader=tasks.",
        )
        return self._by_spark
