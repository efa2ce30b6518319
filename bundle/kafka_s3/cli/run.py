"""`kafka-s3 run CONFIG`: run a sink, continuously or until what is there now has been worked off."""

from __future__ import annotations

import signal
import sys
from threading import Event
from types import FrameType
from typing import Annotated, Final

import typer
from rich.console import Console

from kafka_s3.cli.display import ProgressObserver
from kafka_s3.cli.logs import LogFormat, LogObserver, log_to_stderr
from kafka_s3.cli.validate import ConfigPath, Overrides, WorkerPath, pairs
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import load
from kafka_s3.control import ControlDesk
from kafka_s3.errors import ConfigError, Problem
from kafka_s3.heartbeat import Pulse, beating
from kafka_s3.masking import masking
from kafka_s3.model import Reason
from kafka_s3.observer import Observer
from kafka_s3.pipeline import state_paths
from kafka_s3.runner import UNATTENDED, Desk, run_available_now, run_continuously, waiting
from kafka_s3.sink import Sink

INTERVAL: Final = "heartbeat.interval.ms"


def run(
    config: ConfigPath,
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
    """Run a sink until it is told to stop (SIGTERM or Ctrl-C ends it cleanly after the current round)."""
    if flush and not available_now:
        raise ConfigError(
            [Problem("--flush", None, "goes with --available-now.", "Use flush.idle.ms for a continuous sink.")]
        )
    log_to_stderr(log_format)
    settings = load(config, worker_path=worker, overrides=pairs(overrides)).resolved()
    stop = Event()
    if progress if progress is not None else sys.stderr.isatty():
        with ProgressObserver(Console(stderr=True)) as bar:
            _run(settings, cores, stop, bar, available_now=available_now, flush=flush)
    else:
        _run(settings, cores, stop, LogObserver(), available_now=available_now, flush=flush)


def run_sink(
    sink: Sink, settings: Settings, stop: Event, *, available_now: bool, flush: bool, desk: Desk = UNATTENDED
) -> None:
    """Runs a sink in one of the two ways."""
    backoff, wait = settings.number("retry.backoff.ms"), waiting(stop)
    if available_now:
        run_available_now(sink, backoff_ms=backoff, wait=wait, close=Reason.FLUSH_NOW if flush else None, desk=desk)
    else:
        run_continuously(sink, poll_ms=settings.number("poll.interval.ms"), backoff_ms=backoff, wait=wait, desk=desk)


def stop_on_signals(stop: Event) -> None:
    """SIGTERM and the first Ctrl-C end the sink after its round; a second Ctrl-C ends it at once, which is safe too."""

    def ask(number: int, _: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def _run(settings: Settings, cores: str, stop: Event, observer: Observer, *, available_now: bool, flush: bool) -> None:
    from kafka_s3.spark.launch import now_ms, sink_on_spark
    from kafka_s3.spark.session import spark_session
    from kafka_s3.storage.options import store_options
    from kafka_s3.storage.s3 import S3Store

    store, paths, interval = S3Store(store_options(settings)), state_paths(settings), settings.number(INTERVAL)
    mask = masking(settings)
    with beating(Pulse(store, paths, interval_ms=interval, clock_ms=now_ms, mask=mask, inner=observer)) as pulse:
        spark = spark_session(name=settings.name, cores=cores)
        stop_on_signals(stop)
        try:
            sink = sink_on_spark(settings, spark, observer=pulse)
            desk = ControlDesk(store, paths, pulse=pulse, clock_ms=now_ms)
            run_sink(sink, settings, stop, available_now=available_now, flush=flush, desk=desk)
        finally:
            spark.stop()
