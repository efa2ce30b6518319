"""How does Spark read the offset ranges? One batch read of Kafka with explicit offsets, one task per topic-partition, reports back.

Only DataFrame calls that Spark Connect has too: no py4j, no RDD. A task's rows carry a number for topic and partition instead of the
topic's name: eight bytes a record are cheaper across the border to Python than the text.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from kafka_s3.config.settings import Settings
from kafka_s3.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.report_form import report_of
from kafka_s3.spark.failures import raise_failure, source_error
from kafka_s3.spark.task import PLACES_PER_TOPIC, Task
from kafka_s3.tasks import Assignment, TaskReport

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FETCH: Final = {
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.buffer.bytes": str(1 << 20),
}
"""Consumer settings tuned for bulk reading; worth about 30 % of the read path."""
ROWS_PER_BATCH: Final = "20000"
V1_READERS: Final = "spark.sql.sources.useV1SourceList"
REPORT: Final = "report string"
HEADERS: Final = "array<struct<key:string,value:binary>>"


def _place(topics: Sequence[str]) -> Column:
    partition = F.col("partition").cast("long")
    if len(topics) == 1:
        return partition
    index = F.create_map(*(F.lit(part) for number, topic in enumerate(topics) for part in (topic, number)))
    return F.element_at(index, F.col("topic")).cast("long") * PLACES_PER_TOPIC + partition


def _schema_name() -> Column:
    """The header that names the value's schema, the last one if there are several; nearly always null (SEMANTICS A11)."""
    named = F.filter("headers", lambda header: header["key"] == VALUE_SCHEMA)
    found = F.try_element_at(named, F.lit(-1)).getField("value")
    # the filter takes its time, and most records have no headers at all
    return F.when(F.col("headers").isNotNull(), found)


def _never_null(headers: Column) -> Column:
    """An empty list instead of null: on the way to Python a column of null lists takes 30 microseconds a record, five times all else."""
    return F.coalesce(headers, F.array().cast(HEADERS))


def _tune(spark: SparkSession) -> None:
    """Larger batches, and Spark's newer Kafka reader: the default one makes a `Row` of each record and takes it apart again."""
    with contextlib.suppress(PySparkException):  # a platform that allows no such settings is only slower
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_PER_BATCH)
        older = (spark.conf.get(V1_READERS) or "").split(",")
        spark.conf.set(V1_READERS, ",".join(name for name in older if name.strip() != "kafka"))


class SparkSource:
    """The engine on Spark. `kafka` are the consumer's Java properties, as Spark takes them behind `kafka.`."""

    def __init__(
        self, spark: SparkSession, settings: Settings, *, bootstrap_servers: str, kafka: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._options = {"kafka.bootstrap.servers": bootstrap_servers}
        self._options |= {f"kafka.{name}": value for name, value in {**FETCH, **(kafka or {})}.items()}
        _tune(spark)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """Runs one Spark job for the assignments. Raises the store's errors and SourceError, with the task's reason."""
        task = Task(self._settings, tuple(assignments))
        frame = self.frame(assignments)
        columns = [
            _place(task.topics).alias("place"),
            "offset",
            F.unix_millis("timestamp").alias("timestamp"),
            "value",
        ]
        if task.keeps_envelopes:
            columns += ["key", _never_null(F.col("headers")).alias("headers")]
        elif task.keeps_schema_names:
            columns.append(_schema_name().alias(SCHEMA_NAME))
        rows = self._collect(frame.select(*columns).mapInArrow(task.run, REPORT))
        for row in rows:
            raise_failure(row)
        found = {report.topic_partition: report for report in map(report_of, rows)}
        return [found.get(a.topic_partition) or task.without_records(a) for a in assignments]

    def _collect(self, frame: DataFrame) -> list[str]:
        try:
            return [row.report for row in frame.collect()]
        except PySparkException as error:
            known = source_error(error)
            if known is None:
                raise
            raise known from error

    def frame(self, assignments: Sequence[Assignment]) -> DataFrame:
        """Kafka's records in the assignments' ranges, unprocessed."""
        topics: dict[str, list[int]] = {}
        start: dict[str, dict[str, int]] = {}
        until: dict[str, dict[str, int]] = {}
        for wanted in assignments:
            topic, partition = wanted.topic_partition
            topics.setdefault(topic, []).append(partition)
            start.setdefault(topic, {})[str(partition)] = wanted.start
            until.setdefault(topic, {})[str(partition)] = wanted.until
        options: dict[str, Any] = {
            **self._options,
            "assign": json.dumps(topics),
            "startingOffsets": json.dumps(start),
            "endingOffsets": json.dumps(until),
            "includeHeaders": "true",
        }
        return self._spark.read.format("kafka").options(**options).load()
