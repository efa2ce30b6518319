"""How long does a sink run? Until it is told to stop, or until it has drained what was there when it started; it pauses when asked to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event
from typing import Final, Protocol

from kafka_s3.engine.control.commands import Control
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import Backoff

Wait = Callable[[int], bool]
"""Waits milliseconds or until the sink shall stop; returns whether it shall."""


class CommandChannel(Protocol):
    """Where the loop learns between cycles what is asked of the sink, and tells what it did (see `engine.control.commands.ControlChannel`)."""

    @property
    def every_ms(self) -> int:
        """How long to wait before asking for news."""
        ...

    def opened(self, driver: str) -> None:
        """The sink has claimed the log as this driver."""
        ...

    def commands(self) -> Control | None:
        """What is asked, None where it cannot be told yet."""
        ...

    def has_news(self) -> bool:
        """Whether something else is asked than before."""
        ...

    def resting(self, commands: Control) -> None:
        """The sink pauses."""
        ...

    def working(self, commands: Control) -> None:
        """The sink works."""
        ...

    def worked(self, lag: Mapping[TopicPartition, int], looked_ms: int | None, standing: Sequence[str]) -> None:
        """Everything answered, and what was due is done; `standing` is what is the matter with topics all the same."""
        ...

    def owes_flush(self, commands: Control) -> bool:
        """Whether a flush is asked for that is not done yet."""
        ...

    def flushed(self, commands: Control) -> None:
        """The flush is done."""
        ...


class Unattended:
    """Nobody asks anything of the sink, and nobody is told."""

    every_ms: int = 2**31

    def opened(self, driver: str) -> None:
        """Nothing."""

    def commands(self) -> Control:
        """To work."""
        return Control()

    def has_news(self) -> bool:
        """Never."""
        return False

    def resting(self, commands: Control) -> None:
        """Nothing."""

    def working(self, commands: Control) -> None:
        """Nothing."""

    def worked(self, lag: Mapping[TopicPartition, int], looked_ms: int | None, standing: Sequence[str]) -> None:
        """Nothing."""

    def owes_flush(self, commands: Control) -> bool:
        """Never."""
        return False

    def flushed(self, commands: Control) -> None:
        """Nothing."""


UNATTENDED: Final = Unattended()


class TurnEnd(Enum):
    """How a turn of the loop ended."""

    DONE = auto()
    UNANSWERED = auto()
    INTERRUPTED = auto()


@dataclass
class Interruption:
    """Whether the loop leaves its work before it is done: the sink shall stop, or something else is asked of it than `commands`.

    The sink asks before each commit's work. A yes stays a yes.
    """

    stopped: Callable[[], bool]
    channel: CommandChannel
    commands: Control
    happened: bool = False

    def go_on(self) -> bool:
        """Whether the work for another commit may begin."""
        self.happened = self.happened or self.stopped() or self.channel.commands() != self.commands
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
    channel: CommandChannel = UNATTENDED,
) -> None:
    """Cycles until `wait` or `stopped` says stop; within a long backlog it stops, pauses or turns to a flush between two commits.

    Kafka or a bucket that does not answer is tried again without limit, as in the original. The pause between grows from `backoff_ms`
    to `longest_backoff_ms`; without the latter it stays the same.
    """
    _open(sink, channel)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, stop = 0, False
    while not stop:
        outcome = _turn(sink, channel, stopped=stopped)
        failures = failures + 1 if outcome is TurnEnd.UNANSWERED else 0
        if outcome is TurnEnd.INTERRUPTED:
            stop = stopped()
        else:
            pause = backoff.pause_ms(failures) if failures else poll_ms
            stop = _rest(sink.rest_ms(pause), wait, channel=channel)
    sink.end()


def run_available_now(
    sink: Sink,
    *,
    backoff_ms: int,
    wait: Wait,
    longest_backoff_ms: int | None = None,
    stopped: Callable[[], bool] = never,
    close: Reason | None = None,
    channel: CommandChannel = UNATTENDED,
) -> None:
    """Works off everything up to the heads of start time and returns; with `close` the open tail is closed too.

    A sink that is paused does nothing, and returns between two commits when it is paused meanwhile. The rest as `run_continuously`.
    """
    _open(sink, channel)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, looked = 0, False
    while not stopped():
        commands = channel.commands()
        if commands is not None and not commands.paused and not looked:
            sink.poll()
            looked = True
        outcome = _drained(sink, channel, commands, close=close, stopped=stopped)
        failures = failures + 1 if outcome is TurnEnd.UNANSWERED else 0
        if outcome is TurnEnd.DONE or (failures and wait(sink.rest_ms(backoff.pause_ms(failures)))):
            break
    sink.end()


def waiting(stop: Event) -> Wait:
    """A wait that an event ends."""
    return lambda ms: stop.wait(ms / 1000)


def _open(sink: Sink, channel: CommandChannel) -> None:
    sink.open()
    channel.opened(sink.log.last.driver if sink.log.last is not None else "")


def _turn(sink: Sink, channel: CommandChannel, *, stopped: Callable[[], bool]) -> TurnEnd:
    """Does what is asked: a cycle, a flush, or nothing."""
    commands = channel.commands()
    if commands is None:
        return TurnEnd.UNANSWERED
    if commands.paused:
        channel.resting(commands)
        return TurnEnd.DONE
    channel.working(commands)
    interruption = Interruption(stopped, channel, commands)
    outcome = _told(sink.cycle(interruption.go_on), sink, interruption)
    if outcome is TurnEnd.DONE and channel.owes_flush(commands):
        outcome = _told(sink.try_drain(interruption.go_on, close=Reason.FLUSH_NOW), sink, interruption)
        if outcome is TurnEnd.DONE:
            channel.flushed(commands)
    return outcome


def _drained(
    sink: Sink, channel: CommandChannel, commands: Control | None, *, close: Reason | None, stopped: Callable[[], bool]
) -> TurnEnd:
    """Works off what is there, unless it is asked not to."""
    if commands is None:
        return TurnEnd.UNANSWERED
    if commands.paused:
        channel.resting(commands)
        return TurnEnd.DONE
    channel.working(commands)
    interruption = Interruption(stopped, channel, commands)
    return _told(sink.try_drain(interruption.go_on, close=close), sink, interruption)


def _told(answered: bool, sink: Sink, interruption: Interruption) -> TurnEnd:
    """How work ended; where it was done, the channel knows."""
    if not answered:
        return TurnEnd.UNANSWERED
    if interruption.happened:
        return TurnEnd.INTERRUPTED
    interruption.channel.worked(sink.lag(), sink.looked_ms, sink.problems)
    return TurnEnd.DONE


def _rest(ms: int, wait: Wait, *, channel: CommandChannel) -> bool:
    """Waits, until there is news; whether the sink shall stop."""
    left = ms
    while left > channel.every_ms:
        if wait(channel.every_ms):
            return True
        if channel.has_news():
            return False
        left -= channel.every_ms
    return wait(left)
