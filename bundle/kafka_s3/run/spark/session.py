"""Which Spark session does the sink run on? The one that is there, else a local one with the Kafka connector.

On Databricks and under spark-submit a session exists and the connector is part of the runtime or of `--packages`; nothing is added there.
The JVM of a local session and its Python workers write to a pipe in place of standard error: their lines become lines of our log, without
those that say nothing.

A local session is for one of three duties. Where tasks read for themselves, Spark hands out numbers: that needs neither its SQL nor a large
heap, and a session that is used for nothing else never loads them. A session that keeps or names tables loads Delta. Its catalog is Hive's,
which outlives it: Derby's files in the working folder, or the metastore of a hive-site.xml in SPARK_CONF_DIR.

python -m kafka_s3.run.spark.session DUTY OPTIONS     (writes an archive of Spark's classes: `class_archive`)
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from kafka_s3.model.process import run_in_thread, start_daemon
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.spark.class_archive import Duty, joined, spark_classes
from kafka_s3.run.spark.daemon import REGISTRY, WORKERS_FOR
from kafka_s3.run.spark.unneeded import leave_testing_bare, release_code

NOISE: Final = (
    "Picked up J", "Using incubator modules", "Using Spark's default log4j profile", "Setting default log level to",
    "To adjust logging level use", "Setting Spark log level to", "Unable to load native-hadoop library",
)  # fmt: skip
"""Parts of what every start says."""
_log = logging.getLogger(__name__)


@contextmanager
def into_log() -> Iterator[int]:
    """A descriptor, for processes that are started within the body: what they write to it are lines of our log."""
    reading, writing = os.pipe()
    Thread(target=_pass_on, args=(reading,), name="jvm output", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def is_worth_logging(line: str) -> bool:
    """Whether a line says something."""
    return bool(line.strip()) and not any(part in line for part in NOISE)


def _pass_on(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        for line in filter(is_worth_logging, lines):
            _log.warning("%s", line.rstrip())


if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kafka_s3.connect.config.settings import Settings

LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "kafka_s3.run.spark.daemon",
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",
}
"""The traceback's form is Spark's own choice for the functions of a DataFrame; set for all, they share workers with `_first_worker`."""
ATTEMPTS: Final = 2
"""A process that dies takes no other task along: Spark tries the dead one's task again, which then only says so (`attempts`)."""
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    JAVA_OPTIONS: "-Duser.timezone=UTC",
}
"""VACUUM lists a table's folder with as many tasks as partitions may be discovered by: 10,000 unless set, for a table of one file too."""
CATALOG: Final = "spark.sql.catalogImplementation"
DERBY: Final = "metastore_db"
DERBY_LOCK: Final = "dbex.lck"
"""The file of a Derby database that is locked by the process that has it open."""
ARROW: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
COLLECTOR: Final = "-XX:+UseParallelGC"
SMALL_COLLECTOR: Final = "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
"""It keeps no books beside the heap, which take 45 MB with the other, and gives back what is free after a full collection."""
COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=500000 -XX:Tier4MinInvocationThreshold=60000 -XX:Tier4CompileThreshold=1500000 "
    "-XX:Tier4BackEdgeThreshold=4000000"
)
"""The JVM's good compiler took nearly half of a start's CPU. A hundred times its usual thresholds leave it what is busy for long: code that
all records pass through, where Spark reads them.
"""
HEAP: Final = "-Xms64m"
"""A JVM begins with a sixty-fourth of the machine's memory, and touches all of it before it looks for garbage: half a gigabyte of 32."""
SMALL_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""What hands out numbers is never busy: code that counts, for the good compiler, how often it runs takes a third more for nothing."""
SMALL_HEAP: Final = "-Xms16m"
CONVERTERS: Final = ("key.converter", "value.converter")
FIRST_WORKER: Final = "first worker"
FIRST_WORKER_S: Final = 60
ARCHIVE_WRITTEN_S: Final = 180
EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
OPTIONS_OF_USERS: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


def duty_of(settings: Settings) -> Duty:
    """Return what a sink's session is for: tables if it keeps or names some, queries if Spark reads the records."""
    by_spark = settings.text("kafka.reader") == "spark" or settings.text("tasks.run.on") == "driver"
    needs = {Duty.QUERIES if by_spark else Duty.NUMBERS}
    if settings.flag("delta.enable") and settings.text("delta.table.name"):
        needs.add(Duty.TABLES)
    if settings.flag("state.enable") and settings.text("state.run.on") == "sink":
        needs.add(duty_of_states(settings))
    return max(needs, key=list(Duty).index)


def duty_of_states(settings: Settings) -> Duty:
    """Return what the session is for that keeps a sink's state tables. Iceberg's need a catalog that the user configures."""
    return Duty.TABLES if settings.text("state.table.format") == "delta" else Duty.QUERIES


def for_workers(sinks: Sequence[Settings]) -> Mapping[str, str]:
    """The setting that keeps the workers of a session for numbers from loading what none of these sinks needs."""
    if duty_of_all(sinks) is not Duty.NUMBERS:
        return EMPTY
    urls = [one.given(f"{converter}.schema.registry.url") for one in sinks for converter in CONVERTERS]
    return {f"spark.executorEnv.{WORKERS_FOR}": REGISTRY if any(urls) else "records"}


def duty_of_all(sinks: Sequence[Settings]) -> Duty:
    """Return what the session is for that several sinks share."""
    return max(map(duty_of, sinks), key=list(Duty).index)


@dataclass(frozen=True, slots=True)
class SessionTurns:
    """A session for whoever does without one between two uses: `used` gives it while its body runs, and it may be another each time."""

    used: Callable[[], AbstractContextManager[SparkSession]]


def spark_session(
    *,
    name: str,
    cores: str = "*",
    duty: Duty = Duty.QUERIES,
    more: Mapping[str, str] = EMPTY,
    jvm: Future[JavaGateway | None] | None = None,
) -> SparkSession:
    """The active session, or a new local one on `cores` cores with the Kafka connector's jars from the cache, in `jvm` if that is given.

    One for numbers does everything else as well, and is only slower to start with it. `more` are settings of a local one.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if is_given():
        return SparkSession.builder.appName(name).getOrCreate()
    return local_session(name=name, cores=cores, duty=duty, more=more, jvm=jvm)


@contextmanager
def begun_jvm(*, name: str, cores: str = "*", duty: Duty = Duty.QUERIES) -> Iterator[Future[JavaGateway | None] | None]:
    """The JVM of a `spark_session` to come, which starts beside what the caller does; None where that one will not be local.

    It raises what the session would raise. One that no session took ends with the body. It waits for no download: on a machine's first
    start the session starts the JVM.
    """
    if is_given():
        yield None
        return
    import pyspark  # noqa: F401  before the thread does: two that load it at once find halves of it

    leave_testing_bare()
    release_code()
    jvm = run_in_thread(lambda: _launched(_local_settings(name, cores, duty)) if _made_before(duty) else None)
    try:
        yield jvm
    finally:
        _end_unless_taken(jvm)


def _end_unless_taken(jvm: Future[JavaGateway | None]) -> None:
    from pyspark import SparkContext

    gateway = None if jvm.exception() is not None else jvm.result()
    if gateway is None or gateway is SparkContext._gateway or gateway.proc.poll() is not None:
        return
    end_jvm(gateway)


def end_jvm(gateway: JavaGateway, *, within_s: float | None = None) -> None:
    """Ends a JVM without a session and waits for its end; `within_s` is how many seconds it may take."""
    gateway.shutdown()
    gateway.proc.stdin.close()  # which ends it
    gateway.proc.wait(within_s)


def _made_before(duty: Duty) -> bool:
    """Whether this machine has what a local session needs: its classes are written down once its jars are there."""
    from kafka_s3.run.java.java import find_java

    return spark_classes(duty).was_tried(find_java())


def is_given() -> bool:
    """Whether the surroundings have a session, or say where it is."""
    return not {"SPARK_REMOTE", "SPARK_ENV_LOADED", "DATABRICKS_RUNTIME_VERSION"}.isdisjoint(os.environ)


def end_session(spark: SparkSession) -> None:
    """Stops the session; that of a platform is left to it, for its runs do not outlive or share it as they should after a stop."""
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    _wait_for_first_worker()
    spark.stop()


def end_session_and_jvm(spark: SparkSession) -> None:
    """Ends a local session with its JVM and all workers; another one may begin then."""
    from pyspark import SparkContext

    context = getattr(spark, "_sc", None)
    gateway = None if context is None else context._gateway
    end_session(spark)
    if gateway is None:  # Spark Connect: it is on another machine
        return
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None
    end_jvm(gateway)


def local_session(
    *,
    name: str,
    cores: str = "*",
    duty: Duty = Duty.QUERIES,
    more: Mapping[str, str] = EMPTY,
    jvm: Future[JavaGateway | None] | None = None,
) -> SparkSession:
    """Start a local session: find Java, and fetch the jars of its duty once.

    Raises LocalServiceError, also when another process has the catalog open that a session for tables would open.
    """
    if duty is Duty.TABLES:
        check_catalog(Path(), os.environ)
    return _started({**_local_settings(name, cores, duty), **more}, jvm, duty)


def _local_settings(name: str, cores: str, duty: Duty) -> dict[str, str]:
    from kafka_s3.run.java.jars import spark_kafka_and_delta_jars, spark_kafka_jars

    if duty is Duty.TABLES:
        more = {**DELTA, CATALOG: "hive", JAVA_OPTIONS: f"{DELTA[JAVA_OPTIONS]} {_archive(duty)}"}
        return _settings(name, cores, more, spark_kafka_and_delta_jars, duty)
    return _settings(name, cores, {JAVA_OPTIONS: _archive(duty)}, spark_kafka_jars, duty)


def check_catalog(folder: Path, environment: Mapping[str, str]) -> None:
    """Raises LocalServiceError when the catalog of a local session cannot be opened in this folder, unless SPARK_CONF_DIR may name another.

    Spark itself would say so by some hundred lines.
    """
    if "SPARK_CONF_DIR" in environment:
        return
    where = folder.resolve()
    if not os.access(where, os.W_OK):
        raise LocalServiceError(
            f"A local Spark keeps tables in its working folder, and {where} cannot be written to. Start it in another folder, or name a "
            "metastore by a hive-site.xml in SPARK_CONF_DIR."
        )
    try:
        with (where / DERBY / DERBY_LOCK).open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError:
        raise LocalServiceError(
            f"Another process keeps tables in {where} ({DERBY}), and only one at a time can. Wait until it has ended, or name a metastore "
            "for several processes by a hive-site.xml in SPARK_CONF_DIR."
        ) from None


def delta_session(*, name: str, cores: str, warehouse: Path) -> SparkSession:
    """Start a local session for tables that lie in a folder, and whose catalog ends with it: for tests and the demo, small and quick."""
    settings = _local_settings(name, cores, Duty.TABLES)
    return _started({**settings, CATALOG: "in-memory", "spark.sql.warehouse.dir": str(warehouse)})


def _archive(duty: Duty = Duty.QUERIES) -> str:
    from kafka_s3.run.java.java import find_java

    return joined(spark_classes(duty).options(find_java()))


def _settings(
    name: str, cores: str, more: Mapping[str, str], jars: Callable[[], Sequence[Path]], duty: Duty = Duty.QUERIES
) -> dict[str, str]:
    options = f"{java_options(os.environ, duty)} {more.get(JAVA_OPTIONS, '')}".strip()
    own = {
        "spark.master": f"local[{cores},{ATTEMPTS}]",
        "spark.app.name": name,
        "spark.jars": ",".join(map(str, jars())),
    }
    return {**LOCAL, **more, **own, JAVA_OPTIONS: options}


def _started(
    settings: Mapping[str, str], jvm: Future[JavaGateway | None] | None = None, duty: Duty = Duty.QUERIES
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:  # a process has one JVM, in which one session can follow another
        begun_before = jvm.result() if jvm is not None else None
        is_there = begun_before is not None and begun_before.proc.poll() is None
        SparkContext._ensure_initialized(gateway=begun_before if is_there else _launched(settings))
    context = SparkContext.getOrCreate(SparkConf().setAll([*settings.items()]))
    start_daemon(partial(_first_worker, context), FIRST_WORKER)
    _leave_the_stop_to_python(context)
    if duty is Duty.NUMBERS:
        return cast("SparkSession", NumbersSession(context))
    session: SparkSession = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    return session


class NumbersSession:
    """A session of which only the context is there; whoever asks for anything else of it loads Spark's SQL: 2,700 classes, 30 MB."""

    def __init__(self, context: SparkContext, whole: Callable[[], SparkSession] | None = None) -> None:
        self.sparkContext = self._sc = context
        self._whole = whole or cache(partial(_whole_session, context))

    def newSession(self) -> NumbersSession:  # noqa: N802 - Spark's name
        """One with settings of its own, once it is whole."""
        return NumbersSession(self._sc, cache(lambda: self._whole().newSession()))

    def stop(self) -> None:
        """Ends it; one that is whole with all that is known of it as the active one."""
        whole = self._whole() if self._sc._jsc is not None and _is_whole(self._sc) else self._sc
        whole.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole(), name)


def _whole_session(context: SparkContext) -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession(context)


def _is_whole(context: SparkContext) -> bool:
    """Whether somebody has made a session over the context."""
    from pyspark.sql import SparkSession

    made = SparkSession._instantiatedSession
    return made is not None and made._sc is context


def _launched(settings: Mapping[str, str]) -> JavaGateway:
    """A JVM that waits for Spark's context, with what Spark's start and its workers need of the environment."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    from kafka_s3.run.java.jars import pyspark_jars
    from kafka_s3.run.java.java import java_environment

    os.environ.update(java_environment())
    os.environ.setdefault("SPARK_HOME", str(pyspark_jars().parent))  # else a script starts a Python to find it
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' Python must be the one that has the product
    with into_log() as lines:
        conf = SparkConf(loadDefaults=False).setAll([*settings.items()])
        return launch_gateway(conf, {"stderr": lines})  # type: ignore[no-untyped-call]


def _first_worker(context: SparkContext) -> None:
    """Has Spark start its workers' daemon, which imports for two seconds, during its first query. If it fails, jobs report it."""
    with suppress(Exception):
        context.parallelize(range(1), 1).count()


def _wait_for_first_worker() -> None:
    """Waits for it where nothing was read meanwhile: a stop while it imports is, to Spark, a worker that crashed."""
    for thread in threading.enumerate():
        if thread.name == FIRST_WORKER:
            thread.join(FIRST_WORKER_S)


def _leave_the_stop_to_python(context: SparkContext) -> None:
    """Lets the JVM ignore SIGTERM: `timeout` and systemd send it to every process of a service, and the sink still has to commit.

    The JVM ends with the session, and when this process is gone, for then its standard input ends.
    """
    signals = context._jvm.sun.misc  # type: ignore[union-attr]
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


def java_options(environment: Mapping[str, str], duty: Duty = Duty.QUERIES) -> str:
    """The options of the local session's JVM. What the user's variables choose stays: with a second garbage collector it does not start."""
    given = " ".join(environment.get(name, "") for name in OPTIONS_OF_USERS)
    small = duty is Duty.NUMBERS
    collector, compiler, heap = (SMALL_COLLECTOR, SMALL_COMPILER, SMALL_HEAP) if small else (COLLECTOR, COMPILER, HEAP)
    ours = {
        collector: r"-XX:\+Use\w+GC\b",
        compiler: r"-XX:[+-]?Tiered",
        heap: r"-Xms|-XX:Initial(HeapSize|RAMPercentage)",
    }
    return " ".join([*(options for options, chosen in ours.items() if not re.search(chosen, given)), ARROW])


def write_class_archive(duty: Duty, options: str) -> None:
    """Runs a local session whose JVM writes its classes at its end, as these options say (`class_archive`), and waits for it."""
    from kafka_s3.run.java.jars import spark_kafka_jars

    spark = _started(_settings("class archive", "2", {JAVA_OPTIONS: options}, spark_kafka_jars, duty), duty=duty)
    if duty is Duty.NUMBERS:
        spark.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    else:
        rows = spark.range(10).selectExpr(
            "id", "cast(id as string) as text", "array(id) as many", "current_timestamp() as at"
        )
        rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    end_jvm(gateway, within_s=ARCHIVE_WRITTEN_S)


if __name__ == "__main__":
    write_class_archive(Duty(sys.argv[1]), sys.argv[2])
