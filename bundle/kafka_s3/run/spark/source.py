"""How does Spark read the offset ranges where the tasks cannot? One batch read of Kafka with explicit offsets.

Its tasks do the work where they have the pipeline (`SparkSource`); where they have no network, as on serverless compute, Spark only reads,
and the driver does the rest, one topic-partition after the other (`DriverSource`). Only DataFrame calls that Spark Connect has too: no
py4j, no RDD.

Spark turns a record's time into microseconds before anything else, and fails where that is beyond 64 bits: a producer that counts in
nanoseconds is enough. No selection of columns avoids it, and the failure does not say the offset. The range then goes through the same
pipeline in the driver's process, one topic-partition at a time, in batches bounded by bytes (`ReadHereInstead`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from kafka_s3.connect.config.jaas import IAM_MECHANISM, SHADE, SHADES, Module, renamed
from kafka_s3.connect.config.options.client import IAM_HANDLER, LOGIN_HANDLER
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.log.report_form import outcome_of
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.envelopes import envelopes
from kafka_s3.model.errors import EngineDied, KafkaUnavailable, SourceError, UnreadableRecord
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.spark.failures import SPARK_ERRORS, source_error
from kafka_s3.run.spark.task import PLACE, ROWS_PER_BATCH, SMALL_BYTES, ReadMode, Task, last_offset, place_to_read_again

LATEST_MS: Final = (2**63 - 1) // 1000
"""The last time, in epoch ms, that Spark can count in microseconds."""


class ReadHereInstead:
    """An engine on Spark that nothing in a record can stop. `properties` are the consumer's Java properties.

    A topic-partition that Spark could not read once is read here from then on, until a range of it holds nothing of the kind.
    """

    def __init__(self, inner: Source, settings: Settings, *, properties: Mapping[str, str]) -> None:
        self._inner = inner
        self._settings = settings
        self._properties = properties
        self._here: set[TopicPartition] = set()

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment. Raises what the engine raises."""
        by_spark = [wanted for wanted in assignments if wanted.topic_partition not in self._here]
        reports = self._by_spark(by_spark) if by_spark else []
        return [*reports, *(self._read(wanted) for wanted in assignments if wanted not in by_spark)]

    def _by_spark(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """The reports; where the job cannot read a record, each topic-partition is tried alone, to find whose it is."""
        try:
            return self._inner.read(assignments)
        except UnreadableRecord:
            if len(assignments) == 1:
                self._here.add(assignments[0].topic_partition)
                return [self._read(assignments[0])]
        return [report for wanted in assignments for report in self._by_spark([wanted])]

    def _read(self, wanted: Assignment) -> TaskOutcome:
        brokers = KafkaBrokers(self._settings.text("kafka.bootstrap.servers"), properties=self._properties)
        seen = _Seen(envelopes(brokers.clients, wanted.topic_partition, start=wanted.first_unread, until=wanted.until))
        outcome = Task(self._settings, (wanted,)).here(wanted, seen)
        if not seen.beyond:
            self._here.discard(wanted.topic_partition)
        return outcome


class _Seen:
    """Batches, and whether one of them held a time that Spark cannot count."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.beyond = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            latest = pc.max(batch.column("timestamp")).as_py()
            self.beyond |= latest is not None and latest > LATEST_MS
            yield batch


SPARK_OWNS: Final = frozenset({"auto.offset.reset", "group.id", "client.id", "enable.auto.commit"})
HANDLER: Final = "sasl.login.callback.handler.class"
CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"


class KafkaClasses(StrEnum):
    """How the classes of Kafka and of Amazon MSK are called: by their names, or as in the copies that Databricks brings along."""

    PLAIN = "plain"
    SHADED = "shaded"

    def prefix(self, module: Module) -> str:
        """What stands before the name of a login module, and of the handlers that go with it."""
        return SHADES[module] if self is KafkaClasses.SHADED else ""


def kafka_classes(environment: Mapping[str, str]) -> KafkaClasses:
    """The names of the surroundings: shaded on Databricks."""
    return KafkaClasses.SHADED if "DATABRICKS_RUNTIME_VERSION" in environment else KafkaClasses.PLAIN


def reading_properties(java: Mapping[str, str], classes: KafkaClasses) -> dict[str, str]:
    """The properties for reading, with class names as they are called there, whichever spelling the configuration has."""
    found = {name: value for name, value in java.items() if name not in SPARK_OWNS}
    if "sasl.jaas.config" in found:
        found["sasl.jaas.config"] = renamed(found["sasl.jaas.config"], prefix=classes.prefix)
    if found.get("sasl.mechanism") == "OAUTHBEARER":  # Kafka's default handler makes unsigned tokens of its own
        found[HANDLER] = classes.prefix(Module.OAUTHBEARER) + found.get(HANDLER, LOGIN_HANDLER).removeprefix(SHADE)
    if found.get("sasl.mechanism") == IAM_MECHANISM:
        found[CLIENT_HANDLER] = classes.prefix(Module.IAM) + IAM_HANDLER
    return found


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HEADERS: Final = "array<struct<key:string,value:binary>>"


def columns(task: Task, mode: ReadMode) -> list[Column]:
    """What crosses, of the columns of Spark's Kafka source."""
    place, values = _place(task), [F.col(name) for name in ("value", "key", "headers")]
    if mode is ReadMode.PLAIN:
        other = _not_plain(task)
        place, values = F.when(other, F.lit(-1) - place).otherwise(place), [F.when(~other, value) for value in values]
    value, key, headers = values
    wanted = [place.alias(PLACE), F.unix_millis("timestamp").alias("timestamp"), value.alias("value")]
    if task.keeps_envelopes:
        return [*wanted, key.alias("key"), _never_null(headers).alias("headers")]
    names_cross = task.keeps_schema_names and mode is ReadMode.ALL
    return [*wanted, _schema_name().alias(SCHEMA_NAME)] if names_cross else wanted


def _place(task: Task) -> Column:
    """The number of the topic-partition, above the bits of the offset."""
    number, firsts = F.col("partition").cast("long"), task.first_places
    if len(firsts) > 1:
        first = F.create_map(*(F.lit(part) for topic, first in firsts.items() for part in (topic, first)))
        number = F.element_at(first, F.col("topic")).cast("long") + number
    return number * (1 << task.offset_bits) + F.col("offset")


def _not_plain(task: Task) -> Column:
    large = _bytes(task) > SMALL_BYTES
    if task.keeps_envelopes or not task.keeps_schema_names:
        return large
    named = F.exists("headers", lambda header: header["key"] == VALUE_SCHEMA)
    # null where there are no headers, and quickly so: most records have none
    return large | F.coalesce(F.when(F.col("headers").isNotNull(), named), F.lit(False))


def _bytes(task: Task) -> Column:
    """The size of what crosses of a record."""
    value = _size(F.col("value"))
    if not task.keeps_envelopes:
        return value
    headers = F.aggregate(
        "headers", F.lit(0), lambda size, header: size + _size(header["key"]) + _size(header["value"])
    )
    return value + _size(F.col("key")) + F.when(F.col("headers").isNotNull(), headers).otherwise(0)


def _size(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _schema_name() -> Column:
    """The header that names the value's schema, the last one if there are several; nearly always null (SEMANTICS A11)."""
    named = F.filter("headers", lambda header: header["key"] == VALUE_SCHEMA)
    found = F.try_element_at(named, F.lit(-1)).getField("value")
    # the filter takes its time, and most records have no headers at all
    return F.when(F.col("headers").isNotNull(), found)


def _never_null(headers: Column) -> Column:
    """An empty list instead of null: on the way to Python a column of null lists takes 30 microseconds a record, five times all else."""
    return F.coalesce(headers, F.array().cast(HEADERS))


BYTES_PER_READ: Final = 64 << 20
RECORD_BYTES: Final = 32
"""What a record costs beside its key, value and headers."""


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
    places = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy())])
    found: Longs = ends[places[1:]] - ends[places[:-1]]
    return found


def _lengths(column: pa.Array) -> Longs:
    found: Longs = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return found


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


OFFSETS_PER_READ: Final = 100_000
"""What one job of Spark reads; of these records the driver holds as many as `bounded` lets pass."""


class DriverSource:
    """The engine in the process of the driver, fed by Spark."""

    def __init__(self, spark: SparkSource) -> None:
        self._spark = spark

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment."""
        return [self._read(wanted) for wanted in assignments]

    def _read(self, wanted: Assignment) -> TaskOutcome:
        task = self._spark.task([wanted])
        rows = [row for batch in task.run(self._batches(task, wanted)) for row in batch.column(0).to_pylist()]
        return outcome_of(rows[0]) if rows else task.without_records(wanted)

    def _batches(self, task: Task, wanted: Assignment) -> Iterator[pa.RecordBatch]:
        start = wanted.first_unread
        while start < wanted.until:
            part = replace(wanted, start=start, until=min(start + OFFSETS_PER_READ, wanted.until), state=None)
            batches = self._spark.batches(task, part)
            start = last_offset(batches[-1], task.offset_bits) + 1 if is_cut(batches) else part.until
            yield from batches
