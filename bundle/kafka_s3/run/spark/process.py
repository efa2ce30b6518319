"""How do sinks run in this process, from the first question to the last word? For the command and the job.

Several sinks share a session of Spark, which ends where none of them has read anything for a while, and begins again with the next records.
Each sink has a thread with a driver of its own. A sink that fails stops alone: its heartbeat and the log
say why, the others go on. Where Spark itself dies, all of them fail. Spark gives each sink's jobs the same share of its cores (pools of the
mode FAIR).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Event, RLock, Thread, Timer
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.heartbeat import Heartbeat
from kafka_s3.model.errors import ConfigError, Problem, RecordError, SinkError, reason_of
from kafka_s3.model.files import Reason
from kafka_s3.model.process import run_in_thread
from kafka_s3.model.protocols import Observer
from kafka_s3.model.timing import now_ms
from kafka_s3.run.logs import LogObserver, name_in_logs
from kafka_s3.run.spark.class_archive import Duty
from kafka_s3.run.spark.session import (
    SessionTurns,
    duty_of,
    duty_of_all,
    end_session,
    end_session_and_jvm,
    for_workers,
    is_given,
    spark_session,
)
from kafka_s3.run.wiring.clients import ask_bucket, ask_kafka
from kafka_s3.run.wiring.first_start import find_earlier_writer
from kafka_s3.run.wiring.running import Metering, metering, open_session, run_until_drained, run_until_stopped, stopping

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

    from kafka_s3.run.spark.launch import MakeStates


def task_values(beat: Heartbeat) -> Mapping[str, int | None]:
    """The numbers by their keys: `read`, `written` and `dead_letters` are those of this run's last hour, `lag` of its last poll.

    `delay_ms` is how old 95 % of the last commit's records were at most when it was made, None without one.
    """
    return {
        "version": beat.version,
        "lag": sum(beat.lag.values()),
        "read": beat.recent.read,
        "written": beat.recent.written,
        "dead_letters": beat.recent.dead_letters,
        "delay_ms": None if beat.delay is None else beat.delay.slow_ms,
        "open_states": beat.open_states,
        "open_state_bytes": beat.open_state_bytes,
    }


def set_task_values(spark: SparkSession, beat: Heartbeat) -> None:
    """Sets `kafka_s3.<sink>.<number>` for each of them; nothing elsewhere than on Databricks. A refusal is logged."""
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return
    try:
        utilities = import_module("pyspark.dbutils").DBUtils(spark)
        for name, number in task_values(beat).items():
            utilities.jobs.taskValues.set(key=f"kafka_s3.{beat.sink}.{name}", value=number)
    except Exception as error:
        _log.warning("The run's numbers could not be set as task values; nothing else is wrong: %s", reason_of(error))


_log = logging.getLogger(__name__)


class SharedSession:
    """A session that begins once, beside the caller's work; each of several sinks sees it with settings of its own. Thread-safe.

    With `idle_s` it ends, and its JVM, when nobody has used it for so many seconds; the next use begins another.
    """

    def __init__(self, start: Callable[[], SparkSession], *, sinks: int, idle_s: float | None = None) -> None:
        self._start, self._several, self._idle_s, self._lock = start, sinks > 1, idle_s, RLock()
        self._session: Future[SparkSession] | None = None
        self._views: dict[str, SparkSession] = {}
        self._users, self._timer = 0, Timer(0, self._end_if_idle)

    def begin(self) -> Future[SparkSession]:
        """Starts it, unless that was done before."""
        with self._lock:
            if self._session is None:
                import pyspark.sql  # noqa: F401  before the thread does: two that load it at once find halves of it

                self._session = run_in_thread(self._start)
            return self._session

    def for_sink(self, sink: str) -> SparkSession:
        """The session for a sink, whose jobs this thread starts; it does not end any more. Raises what its start raises."""
        with self._lock:
            self._users += 1
        return self._view(sink)

    def turns_of(self, sink: str) -> SessionTurns:
        """The session for a sink that does without one between its rounds."""
        return SessionTurns(partial(self._used, sink))

    @contextmanager
    def _used(self, sink: str) -> Iterator[SparkSession]:
        with self._lock:
            self._timer.cancel()
            self._users += 1
        try:
            yield self._view(sink)
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._idle_s is not None:
                    self._timer = Timer(self._idle_s, self._end_if_idle)
                    self._timer.daemon = True
                    self._timer.start()

    def _view(self, sink: str) -> SparkSession:
        begun = self.begin()
        try:
            session = begun.result()
        except BaseException:
            with self._lock:
                if self._session is begun:
                    self._session = None  # the next use tries to start another
            raise
        if not self._several or getattr(session, "_sc", None) is None:  # Spark Connect has neither
            return session
        session.sparkContext.setLocalProperty("spark.scheduler.pool", sink)
        with self._lock:
            if sink not in self._views:
                self._views[sink] = session.newSession()
            return self._views[sink]

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._users or self._session is None:
                return
            ended, self._session = self._session, None
            self._views.clear()
            end_session_and_jvm(ended.result())
        _log.info("Spark has ended, as nothing was read for %g s (spark.idle.ms)", self._idle_s)

    def close(self) -> None:
        """Ends what was started; waits for a start under way."""
        with self._lock:
            self._timer.cancel()
            if self._session is not None and self._session.exception() is None:
                end_session(self._session.result())


def idle_s(sinks: Sequence[Settings]) -> float | None:
    """After how many seconds without work Spark ends: by the most patient of the sinks. None where it does not, or is not ours to end."""
    limits = [one.number("spark.idle.ms") for one in sinks]
    return None if is_given() or 0 in limits else max(limits) / 1000


@dataclass(frozen=True, slots=True)
class FailedSink:
    """A sink that has failed, and why."""

    sink: str
    error: Exception


def run_side_by_side(sinks: Sequence[Settings], work: Callable[[Settings], None]) -> list[FailedSink]:
    """Works for each sink in a thread of its own until all have ended; logs those that fail, and returns them."""
    failed: list[FailedSink] = []

    def run(settings: Settings) -> None:
        name_in_logs(settings.name)
        try:
            work(settings)
        except Exception as error:
            failed.append(FailedSink(settings.name, error))
            coordinates = error.coordinates if isinstance(error, RecordError) else {}
            facts = {"error": type(error).__name__, **coordinates, "reason": reason_of(error)}
            trace = None if isinstance(error, SinkError) else error
            _log.critical("failed; the other sinks go on", extra={"facts": facts}, exc_info=trace)

    threads = [Thread(target=run, args=(one,), name=f"sink {one.name}", daemon=True) for one in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def exit_code(failed: Sequence[FailedSink]) -> int:
    """0 where none has failed, the code of their errors where all have the same (docs/operations.md, "Exit codes"), else 1."""
    codes = {one.error.exit_code if isinstance(one.error, SinkError) else SinkError.exit_code for one in failed}
    return min(codes, default=0) if len(codes) < 2 else SinkError.exit_code


def check_distinct(sinks: Sequence[Settings]) -> None:
    """Raises ConfigError where two of them are one sink: they would fence each other."""
    seen = set[tuple[str, ...]]()
    for one in sinks:
        coordinates = one.text("s3.bucket.name"), one.text("state.prefix").strip("/"), one.name
        if coordinates in seen:
            raise ConfigError(
                [
                    Problem(
                        "name", one.name, "is that of two configurations with one state.", "Name one of them otherwise."
                    )
                ]
            )
        seen.add(coordinates)


@dataclass(frozen=True, slots=True)
class Process:
    """What the sinks of a process share, and how long they run: until what is in Kafka is processed (`available_now`), or until `stop`.

    `close` is the reason for which files still open are closed then; None leaves them open. `states` makes what keeps state tables.
    """

    session: SharedSession
    stop: Event
    meters: Metering | None
    available_now: bool
    close: Reason | None
    states: MakeStates | None = None

    def run_all(self, sinks: Sequence[Settings], observer: Observer) -> int:
        """Runs the sinks to their ends, several side by side, each of which is logged; gives the exit code.

        Of one alone the `observer` is called. Raises what ends it.
        """
        if len(sinks) > 1:
            return exit_code(run_side_by_side(sinks, lambda one: self.run(one, LogObserver())))
        self.run(sinks[0], observer)
        return 0

    def run(self, settings: Settings, observer: Observer) -> None:
        """Runs a sink to its end. What is refused or silent ends it before Spark starts. Raises SinkError."""
        from kafka_s3.run.spark.launch import sink_on_spark  # loads pyspark

        ask_bucket(settings, observer.preparing)
        # a heartbeat in the bucket for `kafka-s3 status` and the dashboard, and an ear for `kafka-s3 pause`, `resume` and `flush`
        opened = open_session(settings, observer=observer, clock_ms=now_ms, meters=self.meters)
        with opened as sink_session, stopping(self.stop):
            brokers = ask_kafka(settings, observer.preparing)
            store, heartbeat = sink_session.store, sink_session.heartbeat
            problem = find_earlier_writer(settings, brokers, store, warn=heartbeat.follower_warned)
            if problem is not None:
                raise ConfigError([problem])
            observer.preparing("starting Spark")
            spark, channel = self._session_for(settings), sink_session.channel
            sink = sink_on_spark(settings, spark, observer=heartbeat, store=store, states=self.states)
            try:
                if self.available_now:
                    run_until_drained(sink, settings, self.stop, close=self.close, channel=channel)
                else:
                    run_until_stopped(sink, settings, self.stop, channel=channel)
            finally:
                if not isinstance(spark, SessionTurns):
                    set_task_values(spark, heartbeat.current)

    def _session_for(self, settings: Settings) -> SparkSession | SessionTurns:
        """The session, which has started. Whoever names tables in it or keeps them there has it for good."""
        if is_given() or duty_of(settings) is Duty.QUERIES:
            return self.session.for_sink(settings.name)
        turns = self.session.turns_of(settings.name)
        with turns.used():
            return turns


@contextmanager
def process_of(
    sinks: Sequence[Settings],
    *,
    available_now: bool,
    close: Reason | None = None,
    cores: str = "*",
    jvm: Future[JavaGateway | None] | None = None,
    states: MakeStates | None = None,
) -> Iterator[Process]:
    """A process for these sinks: numbers for whoever they name, an ear for SIGTERM, and one session of Spark, which the first starts.
    `jvm` is one that was begun for it (`session.begun_jvm`), `states` makes what keeps state tables.

    That of a platform is taken, and left as it is. Raises ConfigError, also where two of them are one sink; SinkError.
    """
    check_distinct(sinks)
    stop, name = Event(), sinks[0].name if len(sinks) == 1 else "kafka-s3"
    start = partial(spark_session, name=name, cores=cores, duty=duty_of_all(sinks), more=for_workers(sinks), jvm=jvm)
    session = SharedSession(start, sinks=len(sinks), idle_s=idle_s(sinks))
    with metering(sinks) as meters, stopping(stop), closing(session):
        yield Process(session, stop, meters, available_now, close, states)
