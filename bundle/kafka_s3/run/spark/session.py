"""Which Spark session does the sink run on? The one that is there, else a local one with the Kafka connector.

On Databricks and under spark-submit a session exists and the connector is part of the runtime or of `--packages`; nothing is added there.
The JVM of a local session and its Python workers write to a pipe in place of standard error: their lines become lines of our log, without
those that say nothing.

A local session that keeps or names tables loads Delta. Its catalog is Hive's, which outlives it: Derby's files in the working folder,
or the metastore of a hive-site.xml in SPARK_CONF_DIR.

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
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from kafka_s3.connect.config.rules.packages import delta_by_spark
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.process import run_in_thread, start_daemon
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.spark.class_archive import joined, spark_classes

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
COLLECTOR: Final = "-XX:+UseSerialGC"
HEAP: Final = "-Xms16m"
"""A JVM begins with a sixty-fourth of the machine's memory, and touches all of it before it looks for garbage: half a gigabyte of 32."""
FIRST_WORKER: Final = "first worker"
FIRST_WORKER_S: Final = 60
ARCHIVE_WRITTEN_S: Final = 180
OPTIONS_OF_USERS: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


class Duty(StrEnum):
    """Purpose of a local session: to read records, or also to keep or name tables, for which it loads Delta."""

    RECORDS = "records"
    TABLES = "tables"


def duty_of(settings: Settings) -> Duty:
    """Return what a sink's session is for."""
    return Duty.RECORDS if delta_by_spark(settings) is None else Duty.TABLES


def duty_of_states(settings: Settings) -> Duty:
    """Return what the session is for that keeps a sink's state tables. Iceberg's need a catalog that the user configures."""
    return Duty.TABLES if settings.text("state.table.format") == "delta" else Duty.RECORDS


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
    jvm: Future[JavaGateway | None] | None = None,
    duty: Duty = Duty.RECORDS,
) -> SparkSession:
    """Return the active session, or a new local one with the Kafka connector's jars from the cache, in `jvm` if that is given."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if is_given():
        return SparkSession.builder.appName(name).getOrCreate()
    return local_session(name=name, cores=cores, jvm=jvm, duty=duty)


@contextmanager
def begun_jvm(*, name: str, cores: str = "*", duty: Duty = Duty.RECORDS) -> Iterator[Future[JavaGateway | None] | None]:
    """The JVM of a `spark_session` to come, which starts beside what the caller does; None where that one will not be local.

    It raises what the session would raise. One that no session took ends with the body. It waits for no download: on a machine's first
    start the session starts the JVM.
    """
    if is_given():
        yield None
        return
    import pyspark  # noqa: F401  before the thread does: two that load it at once find halves of it

    jvm = run_in_thread(lambda: _launched(_local_settings(name, cores, duty)) if _made_before() else None)
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


def _made_before() -> bool:
    """Whether this machine has what a local session needs: its classes are written down once its jars are there."""
    from kafka_s3.run.java.java import find_java

    return spark_classes().was_tried(find_java())


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
    jvm: Future[JavaGateway | None] | None = None,
    duty: Duty = Duty.RECORDS,
) -> SparkSession:
    """Start a local session: find Java, and fetch the jars of its duty once.

    Raises LocalServiceError, also when another process has the catalog open that a session for tables would open.
    """
    if duty is Duty.TABLES:
        check_catalog(Path(), os.environ)
    return _started(_local_settings(name, cores, duty), jvm)


def _local_settings(name: str, cores: str, duty: Duty) -> dict[str, str]:
    from kafka_s3.run.java.jars import spark_kafka_and_delta_jars, spark_kafka_jars

    if duty is Duty.TABLES:
        more = {**DELTA, CATALOG: "hive", JAVA_OPTIONS: f"{DELTA[JAVA_OPTIONS]} {_archive()}"}
        return _settings(name, cores, more, spark_kafka_and_delta_jars)
    return _settings(name, cores, {JAVA_OPTIONS: _archive()}, spark_kafka_jars)


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


def _archive() -> str:
    from kafka_s3.run.java.java import find_java

    return joined(spark_classes().options(find_java()))


def _settings(name: str, cores: str, more: Mapping[str, str], jars: Callable[[], Sequence[Path]]) -> dict[str, str]:
    options = f"{java_options(os.environ)} {more.get(JAVA_OPTIONS, '')}".strip()
    own = {
        "spark.master": f"local[{cores},{ATTEMPTS}]",
        "spark.app.name": name,
        "spark.jars": ",".join(map(str, jars())),
    }
    return {**LOCAL, **more, **own, JAVA_OPTIONS: options}


def _started(settings: Mapping[str, str], jvm: Future[JavaGateway | None] | None = None) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:  # a process has one JVM, in which one session can follow another
        begun_before = jvm.result() if jvm is not None else None
        is_there = begun_before is not None and begun_before.proc.poll() is None
        SparkContext._ensure_initialized(gateway=begun_before if is_there else _launched(settings))
    context = SparkContext.getOrCreate(SparkConf().setAll([*settings.items()]))
    start_daemon(partial(_first_worker, context), FIRST_WORKER)
    _leave_the_stop_to_python(context)
    session: SparkSession = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    return session


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


def java_options(environment: Mapping[str, str]) -> str:
    """Return the options of the local session's JVM. What the user's variables choose stays: a JVM with two collectors does not start."""
    given = " ".join(environment.get(name, "") for name in OPTIONS_OF_USERS)
    ours = {COLLECTOR: r"-XX:\+Use\w+GC\b", HEAP: r"-Xms|-XX:Initial(HeapSize|RAMPercentage)"}
    return " ".join([*(options for options, chosen in ours.items() if not re.search(chosen, given)), ARROW])


def write_class_archive(options: str) -> None:
    """Run a local session whose JVM writes its classes at its end, as these options say (`class_archive`), and wait for it."""
    from kafka_s3.run.java.jars import spark_kafka_jars

    spark = _started(_settings("class archive", "2", {JAVA_OPTIONS: options}, spark_kafka_jars))
    rows = spark.range(10).selectExpr(
        "id", "cast(id as string) as text", "array(id) as many", "current_timestamp() as at"
    )
    rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    end_jvm(gateway, within_s=ARCHIVE_WRITTEN_S)


if __name__ == "__main__":
    write_class_archive(sys.argv[1])
