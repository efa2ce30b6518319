"""How long does a sink run? Until it is told to stop, or until it has drained what was there when it started; it pauses when asked to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Final, Protocol

from kafka_s3.control import Control
from kafka_s3.model import Reason, TopicPartition
from kafka_s3.sink import Sink

Wait = Callable[[int], bool]
"""Waits milliseconds or until the sink shall stop; returns whether it shall."""


class Desk(Protocol):
    """Where the loop learns between cycles what is asked of the sink, and tells what it did (see `control.ControlDesk`)."""

    @property
    def every_ms(self) -> int:
        """How long to wait before asking for news."""
        ...

    def opened(self, driver: str) -> None:
        """The sink has claimed the log as this driver."""
        ...

    def orders(self) -> Control | None:
        """What is asked, None where it cannot be told yet."""
        ...

    def has_news(self) -> bool:
        """Whether something else is asked than before."""
        ...

    def resting(self, orders: Control) -> None:
        """The sink pauses."""
        ...

    def working(self, orders: Control) -> None:
        """The sink works."""
        ...

    def worked(self, lag: Mapping[TopicPartition, int]) -> None:
        """Everything answered, and what was due is done."""
        ...

    def owes_flush(self, orders: Control) -> bool:
        """Whether a flush is asked for that is not done yet."""
        ...

    def flushed(self, orders: Control) -> None:
        """The flush is done."""
        ...


class Unattended:
    """Nobody asks anything of the sink, and nobody is told."""

    every_ms: int = 2**31

    def opened(self, driver: str) -> None:
        """Nothing."""

    def orders(self) -> Control:
        """To work."""
        return Control()

    def has_news(self) -> bool:
        """Never."""
        return False

    def resting(self, orders: Control) -> None:
        """Nothing."""

    def working(self, orders: Control) -> None:
        """Nothing."""

    def worked(self, lag: Mapping[TopicPartition, int]) -> None:
        """Nothing."""

    def owes_flush(self, orders: Control) -> bool:
        """Never."""
        return False

    def flushed(self, orders: Control) -> None:
        """Nothing."""


UNATTENDED: Final = Unattended()


def run_continuously(sink: Sink, *, poll_ms: int, backoff_ms: int, wait: Wait, desk: Desk = UNATTENDED) -> None:
    """Cycles until `wait` says stop. Kafka or a bucket that does not answer is tried again without limit, as the original does."""
    _open(sink, desk)
    stop = False
    while not stop:
        stop = _rest(poll_ms if _turn(sink, desk) else backoff_ms, wait, desk=desk)


def run_available_now(
    sink: Sink, *, backoff_ms: int, wait: Wait, close: Reason | None = None, desk: Desk = UNATTENDED
) -> None:
    """Works off everything up to the heads of start time and returns; with `close` the open tail is closed too.

    A sink that is paused does nothing.
    """
    _open(sink, desk)
    while (orders := desk.orders()) is None:
        if wait(backoff_ms):
            return
    if orders.paused:
        desk.resting(orders)
        return
    desk.working(orders)
    sink.look()
    while not sink.try_drain(close=close):
        if wait(backoff_ms):
            return
    desk.worked(sink.lag())


def waiting(stop: Event) -> Wait:
    """A wait that an event ends."""
    return lambda ms: stop.wait(ms / 1000)


def _open(sink: Sink, desk: Desk) -> None:
    sink.open()
    desk.opened(sink.log.last.driver if sink.log.last is not None else "")


def _turn(sink: Sink, desk: Desk) -> bool:
    """Does what is asked: a cycle, a flush, or nothing. False where something did not answer."""
    orders = desk.orders()
    if orders is None:
        return False
    if orders.paused:
        desk.resting(orders)
        return True
    desk.working(orders)
    if not sink.cycle():
        return False
    desk.worked(sink.lag())
    if desk.owes_flush(orders):
        if not sink.try_drain(close=Reason.FLUSH_NOW):
            return False
        desk.worked(sink.lag())
        desk.flushed(orders)
    return True


def _rest(ms: int, wait: Wait, *, desk: Desk) -> bool:
    """Waits, until there is news; whether the sink shall stop."""
    left = ms
    while left > desk.every_ms:
        if wait(desk.every_ms):
            return True
        if desk.has_news():
            return False
        left -= desk.every_ms
    return wait(left)
