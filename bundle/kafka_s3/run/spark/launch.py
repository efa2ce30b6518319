"""How does a configuration become a running sink on Spark, and what does Spark do for Delta tables?

Spark gives tables names and writes those that delta-rs cannot write, by calls that Spark Connect has too; where it knows no Delta, errors
say so. How far it is with a round comes from its status tracker, or from Spark Connect's own reports: a task reads a topic-partition, so
a round of few of them moves in large steps.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from kafka_s3.connect.config.rules.followers import STATE_TABLE, TABLE_NAME
from kafka_s3.connect.config.rules.packages import is_installed
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.table_names import TableName, TableNames
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.task.table_guard.columns import TableColumns, read_columns
from kafka_s3.followers.delta.copying import Append, SparkState, Values
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.model.errors import (
    ConfigError,
    Problem,
    TableError,
    TableRefused,
    TableUnavailable,
)
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import run_in_daemon, start_daemon
from kafka_s3.model.protocols import Brokers, Observer, join_observers
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.model.timing import now_ms
from kafka_s3.run.spark.failures import SHOWN, SPARK_ERRORS
from kafka_s3.run.spark.reader_choice import Decided, KafkaReader, ReaderChoice, Trial
from kafka_s3.run.spark.session import Duty, SessionTurns, duty_of, end_session, is_given, spark_session
from kafka_s3.run.spark.source import (
    DriverSource,
    ReadRanges,
    SparkSource,
    TasksSource,
    UnreadableFallback,
    kafka_classes,
    reading_properties,
)
from kafka_s3.run.spark.state_tables import create_schema, has_schema
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import kept_by_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from kafka_s3.followers.delta.maintain import Chores
    from kafka_s3.followers.state import StateTables

BUCKET: Final = "delta.spark.bucket.url"
WIDENING: Final = "delta.enableTypeWidening"
NO_DELTA: Final = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find the data source: delta",
    "DELTA_CONFIGURE_SPARK_SESSION",
)
NO_FILE_SYSTEM: Final = ("No FileSystem for scheme", "ClassNotFoundException: Class org.apache.hadoop.fs.s3a")
OVERTAKEN: Final = re.compile(
    r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception|"
    r"iceberg\.exceptions\.(?:CommitFailed|CommitStateUnknown|Validation)Exception"
)
NO_PACKAGE: Final = "Python's package delta-spark is not installed here: pip install 'kafka-s3[delta]'"
NO_EXTENSION: Final = (
    "This Spark knows no Delta. On Databricks it does, and so does one that kafka-s3 starts itself; start any other with the package "
    "io.delta:delta-spark and the two settings of Delta's quick start (spark.sql.extensions, spark.sql.catalog.spark_catalog), and with a "
    "catalog that outlives it."
)
HISTORY: Final = 1000
_SINK: Final = re.compile(r'\{"kafka-s3":"([^"]*)"')
_GLOB: Final = re.compile(r"([\[\]{}*?\\])")


class SparkCatalog:
    """The catalog of a session. `bucket_url` is where this Spark finds the bucket.

    What is asked of a table goes through delta-spark's `DeltaTable`. Its builder takes no name with a catalog (`main.raw.orders`), so that
    tables are registered by SQL and made by the DataFrame's writer; and appending is the DataFrame's own, for `DeltaTable` has no call.
    """

    def __init__(self, spark: SparkSession, bucket_url: str) -> None:
        self._spark = spark
        self._bucket_url = bucket_url.rstrip("/")

    def lacks(self) -> str | None:
        """Return what is missing for Delta tables, and the way out; None when nothing is.

        The extension is tried by SQL, because `DeltaTable` does not show it.
        """
        if not is_installed("delta"):
            return NO_PACKAGE
        with suppress(AnalysisException):  # there is no such table
            try:
                self._spark.sql("DESCRIBE HISTORY `kafka_s3_no_such_table` LIMIT 1")
            except ParseException:
                return NO_EXTENSION
        return None

    def url(self, key: str) -> str:
        """Where Spark finds an object or a folder."""
        return f"{self._bucket_url}/{key}"

    def location(self, name: TableName) -> str | None:
        """Where the table of that name lies, None where there is none. Raises TableError."""
        with spark_errors(name):
            table = self._table(name)
            return None if table is None else str(_detail(table)["location"])

    def register(self, name: TableName, location: str) -> None:
        """Gives the Delta table at a location that name, unless the name is taken. Raises TableError.

        By SQL, for the builder of `DeltaTable` parses names of two parts only, and a catalog's may have three.
        """
        with spark_errors(name):
            create_schema(self._spark, name)
            self._spark.sql(f"CREATE TABLE IF NOT EXISTS {name.sql} USING DELTA LOCATION {_literal(location)}")

    def state(self, name: TableName) -> SparkState | None:
        """The table as it is, None where there is none. Raises TableError."""
        with spark_errors(name):
            table = self._table(name)
            if table is None:
                return None
            detail, columns = _detail(table), read_columns(table.toDF().schema.json())
            widens = (detail["properties"] or {}).get(WIDENING, "false") == "true"
            return SparkState(str(detail["id"]), str(detail["location"]), columns if widens else columns.fixed())

    def sinks(self, name: TableName) -> set[str]:
        """The sinks that the table's latest history names. Raises TableError."""
        with spark_errors(name):
            table = self._table(name)
            rows = [] if table is None else table.history(HISTORY).select("userMetadata").collect()
        return {found[1] for row in rows if (found := _SINK.match(row["userMetadata"] or "")) is not None}

    def create(self, name: TableName, columns: TableColumns, partition_by: Sequence[str]) -> None:
        """Makes an empty managed table, unless there is one. Raises TableError."""
        with spark_errors(name):
            create_schema(self._spark, name)
            empty = self._spark.createDataFrame([], _schema(columns))
            empty.write.format("delta").mode("ignore").partitionBy(*partition_by).saveAsTable(name.sql)

    def append(self, name: TableName, append: Append) -> None:
        """Reads the objects and appends what they hold, unless the table has that version of the application, or a later one."""
        options: dict[str, str | int | bool] = {
            "txnAppId": append.app, "txnVersion": append.position, "mergeSchema": append.merge, "userMetadata": append.note,
        }  # fmt: skip
        with spark_errors(name):
            frames = [self._read(append, values, keys) for values, keys in append.keys.items()]
            _united(frames).writeTo(name.sql).options(**options).append()

    def _read(self, append: Append, values: Values, keys: Sequence[str]) -> DataFrame:
        paths = [_GLOB.sub(r"\\\1", self.url(key)) for key in keys]
        types = _schema(append.given)
        given = [F.lit(value).cast(types[name].dataType).alias(name) for name, value in values]
        return self._spark.read.schema(_schema(append.columns)).parquet(*paths).select("*", *given)

    def maintain(self, name: TableName, chores: Chores) -> CopyFigures | None:
        """Compacts the table and deletes what it replaced so long ago, as asked for; None where there is none. Raises TableError."""
        with spark_errors(name):
            table = self._table(name)
            if table is None:
                return None
            if "optimize" in chores.steps:
                table.optimize().executeCompaction()
            if "vacuum" in chores.steps:
                table.vacuum(chores.hours)
            return _figures(table)

    def figures(self, name: TableName) -> CopyFigures | None:
        """How large the table is, None where there is none. Raises TableError."""
        with spark_errors(name):
            table = self._table(name)
            return None if table is None else _figures(table)

    def _table(self, name: TableName) -> DeltaTable | None:
        """The table, None where there is none. Raises TableRefused where it is one of another format."""
        from delta.tables import DeltaTable

        if not self._spark.catalog.tableExists(name.sql):
            return None
        try:
            return DeltaTable.forName(self._spark, name.sql)
        except AnalysisException as error:
            if "DELTA_MISSING_DELTA_TABLE" not in str(error) and "is not a Delta table" not in str(error):
                raise
            raise TableRefused(f"{name} is not a Delta table. Set another delta.table.name.") from error


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """The size of a table that Spark wrote."""

    version: int
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"version {self.version}, {self.files:,} files, {self.bytes:,} bytes"


def maintained_copies(
    settings: Settings, topics: Sequence[str], chores: Chores, *, dry_run: bool
) -> Iterator[tuple[str, str | TableError | None]]:
    """Maintains the tables that Spark writes, or only looks at them: per topic what there is now, None for no table, or what was refused.

    Raises ConfigError where the Spark that is there knows no Delta.
    """
    session = spark_session(name=f"kafka-s3 maintenance of {settings.name}", duty=Duty.TABLES)
    catalog = _catalog(settings, session)
    names = TableNames(settings.text("delta.table.name"))
    if catalog is None:
        return
    for topic in topics:
        try:
            name = names.of(topic)
            found = catalog.figures(name) if dry_run else catalog.maintain(name, chores)
        except TableError as error:
            yield topic, error
        else:
            yield topic, None if found is None else f"{name}, {found}"


def try_tables(settings: Settings) -> str:
    """Start the session that keeps or names the sink's tables, as the sink does, and return what it has.

    Raises TableRefused when it knows no Delta or lacks a table's catalog or schema, LocalServiceError when it does not start.
    """
    patterns = {TABLE_NAME: settings.flag("delta.enable"), STATE_TABLE: kept_by_sink(settings)}
    spark = spark_session(name="kafka-s3 doctor", cores="1", duty=duty_of(settings))
    try:
        if (missing := SparkCatalog(spark, "").lacks()) is not None:
            raise TableRefused(missing)
        texts = ["knows Delta"]
        for key in [key for key, is_on in patterns.items() if is_on and settings.text(key)]:
            name = TableNames(settings.text(key), key).of(next(iter(settings.names("topics")), "topic"))
            texts.append(_schema_text(spark, name))
    finally:
        end_session(spark)
    return ", ".join(texts)


def _schema_text(spark: SparkSession, name: TableName) -> str:
    schema = ".".join(name.parts[:-1])
    with spark_errors(name):
        if has_schema(spark, name):
            return f"schema {schema} exists"
    if is_given():
        raise TableRefused(f"Schema {schema} does not exist, or this user may not see it. Create it, or grant its use.")
    return f"schema {schema} will be created"


def _figures(table: DeltaTable) -> CopyFigures:
    detail, [newest] = _detail(table), table.history(1).select("version").collect()
    return CopyFigures(int(newest["version"]), int(detail["numFiles"]), int(detail["sizeInBytes"]))


def _detail(table: DeltaTable) -> Any:
    [detail] = table.detail().collect()
    return detail


def _schema(columns: TableColumns) -> StructType:
    return StructType.fromJson(json.loads(columns.schema_string()))


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows; by halves, for Spark is slow where one union is nested in another hundreds of times."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _united(frames[:middle]).unionByName(_united(frames[middle:]), allowMissingColumns=True)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@contextmanager
def spark_errors(name: TableName | str) -> Iterator[None]:
    """Spark's errors as ours, on one line."""
    try:
        yield
    except ImportError as error:
        raise TableRefused(f"{name}: {NO_PACKAGE}") from error
    except TypeError as error:
        if "JavaPackage" not in str(error):  # the JVM has no class of Delta
            raise
        raise TableRefused(f"{name}: {NO_EXTENSION}") from error
    except SPARK_ERRORS as error:
        raise table_error(name, error) from error


def table_error(name: TableName | str, error: Exception) -> TableError:
    """What Spark says of a table, as an error of the product."""
    text = str(error)
    if isinstance(error, ParseException) or any(mark in text for mark in NO_DELTA):
        return TableRefused(f"{name}: {NO_EXTENSION}")
    if any(mark in text for mark in NO_FILE_SYSTEM):
        return TableRefused(
            f"{name}: this Spark has no file system for the bucket: {_first_line(text)}. Set {BUCKET} to where it finds the bucket, for "
            "example s3a://bucket with the library hadoop-aws."
        )
    if OVERTAKEN.search(text):
        return TableUnavailable(f"{name}: another writer was in the way: {_first_line(text)}")
    return TableRefused(f"{name}: Spark refuses: {_first_line(text)}")


def _first_line(text: str) -> str:
    """What Delta says, else what Spark says first, without the plan and the stack that may follow."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    of_delta = next((line[line.index("[DELTA_") :] for line in lines if "[DELTA_" in line), None)
    first = next((line for line in lines if not line.startswith("An error occurred while calling")), "nothing")
    return (of_delta or first).rstrip(".")[:SHOWN]


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The tasks of a stage, and how many of them are done."""

    tasks: int
    done: int


Report = Callable[[Iterable[TaskCount]], None]


@contextmanager
def progress_of(
    spark: SparkSession, assignments: Sequence[Assignment], reading: Callable[[int, int], None]
) -> Iterator[None]:
    """Calls `reading(records, wanted)` now and then while the body runs its job, in proportion to the tasks that are done.

    Not where Spark does not say: where the driver reads by itself, and through a Spark Connect older than 4.0.
    """
    wanted = sum(one.until - one.first_unread for one in assignments)

    def report(stages: Iterable[TaskCount]) -> None:
        known = list(stages)
        tasks = sum(stage.tasks for stage in known)
        if tasks:
            reading(wanted * sum(stage.done for stage in known) // tasks, wanted)

    with _watched(spark, report):
        yield


def _watched(spark: SparkSession, report: Report) -> AbstractContextManager[None]:
    """Calls `report` with the stages now and then while the body runs."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        tracker, group = context.statusTracker(), uuid.uuid4().hex
        context.setJobGroup(group, "kafka-s3 reads")  # several sinks may share the session
        return _beside(lambda: report(_active(tracker, group)))
    return _reported_by_connect(spark, report) if hasattr(spark, "registerProgressHandler") else nullcontext()


def _active(tracker: Any, group: str) -> list[TaskCount]:
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    own = {stage for job in jobs for stage in job.stageIds}
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds() if number in own]
    return [TaskCount(stage.numTasks, stage.numCompletedTasks) for stage in stages if stage is not None]


@contextmanager
def _reported_by_connect(spark: SparkSession, report: Report) -> Iterator[None]:
    """What Spark Connect sends with a job's answers; a display that fails stops nothing."""

    def handle(*, stages: Iterable[Any] | None, **_: object) -> None:
        with suppress(Exception):
            report([TaskCount(stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()])

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)


@contextmanager
def _beside(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` now and then while the body runs, until it fails: a display stops nothing."""
    over = Event()

    def look_until_over() -> None:
        while not over.wait(LOOK_S):
            try:
                look()
            except Exception:
                return

    thread = start_daemon(look_until_over, "progress")
    try:
        yield
    finally:
        over.set()
        thread.join()


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeStates = Callable[[Settings, "SparkSession"], "StateTables"]


def sink_on_spark(
    settings: Settings,
    spark: SparkSession | SessionTurns,
    *,
    observer: Observer | None = None,
    store: ObjectStore | None = None,
    states: MakeStates | None = None,
) -> Sink:
    """A sink of resolved settings, not opened yet. `store` is the driver's view of the bucket, where there is one already.

    `states` makes what keeps state tables, for a sink that has some; it needs a session that lasts, as a catalog does.
    """
    properties, watching = consumer_properties(settings), observer or join_observers()
    brokers = KafkaBrokers(settings.text("kafka.bootstrap.servers"), properties=properties)

    def engine_on(session: SparkSession) -> SparkEngine:
        choose = _reader_choice(settings, session, properties, brokers, watching.decided)
        return SparkEngine(session, choose, watching.reading)

    lasting = None if isinstance(spark, SessionTurns) else spark
    engine = EngineInTurns(spark, engine_on) if isinstance(spark, SessionTurns) else engine_on(spark)
    return build_sink(
        settings,
        brokers,
        source=engine,
        store=store or S3Store(store_options(settings)),
        clock_ms=now_ms,
        observer=observer,
        spark=_catalog(settings, lasting) if lasting is not None else None,
        states=states(settings, lasting) if lasting is not None and states and kept_by_sink(settings) else None,
        background=lambda work: run_in_daemon(work, "reads beside the loop"),
        slots=engine.slots,
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
    if settings.text("delta.writer") == "spark" and (missing := catalog.lacks()) is not None:
        raise ConfigError([Problem("delta.writer", "spark", f"cannot write tables here. {missing}")])
    return catalog


# ------------------------------------------------------------ who reads


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """The engine on Spark (`model.protocols.Source`): who reads is chosen by the first range, and `reading` is called as it goes on."""

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

    def slots(self) -> int:
        """How many tasks run at a time."""
        return slots_of(self.spark)


@dataclass(slots=True)
class EngineInTurns:
    """The engine over a session that may end between two rounds; over each new one who reads is found out again."""

    turns: SessionTurns
    engine_on: Callable[[SparkSession], SparkEngine]
    _newest: SparkEngine | None = None

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """As `SparkEngine.read`. Raises what a session's start raises, too."""
        if not assignments:
            return []
        with self.turns.used() as spark:
            engine = self._newest
            if engine is None or engine.spark is not spark:
                self._newest = engine = self.engine_on(spark)
            return engine.read(assignments)

    def slots(self) -> int:
        """As `SparkEngine.slots`, of a session that is there in any case: a backlog is to be read."""
        with self.turns.used() as spark:
            return slots_of(spark)


def slots_of(spark: SparkSession) -> int:
    """How many tasks a session runs at a time; Spark Connect does not say, and then it is `tasks.max` that counts."""
    context = getattr(spark, "_sc", None)
    return sys.maxsize if context is None else int(context.defaultParallelism)
