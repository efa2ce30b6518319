"""How does a round of assignments become jobs of Spark? In three ways; each has a verb of its own.

`TasksSource.run_reading_tasks`: Spark hands out numbers, and its tasks read Kafka for themselves. `SparkSource.run_job`: one batch read of
Spark's Kafka source with explicit offsets, whose tasks do the work. `DriverSource.run_on_driver`: where tasks have no network, as on
serverless compute, Spark only reads, and the driver does the rest, one topic-partition after the other. Only DataFrame calls that Spark
Connect has too, but for numbers in a classic session, which an RDD hands out for less (`texts_by_numbers`).

Spark turns a record's time into microseconds before anything else, and fails where that is beyond 64 bits: a producer that counts in
nanoseconds is enough. No selection of columns avoids it, and the failure does not say the offset. `UnreadableFallback` has such a range go
through the same pipeline in the driver's process, one topic-partition at a time, in batches bounded by bytes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from kafka_s3.connect.config.jaas import IAM_MECHANISM, SHADE, SHADES, Module, renamed
from kafka_s3.connect.config.librdkafka import AUTO_RACK, RACK
from kafka_s3.connect.config.options.client import IAM_HANDLER, LOGIN_HANDLER
from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.loop.planner import RANGES_IN_A_TASK, is_quiet
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.kafka.reader.settings import ReadScope
from kafka_s3.model.errors import EngineDied, KafkaUnavailable, SourceError, UnreadableRecord
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.spark.failures import SPARK_ERRORS, death, source_error
from kafka_s3.run.spark.report_form import outcome_of
from kafka_s3.run.spark.task import REPORT, ReadingTask, Task, process, texts_by_numbers
from kafka_s3.run.wiring.pipeline import TaskPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ReadRanges: TypeAlias = Callable[[Sequence[Assignment]], list[TaskOutcome]]
"""One of the ways: one outcome per assignment, as `model.protocols.Source.read`; there is at least one assignment."""

# ------------------------------------------------------------ tasks that read for themselves

TASKS_AT_LEAST: Final = 16
"""Quiet ranges share tasks only where there are more of them than this: each has requests to S3 to wait for."""
TINY_RECORDS: Final = 1_000
TINY_RANGES: Final = 4
"""More ranges than these, with no more records in all, are few tasks nevertheless: each worker that is awake holds 50 MB."""


class TasksSource:
    """Tasks that read for themselves. `properties` are the consumer's, by their Java names."""

    def __init__(
        self, spark: SparkSession, plan: TaskPlan, *, bootstrap_servers: str, properties: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._bootstrap_servers = bootstrap_servers
        self._properties = dict(properties)

    def run_reading_tasks(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """Runs one Spark job for the assignments. Where Spark gives the job up as a whole, all of them have failed with its reason."""
        task = ReadingTask(
            self._plan,
            tuple(shares(assignments, 1 if is_tiny(assignments) else self._plan.tasks_max)),
            self._bootstrap_servers,
            self._properties,
        )
        try:
            return [outcome_of(text) for text in texts_by_numbers(self._spark, len(task.shares), task.run)]
        except SPARK_ERRORS as error:
            reason = death(error)
            if reason is None:
                raise
            return [TaskFailure(wanted.topic_partition, reason) for wanted in assignments]


def is_tiny(assignments: Sequence[Assignment]) -> bool:
    """Whether a round is hardly worth a worker of Spark's, let alone several."""
    records = sum(one.until - one.first_unread for one in assignments)
    return len(assignments) > TINY_RANGES and records <= TINY_RECORDS


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


# ------------------------------------------------------------ Spark's Kafka source

T = TypeVar("T")
FETCH: Final = {
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.buffer.bytes": str(1 << 20),
}
"""Consumer settings tuned for bulk reading; worth about 30 % of the read path."""
ROWS_PER_BATCH: Final = 16_384
BYTES_PER_BATCH: Final = 64 << 20
V1_READERS: Final = "spark.sql.sources.useV1SourceList"
HEADERS: Final = "array<struct<key:string,value:binary>>"


class SparkSource:
    """Spark's Kafka source. `kafka` are the consumer's Java properties, as Spark takes them behind `kafka.`."""

    def __init__(
        self, spark: SparkSession, plan: TaskPlan, *, bootstrap_servers: str, kafka: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._options = {"kafka.bootstrap.servers": bootstrap_servers}
        self._options |= {f"kafka.{name}": value for name, value in {**FETCH, **(kafka or {})}.items()}
        self._is_tuned = False

    def run_job(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """Runs one Spark job for the assignments. A job that fails because of one of them is run again for each alone.

        Raises UnreadableRecord, with nothing done, where another client can read what Spark cannot.
        """
        try:
            return self._run_job(assignments)
        except (KafkaUnavailable, EngineDied) as error:
            return [TaskFailure(wanted.topic_partition, error) for wanted in assignments]
        except UnreadableRecord:
            raise
        except SourceError as error:
            if len(assignments) == 1:
                return [TaskFailure(assignments[0].topic_partition, error)]
            return [outcome for wanted in assignments for outcome in self.run_job([wanted])]

    def _run_job(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        reports = self._records(assignments).mapInArrow(self.task(assignments).run, REPORT)
        rows = _answer(lambda: [row.report for row in reports.collect()])
        found = {outcome.topic_partition: outcome for outcome in map(outcome_of, rows)}
        # a range without records, only gaps, reaches no task
        return [found.get(one.topic_partition) or process(self._plan, one, []) for one in assignments]

    def task(self, assignments: Sequence[Assignment]) -> Task:
        """What has to be done with the records of the assignments."""
        return Task(self._plan, tuple(assignments))

    def first_batches(self, wanted: Assignment) -> list[pa.RecordBatch]:
        """The first records of a range in order, here instead of in a task, as `Task.run` takes them: all, or `BYTES_PER_READ` of them.

        Raises SourceError.
        """
        records = self._records([wanted])
        table: pa.Table = _answer(records.mapInArrow(first_bytes, records.schema).toArrow)
        return list(table.to_batches(max_chunksize=ROWS_PER_BATCH))

    def _records(self, assignments: Sequence[Assignment]) -> DataFrame:
        scope, topics = self._plan.scope, {wanted.topic_partition.topic for wanted in assignments}
        # one more column costs as a step of the work: a topic's name 6 % of all
        named = [F.col("topic")] if len(topics) > 1 else []
        return self.frame(assignments, headers=scope is not ReadScope.VALUES).select(*named, *_columns(scope))

    def frame(self, assignments: Sequence[Assignment], *, headers: bool = True) -> DataFrame:
        """Kafka's records in the assignments' ranges, unprocessed."""
        if not self._is_tuned:  # with the first of them: it takes Spark's SQL, which others do without
            _tune(self._spark)
            self._is_tuned = True
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


def _tune(spark: SparkSession) -> None:
    """Larger batches, and Spark's newer Kafka reader: the default one makes a `Row` of each record and takes it apart again."""
    with contextlib.suppress(PySparkException):  # a platform that allows no such settings is only slower
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_PER_BATCH))
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(BYTES_PER_BATCH))
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


def _columns(scope: ReadScope) -> list[Column]:
    """What crosses from Spark to Python for each record, beside its topic where there are several."""
    wanted = [*map(F.col, ("partition", "offset", "value")), F.unix_millis("timestamp").alias("timestamp")]
    if scope is ReadScope.ENVELOPES:
        # an empty list instead of null: on the way to Python a column of null lists takes 30 microseconds a record, five times all else
        headers = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
        return [*wanted, F.col("key"), headers.alias("headers")]
    return [*wanted, _schema_name().alias(SCHEMA_NAME)] if scope is ReadScope.SCHEMA_NAMES else wanted


def _schema_name() -> Column:
    """The header that names the value's schema, the last one if there are several; nearly always null (SEMANTICS A11)."""
    named = F.filter("headers", lambda header: header["key"] == VALUE_SCHEMA)
    found = F.try_element_at(named, F.lit(-1)).getField("value")
    # the filter takes its time, and most records have no headers at all
    return F.when(F.col("headers").isNotNull(), found)


# ------------------------------------------------------------ where only Spark has a network

OFFSETS_PER_READ: Final = 100_000
"""What one job of Spark reads; of these records the driver holds as many as `first_bytes` lets pass."""
BYTES_PER_READ: Final = 64 << 20
RECORD_BYTES: Final = 32
"""What a record costs beside its key, value and headers."""


class DriverSource:
    """The pipeline in the process of the driver, fed by Spark."""

    def __init__(self, spark: SparkSource) -> None:
        self._spark = spark

    def run_on_driver(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment. Raises SourceError."""
        return [self._outcome(wanted) for wanted in assignments]

    def _outcome(self, wanted: Assignment) -> TaskOutcome:
        task = self._spark.task([wanted])
        rows = [row for batch in task.run(self._batches(wanted)) for row in batch.column(0).to_pylist()]
        return outcome_of(rows[0]) if rows else process(task.plan, wanted, [])

    def _batches(self, wanted: Assignment) -> Iterator[pa.RecordBatch]:
        start = wanted.first_unread
        while start < wanted.until:
            piece = replace(wanted, start=start, until=min(start + OFFSETS_PER_READ, wanted.until), state=None)
            batches = self._spark.first_batches(piece)
            start = batches[-1].column("offset")[-1].as_py() + 1 if is_cut(batches) else piece.until
            yield from batches


def first_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first records, until they have BYTES_PER_READ; the last one may go beyond. Runs in Spark's task, before anything is collected."""
    left = BYTES_PER_READ
    for batch in batches:
        if left <= 0:
            continue  # Spark wants its rows to be taken
        held = sizes(batch)
        rows = int(np.searchsorted(np.cumsum(held) - held, left))
        yield batch.slice(0, rows)
        left -= int(held[:rows].sum())


def is_cut(batches: Iterable[pa.RecordBatch]) -> bool:
    """Whether records may have been left out behind these."""
    return sum(int(sizes(batch).sum()) for batch in batches) >= BYTES_PER_READ


def sizes(batch: pa.RecordBatch) -> Longs:
    """The bytes of each record of a batch: value and, where they cross, key and headers."""
    found = np.full(len(batch), RECORD_BYTES, np.int64)
    for name in ("value", "key"):
        if name in batch.schema.names:
            found += _lengths(batch.column(name))
    if "headers" in batch.schema.names:
        found += _header_bytes(batch.column("headers"))
    return found


def _header_bytes(headers: pa.Array) -> Longs:
    inside = headers.flatten()
    ends = np.concatenate([[0], np.cumsum(_lengths(inside.field(0)) + _lengths(inside.field(1)))])
    bounds = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy())])
    found: Longs = ends[bounds[1:]] - ends[bounds[:-1]]
    return found


def _lengths(column: pa.Array) -> Longs:
    found: Longs = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return found


# ------------------------------------------------------------ what Spark cannot read

LATEST_MS: Final = (2**63 - 1) // 1000
"""The last time, in epoch ms, that Spark can count in microseconds."""


class UnreadableFallback:
    """Spark's Kafka source, one way or the other, with another client for what it cannot read. `records` are the same topics.

    A topic-partition that Spark could not read once is read here from then on, until a range of it holds nothing of the kind.
    """

    def __init__(self, by_spark: ReadRanges, plan: TaskPlan, records: PlainReader) -> None:
        self._by_spark = by_spark
        self._plan = plan
        self._records = records
        self._here: set[TopicPartition] = set()

    def run_with_fallback(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment. Raises what Spark's way raises, but for UnreadableRecord."""
        by_spark = [wanted for wanted in assignments if wanted.topic_partition not in self._here]
        reports = self._try_spark(by_spark) if by_spark else []
        return [*reports, *(self._process_here(wanted) for wanted in assignments if wanted not in by_spark)]

    def _try_spark(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """The outcomes; where the job cannot read a record, each topic-partition is tried alone, to find whose it is."""
        try:
            return self._by_spark(assignments)
        except UnreadableRecord:
            if len(assignments) == 1:
                self._here.add(assignments[0].topic_partition)
                return [self._process_here(assignments[0])]
        return [report for wanted in assignments for report in self._try_spark([wanted])]

    def _process_here(self, wanted: Assignment) -> TaskOutcome:
        is_beyond_spark = False

        def watched() -> Iterator[pa.RecordBatch]:
            nonlocal is_beyond_spark
            for batch in self._records.batches(wanted.topic_partition, wanted.first_unread, until=wanted.until):
                latest = pc.max(batch.column("timestamp")).as_py()
                is_beyond_spark |= latest is not None and latest > LATEST_MS
                yield batch

        outcome = process(self._plan, wanted, watched())
        if not is_beyond_spark:
            self._here.discard(wanted.topic_partition)
        return outcome


# ------------------------------------------------------------ properties of Spark's consumer

SPARK_OWNS: Final = frozenset({"auto.offset.reset", "group.id", "client.id", "enable.auto.commit"})
HANDLER: Final = "sasl.login.callback.handler.class"
CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"


class KafkaClasses(StrEnum):
    """How the classes of Kafka and of Amazon MSK are called: by their names, or as in the copies that Databricks brings along."""

    PLAIN = "plain"
    SHADED = "shaded"

    def prefix(self, module: Module) -> str:
        """What precedes the name of a login module, and of the handlers that go with it."""
        return SHADES[module] if self is KafkaClasses.SHADED else ""


def kafka_classes(environment: Mapping[str, str]) -> KafkaClasses:
    """The names of the surroundings: shaded on Databricks."""
    return KafkaClasses.SHADED if "DATABRICKS_RUNTIME_VERSION" in environment else KafkaClasses.PLAIN


def reading_properties(java: Mapping[str, str], classes: KafkaClasses) -> dict[str, str]:
    """The properties for reading, with class names as they are called there, whichever spelling the configuration has."""
    found = {name: value for name, value in java.items() if name not in SPARK_OWNS}
    if found.get(RACK) == AUTO_RACK:  # Spark's consumers all have the same properties
        del found[RACK]
    if "sasl.jaas.config" in found:
        found["sasl.jaas.config"] = renamed(found["sasl.jaas.config"], prefix=classes.prefix)
    if found.get("sasl.mechanism") == "OAUTHBEARER":  # Kafka's default handler makes unsigned tokens of its own
        found[HANDLER] = classes.prefix(Module.OAUTHBEARER) + found.get(HANDLER, LOGIN_HANDLER).removeprefix(SHADE)
    if found.get("sasl.mechanism") == IAM_MECHANISM:
        found[CLIENT_HANDLER] = classes.prefix(Module.IAM) + IAM_HANDLER
    return found
