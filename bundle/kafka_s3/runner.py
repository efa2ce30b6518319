"""How long does a sink run? Until it is told to stop, or until it has drained what was there when it started; it pauses when asked to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event
from typing import Final, Protocol

from kafka_s3.backoff import Backoff
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

    def worked(self, lag: Mapping[TopicPartition, int], looked_ms: int | None) -> None:
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

    def worked(self, lag: Mapping[TopicPartition, int], looked_ms: int | None) -> None:
        """Nothing."""

    def owes_flush(self, orders: Control) -> bool:
        """Never."""
        return False

    def flushed(self, orders: Control) -> None:
        """Nothing."""


UNATTENDED: Final = Unattended()


class Outcome(Enum):
    """How a turn of the loop ended."""

    DONE = auto()
    UNANSWERED = auto()
    INTERRUPTED = auto()


@dataclass
class Interruption:
    """Whether the loop leaves its work before it is done: the sink shall stop, or something else is asked of it than `orders`.

    The sink asks before each commit's work. A yes stays a yes.
    """

    stopped: Callable[[], bool]
    desk: Desk
    orders: Control
    happened: bool = False

    def go_on(self) -> bool:
        """Whether the work for another commit may begin."""
        self.happened = self.happened or self.stopped() or self.desk.orders() != self.orders
        return not self.happened


def never() -> bool:
    """Nobody wants the sink to stop."""
    return False


def run_continuously(
    sink: Sink,
    *,
    poll_ms: int,
    backoff_ms: int,
    wait: Wait,
    longest_backoff_ms: int | None = None,
    stopped: Callable[[], bool] = never,
    desk: Desk = UNATTENDED,
) -> None:
    """Cycles until `wait` or `stopped` says stop; within a long backlog it stops, pauses or turns to a flush between two commits.

    Kafka or a bucket that does not answer is tried again without limit, as in the original. The pause between grows from `backoff_ms`
    to `longest_backoff_ms`; without the latter it stays the same.
    """
    _open(sink, desk)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, stop = 0, False
    while not stop:
        outcome = _turn(sink, desk, stopped=stopped)
        failures = failures + 1 if outcome is Outcome.UNANSWERED else 0
        if outcome is Outcome.INTERRUPTED:
            stop = stopped()
        else:
            pause = sink.within_patience(backoff.pause_ms(failures)) if failures else poll_ms
            stop = _rest(pause, wait, desk=desk)


def run_available_now(
    sink: Sink,
    *,
    backoff_ms: int,
    wait: Wait,
    longest_backoff_ms: int | None = None,
    stopped: Callable[[], bool] = never,
    close: Reason | None = None,
    desk: Desk = UNATTENDED,
) -> None:
    """Works off everything up to the heads of start time and returns; with `close` the open tail is closed too.

    A sink that is paused does nothing, and returns between two commits when it is paused meanwhile. The rest as `run_continuously`.
    """
    _open(sink, desk)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, looked = 0, False
    while not stopped():
        orders = desk.orders()
        if orders is not None and not orders.paused and not looked:
            sink.look()
            looked = True
        outcome = _drained(sink, desk, orders, close=close, stopped=stopped)
        failures = failures + 1 if outcome is Outcome.UNANSWERED else 0
        if outcome is Outcome.DONE or (failures and wait(sink.within_patience(backoff.pause_ms(failures)))):
            return


def waiting(stop: Event) -> Wait:
    """A wait that an event ends."""
    return lambda ms: stop.wait(ms / 1000)


def _open(sink: Sink, desk: Desk) -> None:
    sink.open()
    desk.opened(sink.log.last.driver if sink.log.last is not None else "")


def _turn(sink: Sink, desk: Desk, *, stopped: Callable[[], bool]) -> Outcome:
    """Does what is asked: a cycle, a flush, or nothing."""
    orders = desk.orders()
    if orders is None:
        return Outcome.UNANSWERED
    if orders.paused:
        desk.resting(orders)
        return Outcome.DONE
    desk.working(orders)
    interruption = Interruption(stopped, desk, orders)
    outcome = _told(sink.cycle(interruption.go_on), sink, interruption)
    if outcome is Outcome.DONE and desk.owes_flush(orders):
        outcome = _told(sink.try_drain(interruption.go_on, close=Reason.FLUSH_NOW), sink, interruption)
        if outcome is Outcome.DONE:
            desk.flushed(orders)
    return outcome


def _drained(
    sink: Sink, desk: Desk, orders: Control | None, *, close: Reason | None, stopped: Callable[[], bool]
) -> Outcome:
    """Works off what is there, unless it is asked not to."""
    if orders is None:
        return Outcome.UNANSWERED
    if orders.paused:
        desk.resting(orders)
        return Outcome.DONE
    desk.working(orders)
    interruption = Interruption(stopped, desk, orders)
    return _told(sink.try_drain(interruption.go_on, close=close), sink, interruption)


def _told(answered: bool, sink: Sink, interruption: Interruption) -> Outcome:
    """How work ended; where it was done, the desk knows."""
    if not answered:
        return Outcome.UNANSWERED
    if interruption.happened:
        return Outcome.INTERRUPTED
    interruption.desk.worked(sink.lag(), sink.looked_ms)
    return Outcome.DONE


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
