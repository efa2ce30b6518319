"""`kafka-s3 run CONFIG|NAME`: run a sink, continuously or until what is there now has been worked off."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from threading import Event
from typing import Annotated

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Overrides, SinkName, Where, WorkerPath, unlogged
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_config
from kafka_s3.cli.display import ProgressObserver
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import resolved
from kafka_s3.model.clock import now_ms
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Reason
from kafka_s3.model.observer import Observer
from kafka_s3.tools.logs import LogFormat, LogObserver, log_to_stderr
from kafka_s3.tools.preflight import ask_bucket, ask_kafka
from kafka_s3.wiring.metering import metering
from kafka_s3.wiring.running import attended, run_until_drained, run_until_stopped, stopping


@composed(where=Where)
def run(
    sink: SinkName,
    where: Where,
    worker: WorkerPath = None,
    overrides: Overrides = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Work off what is in Kafka now, then stop.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --available-now: also close the files still open.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines look.")] = LogFormat.TEXT,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Tell what the sink does; -vv also why: plans, closed files, requests."
        ),
    ] = 0,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress", help="A progress bar instead of log lines; default: on a terminal without -v."
        ),
    ] = None,
    cores: Annotated[
        str, typer.Option(help="Cores of a local Spark session, where none is given by the surroundings.")
    ] = "*",
) -> None:
    """Run a sink until it is told to stop (SIGTERM or Ctrl-C ends it cleanly after the current commit)."""
    if flush and not available_now:
        raise ConfigError(
            [Problem("--flush", None, "goes with --available-now.", "Use flush.idle.ms for a continuous sink.")]
        )
    log_to_stderr(log_format, verbosity=verbose)
    settings = unlogged(resolved(sink_config(sink, where, worker, overrides).usable()))
    with _observer(progress if progress is not None else sys.stderr.isatty() and not verbose) as observer:
        ask_bucket(settings, observer.preparing)
        _run(settings, cores, observer, available_now=available_now, flush=flush)


def _observer(progress: bool) -> AbstractContextManager[Observer]:
    return ProgressObserver(Console(stderr=True)) if progress else nullcontext(LogObserver())


def _run(settings: Settings, cores: str, observer: Observer, *, available_now: bool, flush: bool) -> None:
    from kafka_s3.spark.launch import sink_on_spark
    from kafka_s3.spark.session import end_session, spark_session

    stop = Event()
    with (
        metering([settings]) as meters,
        attended(settings, observer=observer, clock_ms=now_ms, meters=meters) as attendance,
        stopping(stop),
    ):
        ask_kafka(settings, observer.preparing)
        observer.preparing("starting Spark")
        spark = spark_session(name=settings.name, cores=cores)
        try:
            sink = sink_on_spark(settings, spark, observer=attendance.heartbeat, store=attendance.store)
            channel = attendance.channel
            if available_now:
                close = Reason.FLUSH_NOW if flush else None
                run_until_drained(sink, settings, stop, close=close, channel=channel)
            else:
                run_until_stopped(sink, settings, stop, channel=channel)
        finally:
            end_session(spark)
