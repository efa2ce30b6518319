"""How does a sink run in this process, from the first question to its last word? For the command and the job; several share a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import Observer
from kafka_s3.model.timing import now_ms
from kafka_s3.run.preflight import ask_bucket, ask_kafka
from kafka_s3.run.spark.session import spark_session
from kafka_s3.run.spark.several import SharedSession, check_distinct
from kafka_s3.run.spark.task_values import set_task_values
from kafka_s3.run.wiring.metering import Metering, metering
from kafka_s3.run.wiring.running import attended, run_until_drained, run_until_stopped, stopping

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway


@dataclass(frozen=True, slots=True)
class Process:
    """What the sinks of a process share, and how long they run: until what is in Kafka is worked off (`available_now`), or until `stop`.

    `close` is the reason for which files still open are closed then; None leaves them open.
    """

    session: SharedSession
    stop: Event
    meters: Metering | None
    available_now: bool
    close: Reason | None

    def run(self, settings: Settings, observer: Observer) -> None:
        """Runs a sink to its end. What is refused or silent ends it before Spark starts. Raises SinkError."""
        from kafka_s3.run.spark.launch import sink_on_spark  # loads pyspark

        ask_bucket(settings, observer.preparing)
        # a heartbeat in the bucket for `kafka-s3 status` and the dashboard, and an ear for `kafka-s3 pause`, `resume` and `flush`
        attendance_of = attended(settings, observer=observer, clock_ms=now_ms, meters=self.meters)
        with attendance_of as attendance, stopping(self.stop):
            ask_kafka(settings, observer.preparing)
            observer.preparing("starting Spark")
            spark, channel = self.session.of(settings.name), attendance.channel
            sink = sink_on_spark(settings, spark, observer=attendance.heartbeat, store=attendance.store)
            try:
                if self.available_now:
                    run_until_drained(sink, settings, self.stop, close=self.close, channel=channel)
                else:
                    run_until_stopped(sink, settings, self.stop, channel=channel)
            finally:
                set_task_values(spark, attendance.heartbeat.current)


@contextmanager
def process_of(
    sinks: Sequence[Settings],
    *,
    available_now: bool,
    close: Reason | None = None,
    cores: str = "*",
    jvm: Future[JavaGateway | None] | None = None,
) -> Iterator[Process]:
    """A process for these sinks: numbers for whoever they name, an ear for SIGTERM, and one session of Spark, which the first starts.
    `jvm` is one that was begun for it (`session.begun_jvm`).

    That of a platform is taken, and left as it is. Raises ConfigError, also where two of them are one sink; SinkError.
    """
    check_distinct(sinks)
    stop, name = Event(), sinks[0].name if len(sinks) == 1 else "kafka-s3"
    session = SharedSession(lambda: spark_session(name=name, cores=cores, jvm=jvm), sinks=len(sinks))
    with metering(sinks) as meters, stopping(stop), closing(session):
        yield Process(session, stop, meters, available_now, close)
