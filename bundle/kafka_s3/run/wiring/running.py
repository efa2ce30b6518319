"""How is a sink run as its settings say? With a heartbeat, obeying `kafka-s3 pause|resume|flush`, until it is asked to stop.

The numbers of a process's sinks go to whoever the configurations name: Prometheus at a port, a collector by OTLP, or nobody.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Final

from kafka_s3.connect.config.settings import Settings, masking
from kafka_s3.engine.control.commands import CommandChannel, ControlChannel
from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Limits, beating
from kafka_s3.engine.control.status import own_state
from kafka_s3.engine.control.stored_settings import note_settings
from kafka_s3.engine.loop.runner import UNATTENDED, run_available_now, run_continuously, waiting
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import EngineDied, SinkError, reason_of
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import Observer
from kafka_s3.run.metrics.exporters import send_otlp, serve_prometheus
from kafka_s3.run.metrics.sink_metrics import Sample, SinkMetrics, memory_samples
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import noted_settings, state_paths
from kafka_s3.run.wiring.sink import pauses
from kafka_s3.store.s3 import S3Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkSession:
    """A sink's process as others see and reach it: `heartbeat` observes its loop, `channel` has what is asked of it.

    `store` is the bucket, whose requests are counted.
    """

    heartbeat: HeartbeatWriter
    channel: ControlChannel
    store: S3Store


@contextmanager
def open_session(
    settings: Settings, *, observer: Observer, clock_ms: Callable[[], int], meters: Metering | None = None
) -> Iterator[SinkSession]:
    """Heartbeats while the body runs, and how it ended afterwards; `meters` count what the loop does, `observer` is notified of it."""
    metrics = None if meters is None else meters.sink(settings, observer, clock_ms)
    store, paths = S3Store(store_options(settings)), state_paths(settings)
    interval = settings.number("heartbeat.interval.ms")
    writer = HeartbeatWriter(
        store,
        paths,
        interval_ms=interval,
        clock_ms=clock_ms,
        mask=masking(settings),
        inner=observer if metrics is None else metrics,
        limits=health_limits(settings),
        claimed=lambda beat: note_settings(
            store, paths, noted_settings(settings, epoch=beat.epoch, at_ms=beat.beat_ms)
        ),
        judge=own_state,
    )
    if metrics is not None:
        metrics.attach(lambda: writer.current, store.requests.taken)
    with beating(writer) as heartbeat:
        channel = ControlChannel(store, paths, heartbeat_writer=heartbeat, clock_ms=clock_ms)
        yield SinkSession(heartbeat, channel, store)


def health_limits(settings: Settings) -> Limits:
    """The limits that a configuration sets (`health.*`)."""
    share = float(settings.text("health.deadletter.max.ratio"))
    return Limits(
        lag=settings.number("health.lag.max.records") or None,
        delay_ms=settings.number("health.delay.max.ms") or None,
        dead_letters=share if share < 1 else None,
    )


def run_until_stopped(sink: Sink, settings: Settings, stop: Event, *, channel: CommandChannel = UNATTENDED) -> None:
    """Round after round, until `stop` is set. Raises SinkError where going on would do harm."""
    first, longest = pauses(settings)
    run_continuously(
        sink,
        poll_ms=settings.number("poll.interval.ms"),
        backoff_ms=first,
        longest_backoff_ms=longest,
        wait=waiting(stop),
        stopped=stop.is_set,
        channel=channel,
    )


def run_until_drained(
    sink: Sink, settings: Settings, stop: Event, *, close: Reason | None = None, channel: CommandChannel = UNATTENDED
) -> None:
    """Processes what is in Kafka now; `close` is the reason for which the files still open are closed then, None leaves them open.

    Raises TopicMissing, when all else is done, where a topic of the configuration is not in Kafka and never was.
    """
    first, longest = pauses(settings)
    run_available_now(
        sink,
        backoff_ms=first,
        longest_backoff_ms=longest,
        wait=waiting(stop),
        stopped=stop.is_set,
        close=close,
        channel=channel,
    )
    if not stop.is_set():
        sink.topics.check_all_found()


@contextmanager
def stopping(stop: Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C set `stop` while the body runs; an engine that fails after that is part of the stop, and no error.

    Whoever ends a service may end all of its processes at once, Spark's among them. What was not committed is read again.
    """
    stop_on_signals(stop)
    try:
        yield
    except SinkError as error:
        if not (isinstance(error, EngineDied) and stop.is_set()):
            raise
        _log.warning("Stopped while a batch was read. %s", error)
    except Exception as error:
        if not stop.is_set():
            raise
        _log.warning(
            "Stopped; the engine had ended before (%s). What was not committed is read again.", reason_of(error)
        )


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


PORT: Final = "metrics.prometheus.port"
OTLP: Final = "metrics.otlp.enable"


@dataclass
class Metering:
    """The numbers of a process: those of each sink that is `metered`, and its memory."""

    _sinks: list[SinkMetrics] = field(default_factory=list)

    def sink(self, settings: Settings, observer: Observer, clock_ms: Callable[[], int]) -> SinkMetrics:
        """An observer that counts what the sink does, and passes it on."""
        one = SinkMetrics(settings.name, inner=observer, clock_ms=clock_ms)
        self._sinks.append(one)
        return one

    def samples(self) -> Iterable[Sample]:
        """Everything as it is now."""
        return [sample for sink in self._sinks for sample in sink.samples()] + list(memory_samples())


@contextmanager
def metering(sinks: Sequence[Settings]) -> Iterator[Metering | None]:
    """Send the numbers of all sinks to where one of them says while the body runs; yield None when none does.

    Raises SinkError when the port is taken.
    """
    ports = sorted({port for one in sinks if (port := one.number(PORT))})
    sends = any(one.flag(OTLP) for one in sinks)
    if not ports and not sends:
        yield None
        return
    found = Metering()
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(serve_prometheus(found.samples, port))
        if sends:
            stack.enter_context(send_otlp(found.samples))
        yield found
