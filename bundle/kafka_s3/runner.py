"""How long does a sink run? Until it is told to stop, or until it has drained what was there when it started."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from kafka_s3.model import Reason
from kafka_s3.sink import Sink

Wait = Callable[[int], bool]
"""Waits milliseconds or until the sink shall stop; returns whether it shall."""


def run_continuously(sink: Sink, *, poll_ms: int, backoff_ms: int, wait: Wait) -> None:
    """Cycles until `wait` says stop. Kafka or a bucket that does not answer is tried again without limit, as the original does."""
    sink.open()
    stop = False
    while not stop:
        stop = wait(poll_ms if sink.cycle() else backoff_ms)


def run_available_now(sink: Sink, *, backoff_ms: int, wait: Wait, close: Reason | None = None) -> None:
    """Works off everything up to the heads of start time and returns; with `close` the open tail is closed too."""
    sink.open()
    sink.look()
    while not sink.try_drain(close=close):
        if wait(backoff_ms):
            return


def waiting(stop: Event) -> Wait:
    """A wait that an event ends."""
    return lambda ms: stop.wait(ms / 1000)
