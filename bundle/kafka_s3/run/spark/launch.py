"""How does a configuration become a running sink on Spark, and who reads its records?

Its tasks by themselves, or Spark's Kafka source: decided once, with the first ranges to be read. An outage decides nothing: brokers that
answer nobody say nothing about who has a way to them. The round ends then as in any outage, and the next one tries again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.report_form import outcome_of, outcome_text
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.kafka.reader.reach import check_reach
from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import run_in_daemon
from kafka_s3.model.protocols import Brokers, Observer
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, reports_of
from kafka_s3.model.timing import now_ms
from kafka_s3.run.spark.catalog import HOW_TO_KNOW, SparkCatalog
from kafka_s3.run.spark.failures import SPARK_ERRORS, python_reason
from kafka_s3.run.spark.progress import progress_of
from kafka_s3.run.spark.source import (
    DriverSource,
    ReadRanges,
    SparkSource,
    TasksSource,
    UnreadableFallback,
    kafka_classes,
    reading_properties,
)
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Decided = Callable[[str, str], None]
REACHED: Final = "{}"


def sink_on_spark(
    settings: Settings, spark: SparkSession, *, observer: Observer | None = None, store: ObjectStore | None = None
) -> Sink:
    """A sink of resolved settings, not opened yet. `store` is the driver's view of the bucket, where there is one already."""
    properties, watching = consumer_properties(settings), observer or Observer()
    brokers = KafkaBrokers(settings.text("kafka.bootstrap.servers"), properties=properties)
    choose = _reader_choice(settings, spark, properties, brokers, watching.decided)
    return build_sink(
        settings,
        brokers,
        source=SparkEngine(spark, choose, watching.reading),
        store=store or S3Store(store_options(settings)),
        clock_ms=now_ms,
        observer=observer,
        spark=_catalog(settings, spark),
        background=lambda work: run_in_daemon(work, "retry"),
    )


def _reader_choice(
    settings: Settings, spark: SparkSession, properties: Mapping[str, str], brokers: Brokers, decided: Decided
) -> Callable[[TopicPartition], ReadRanges]:
    """Who reads, by `tasks.run.on` and `kafka.reader`."""
    servers, reader = settings.text("kafka.bootstrap.servers"), KafkaReader(settings.text("kafka.reader"))
    consumer, plan = reading_properties(properties, kafka_classes(os.environ)), task_plan(settings)
    spark_source = SparkSource(spark, plan, bootstrap_servers=servers, kafka=consumer)
    on_driver = settings.text("tasks.run.on") == "driver"
    by_spark = UnreadableFallback(
        DriverSource(spark_source).run_on_driver if on_driver else spark_source.run_job,
        plan,
        PlainReader(servers, properties=properties),
    ).run_with_fallback
    if on_driver or reader is KafkaReader.SPARK:
        return lambda _: by_spark
    tasks = TasksSource(spark, plan, bootstrap_servers=servers, properties=properties).run_reading_tasks
    if reader is KafkaReader.TASKS:
        return lambda _: tasks
    check = partial(Trial(servers, properties).check, spark)
    return ReaderChoice(tasks, by_spark, check=check, brokers=brokers, decided=decided).choose


def _catalog(settings: Settings, spark: SparkSession) -> SparkCatalog | None:
    """What gives the sink's tables names, None where they have none. Raises ConfigError where Spark shall write them and cannot."""
    if not settings.flag("delta.enable") or not settings.text("delta.table.name"):
        return None
    url = settings.text("delta.spark.bucket.url") or f"s3://{settings.text('s3.bucket.name')}"
    catalog = SparkCatalog(spark, url)
    if settings.text("delta.writer") == "spark" and not catalog.knows_delta():
        raise ConfigError([Problem("delta.writer", "spark", f"cannot write tables here. {HOW_TO_KNOW}")])
    return catalog


# ------------------------------------------------------------ who reads


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """The engine on Spark (`model.protocols.Source`): who reads is chosen by the first range, and `reading` is told how far it is."""

    spark: SparkSession
    choose: Callable[[TopicPartition], ReadRanges]
    reading: Callable[[int, int], None]

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment, by the chosen reader. Raises the store's errors and SourceError, and what `choose` raises."""
        if not assignments:
            return []
        read_ranges = self.choose(assignments[0].topic_partition)
        with progress_of(self.spark, assignments, self.reading):
            return read_ranges(assignments)


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
            self._decided(f"kafka.reader={KafkaReader.TASKS}", f"a task of Spark reached {topic_partition} by itself.")
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

    def check(self, spark: SparkSession, topic_partition: TopicPartition) -> None:
        """Tries it in one task. Raises KafkaUnavailable where the brokers did not answer it, SourceError where it cannot read."""
        try:
            (row,) = spark.range(0, 1, 1, 1).mapInArrow(partial(self.run, topic_partition), "answer string").collect()
        except SPARK_ERRORS as error:
            raise SourceError(f"the trial failed in Spark: {python_reason(error)}") from error
        if row.answer != REACHED:
            reports_of([outcome_of(row.answer)])

    def run(self, topic_partition: TopicPartition, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the task's failure, or that there is none."""
        for _ in batches:
            pass
        try:
            check_reach(self.bootstrap_servers, self.properties, topic_partition)
            answer = REACHED
        except SourceError as error:
            answer = outcome_text(TaskFailure(topic_partition, error))
        yield pa.RecordBatch.from_arrays([pa.array([answer])], names=["answer"])
