"""How does Spark read the offset ranges? One batch read of Kafka with explicit offsets, one task per topic-partition, reports back.

Only DataFrame calls that Spark Connect has too: no py4j, no RDD.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.report_form import outcome_of
from kafka_s3.model.errors import EngineDied, KafkaUnavailable, SourceError, UnreadableRecord
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.spark.bounded import first_bytes
from kafka_s3.run.spark.columns import columns
from kafka_s3.run.spark.failures import SPARK_ERRORS, source_error
from kafka_s3.run.spark.rows import ROWS_PER_BATCH, ReadMode
from kafka_s3.run.spark.task import Task, place_to_read_again

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
FETCH: Final = {
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.buffer.bytes": str(1 << 20),
}
"""Consumer settings tuned for bulk reading; worth about 30 % of the read path."""
V1_READERS: Final = "spark.sql.sources.useV1SourceList"
BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BYTES: Final = {ReadMode.PLAIN: str(2**31 - 1), ReadMode.ALL: str(64 << 20)}
"""The largest number makes Spark measure nothing."""
REPORT: Final = "report string"


def _tune(spark: SparkSession) -> None:
    """Larger batches, and Spark's newer Kafka reader: the default one makes a `Row` of each record and takes it apart again."""
    with contextlib.suppress(PySparkException):  # a platform that allows no such settings is only slower
        spark.conf.set(BATCH_ROWS, str(ROWS_PER_BATCH))
        older = (spark.conf.get(V1_READERS) or "").split(",")
        spark.conf.set(V1_READERS, ",".join(name for name in older if name.strip() != "kafka"))


def _answer(ask: Callable[[], T]) -> T:
    """Spark's answer. Raises SourceError where the reason is known."""
    try:
        return ask()
    except SPARK_ERRORS as error:
        known = source_error(error)
        if known is None:
            raise
        raise known from error


class SparkSource:
    """The engine on Spark. `kafka` are the consumer's Java properties, as Spark takes them behind `kafka.`."""

    def __init__(
        self, spark: SparkSession, settings: Settings, *, bootstrap_servers: str, kafka: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._options = {"kafka.bootstrap.servers": bootstrap_servers}
        self._options |= {f"kafka.{name}": value for name, value in {**FETCH, **(kafka or {})}.items()}
        self._topics_to_read_in_full: set[str] = set()
        self._lock = Lock()
        _tune(spark)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """Runs one Spark job for the assignments. A job that fails because of one of them is run again for each alone."""
        if not assignments:
            return []
        try:
            return self._read(assignments)
        except (KafkaUnavailable, EngineDied) as error:
            return [TaskFailure(wanted.topic_partition, error) for wanted in assignments]
        except UnreadableRecord:
            raise  # another client can (`unreadable`)
        except SourceError as error:
            if len(assignments) == 1:
                return [TaskFailure(assignments[0].topic_partition, error)]
            return [outcome for wanted in assignments for outcome in self.read([wanted])]

    def _read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        topics = {wanted.topic_partition.topic for wanted in assignments}
        with self._lock:
            mode = ReadMode.ALL if topics & self._topics_to_read_in_full else ReadMode.PLAIN
        task = self.task(assignments)
        rows = self._run(task, assignments, mode)
        places = {place for row in rows if (place := place_to_read_again(row)) is not None}
        if places:
            with self._lock:
                self._topics_to_read_in_full |= {place.topic for place in places}
            again = [wanted for wanted in assignments if wanted.topic_partition in places]
            rows = [row for row in rows if place_to_read_again(row) is None]
            rows += self._run(self.task(again), again, ReadMode.ALL)
        found = {outcome.topic_partition: outcome for outcome in map(outcome_of, rows)}
        return [found.get(a.topic_partition) or task.without_records(a) for a in assignments]

    def _run(self, task: Task, assignments: Sequence[Assignment], mode: ReadMode) -> list[str]:
        with contextlib.suppress(PySparkException):  # see `_tune`
            self._spark.conf.set(BATCH_BYTES, BYTES[mode])
        reports = self._records(task, assignments, mode).mapInArrow(task.run, REPORT)
        return _answer(lambda: [row.report for row in reports.collect()])

    def task(self, assignments: Sequence[Assignment]) -> Task:
        """What has to be done with the records of the assignments."""
        return Task(self._settings, tuple(assignments))

    def batches(self, task: Task, wanted: Assignment) -> list[pa.RecordBatch]:
        """The first records of a range in order, here instead of in a task, as `task.run` takes them: all, or `BYTES_PER_READ` of them.

        Raises SourceError.
        """
        with contextlib.suppress(PySparkException):  # see `_tune`
            self._spark.conf.set(BATCH_BYTES, BYTES[ReadMode.ALL])
        records = self._records(task, [wanted], ReadMode.ALL)
        table: pa.Table = _answer(records.mapInArrow(first_bytes, records.schema).toArrow)
        return list(table.to_batches(max_chunksize=ROWS_PER_BATCH))

    def _records(self, task: Task, assignments: Sequence[Assignment], mode: ReadMode) -> DataFrame:
        return self.frame(assignments, headers=task.keeps_envelopes or task.keeps_schema_names).select(
            *columns(task, mode)
        )

    def frame(self, assignments: Sequence[Assignment], *, headers: bool = True) -> DataFrame:
        """Kafka's records in the assignments' ranges, unprocessed."""
        topics: dict[str, list[int]] = {}
        start: dict[str, dict[str, int]] = {}
        until: dict[str, dict[str, int]] = {}
        for wanted in assignments:
            topic, partition = wanted.topic_partition
            topics.setdefault(topic, []).append(partition)
            start.setdefault(topic, {})[str(partition)] = wanted.first_unread
            until.setdefault(topic, {})[str(partition)] = wanted.until
        options: dict[str, Any] = {
            **self._options,
            "assign": json.dumps(topics),
            "startingOffsets": json.dumps(start),
            "endingOffsets": json.dumps(until),
            "includeHeaders": str(headers).lower(),
        }
        return self._spark.read.format("kafka").options(**options).load()
