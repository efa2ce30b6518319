"""`kafka-s3 run CONFIG|NAME`: run a sink, continuously or until what is there now has been worked off."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Annotated, Final

import typer
from rich.console import Console

from kafka_s3.cli.arguments import Overrides, SinkName, Where, WorkerPath, settings_of
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import Target, is_file, named_place, stored_settings
from kafka_s3.cli.display import ProgressObserver
from kafka_s3.cli.logs import LogFormat, LogObserver, log_to_stderr
from kafka_s3.config.masking import masking
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import resolved
from kafka_s3.control.commands import ControlChannel
from kafka_s3.control.heartbeat import HeartbeatWriter, beating
from kafka_s3.driver.runner import UNATTENDED, CommandChannel, run_available_now, run_continuously, waiting
from kafka_s3.driver.sink import Sink
from kafka_s3.model.clock import now_ms
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Reason
from kafka_s3.model.observer import Observer
from kafka_s3.wiring.pipeline import state_paths

INTERVAL: Final = "heartbeat.interval.ms"
STORED_WORKER: Final = "A stored configuration has its worker's settings with it; --set changes single keys."


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
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="A progress bar instead of log lines; default: on a terminal."),
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
    log_to_stderr(log_format)
    if is_file(sink):
        settings = settings_of(Path(sink), worker, overrides)
    else:
        if worker is not None:
            raise ConfigError([Problem("--worker", str(worker), "goes with a configuration file.", STORED_WORKER)])
        settings = resolved(stored_settings(Target(named_place(where), sink), overrides))
    stop = Event()
    if progress if progress is not None else sys.stderr.isatty():
        with ProgressObserver(Console(stderr=True)) as bar:
            _run(settings, cores, stop, bar, available_now=available_now, flush=flush)
    else:
        _run(settings, cores, stop, LogObserver(), available_now=available_now, flush=flush)


def run_sink(
    sink: Sink,
    settings: Settings,
    stop: Event,
    *,
    available_now: bool,
    flush: bool,
    channel: CommandChannel = UNATTENDED,
) -> None:
    """Runs a sink in one of the two ways."""
    first, longest = pauses(settings)
    if available_now:
        run_available_now(
            sink,
            backoff_ms=first,
            longest_backoff_ms=longest,
            wait=waiting(stop),
            stopped=stop.is_set,
            close=Reason.FLUSH_NOW if flush else None,
            channel=channel,
        )
    else:
        run_continuously(
            sink,
            poll_ms=settings.number("poll.interval.ms"),
            backoff_ms=first,
            longest_backoff_ms=longest,
            wait=waiting(stop),
            stopped=stop.is_set,
            channel=channel,
        )


def pauses(settings: Settings) -> tuple[int, int]:
    """First and longest pause (ms) after something did not answer; both the same under strict, where it does not grow (SEMANTICS A9.2)."""
    first, longest = settings.number("retry.backoff.ms"), settings.number("errors.retry.delay.max.ms")
    if settings.strict or longest <= 0:
        return first, first
    return min(first, longest), longest


def stop_on_signals(stop: Event) -> None:
    """SIGTERM and the first Ctrl-C end the sink after its commit; a second Ctrl-C ends it at once, which is safe too.

    Only a process's first thread may listen; a platform that runs the sink in another one ends it like a crash, which is safe as well.
    """
    if current_thread() is not main_thread():
        return

    def ask(number: int, _: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def _run(settings: Settings, cores: str, stop: Event, observer: Observer, *, available_now: bool, flush: bool) -> None:
    from kafka_s3.spark.launch import sink_on_spark
    from kafka_s3.spark.session import end_session, spark_session
    from kafka_s3.storage.options import store_options
    from kafka_s3.storage.s3 import S3Store

    store, paths, interval = S3Store(store_options(settings)), state_paths(settings), settings.number(INTERVAL)
    mask = masking(settings)
    with beating(
        HeartbeatWriter(store, paths, interval_ms=interval, clock_ms=now_ms, mask=mask, inner=observer)
    ) as heartbeat_writer:
        spark = spark_session(name=settings.name, cores=cores)
        stop_on_signals(stop)
        try:
            sink = sink_on_spark(settings, spark, observer=heartbeat_writer)
            channel = ControlChannel(store, paths, heartbeat_writer=heartbeat_writer, clock_ms=now_ms)
            run_sink(sink, settings, stop, available_now=available_now, flush=flush, channel=channel)
        finally:
            end_session(spark)
