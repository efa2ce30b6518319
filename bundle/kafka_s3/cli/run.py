"""`kafka-s3 run CONFIG|NAME...`: run sinks, continuously or until what is there now has been worked off."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Overrides, SinkNames, Where, WorkerPath
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import sink_config
from kafka_s3.cli.display import ProgressObserver
from kafka_s3.config.masking import masking
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import resolved
from kafka_s3.model.clock import now_ms
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Reason
from kafka_s3.model.observer import Observer
from kafka_s3.spark.session import spark_session
from kafka_s3.spark.several import SharedSession, check_distinct, exit_code, run_side_by_side
from kafka_s3.tools.logs import LogFormat, LogObserver, log_to_stderr, mask_logs
from kafka_s3.tools.preflight import ask_bucket, ask_kafka
from kafka_s3.wiring.metering import Metering, metering
from kafka_s3.wiring.running import attended, run_until_drained, run_until_stopped, stopping


@composed(where=Where)
def run(
    sinks: SinkNames,
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
    """Run a sink, or several, until told to stop (SIGTERM or Ctrl-C ends cleanly after the current commit)."""
    if flush and not available_now:
        raise ConfigError(
            [Problem("--flush", None, "goes with --available-now.", "Use flush.idle.ms for a continuous sink.")]
        )
    log_to_stderr(log_format, verbosity=verbose)
    known = _settings(sinks, where, worker, overrides)
    for one in known:
        mask_logs(masking(one))
    stop, name = Event(), known[0].name if len(known) == 1 else "kafka-s3"
    session = SharedSession(lambda: spark_session(name=name, cores=cores))
    with metering(known) as meters, stopping(stop), closing(session):
        process = _Process(session, stop, meters, available_now, flush)
        if len(known) > 1:
            code = exit_code(run_side_by_side(known, lambda one: process.run(one, LogObserver())))
            raise typer.Exit(code)
        with _observer(progress if progress is not None else sys.stderr.isatty() and not verbose) as observer:
            process.run(known[0], observer)


@dataclass(frozen=True, slots=True)
class _Process:
    """What the sinks of a process share, and how long they run."""

    session: SharedSession
    stop: Event
    meters: Metering | None
    available_now: bool
    flush: bool

    def run(self, settings: Settings, observer: Observer) -> None:
        """Runs a sink, until it is done or told to stop. Raises SinkError."""
        from kafka_s3.spark.launch import sink_on_spark

        ask_bucket(settings, observer.preparing)
        with (
            attended(settings, observer=observer, clock_ms=now_ms, meters=self.meters) as attendance,
            stopping(self.stop),
        ):
            ask_kafka(settings, observer.preparing)
            observer.preparing("starting Spark")
            spark = self.session.of(settings.name)
            sink = sink_on_spark(settings, spark, observer=attendance.heartbeat, store=attendance.store)
            if self.available_now:
                close = Reason.FLUSH_NOW if self.flush else None
                run_until_drained(sink, settings, self.stop, close=close, channel=attendance.channel)
            else:
                run_until_stopped(sink, settings, self.stop, channel=attendance.channel)


def _observer(progress: bool) -> AbstractContextManager[Observer]:
    return ProgressObserver(Console(stderr=True)) if progress else nullcontext(LogObserver())


def _settings(sinks: list[str], where: Where, worker: Path | None, overrides: list[str] | None) -> list[Settings]:
    """The settings of all sinks. Raises ConfigError with every problem of each, before anything is begun."""
    known, problems = list[Settings](), list[Problem]()
    for sink in sinks:
        try:
            known.append(resolved(sink_config(sink, where, worker, overrides).usable()))
        except ConfigError as error:
            if len(sinks) == 1:
                raise
            problems += [replace(one, key=f"{sink}: {one.key}") for one in error.problems]
    if problems:
        raise ConfigError(problems)
    check_distinct(known)
    return known
