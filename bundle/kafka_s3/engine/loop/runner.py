"""How long does a sink run? Until it is asked to stop, or until it has drained what was there when it started; it pauses when asked to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from threading import Event
from typing import Final

from kafka_s3.engine.control.commands import CommandChannel, Control
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.files import Reason
from kafka_s3.model.timing import Backoff

Wait = Callable[[int], bool]
"""Waits milliseconds or until the sink shall stop; returns whether it shall."""
UNATTENDED: Final = CommandChannel()


class PollEnd(Enum):
    """How a poll, and the work that it made due, ended."""

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
    """Polls, and commits what is due, until `wait` or `stopped` says stop. Within a long backlog it stops, pauses or flushes between waves.

    Kafka or a bucket that does not answer is tried again without limit, as in the original. The pause between grows from `backoff_ms`
    to `longest_backoff_ms`; without the latter it stays the same.
    """
    _open(sink, channel)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, stop = 0, False
    while not stop:
        outcome = _unless_paused(sink, channel, channel.commands(), partial(_poll, sink), stopped=stopped)
        failures = failures + 1 if outcome is PollEnd.UNANSWERED else 0
        if outcome is PollEnd.INTERRUPTED:
            stop = stopped()
        else:
            pause = backoff.pause_ms(failures) if failures else poll_ms
            stop = _rest(sink.pause_ms(pause), wait, channel=channel)
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
    """Processes everything up to the heads of start time and returns; with `close` the open tail is closed too.

    A sink that is paused does nothing, and returns between two commits when it is paused meanwhile. The rest as `run_continuously`.
    """
    _open(sink, channel)
    backoff = Backoff(backoff_ms, longest_backoff_ms or backoff_ms)
    failures, polled = 0, False
    while not stopped():
        commands = channel.commands()
        if commands is not None and not commands.paused and not polled:
            sink.poll()
            polled = True
        outcome = _unless_paused(sink, channel, commands, partial(_drain, sink, close=close), stopped=stopped)
        failures = failures + 1 if outcome is PollEnd.UNANSWERED else 0
        if outcome is PollEnd.DONE or (failures and wait(sink.pause_ms(backoff.pause_ms(failures)))):
            break
    sink.end()


def waiting(stop: Event) -> Wait:
    """A wait that an event ends."""
    return lambda ms: stop.wait(ms / 1000)


def _open(sink: Sink, channel: CommandChannel) -> None:
    sink.open()
    channel.opened(sink.log.last.driver if sink.log.last is not None else "")


def _poll(sink: Sink, interruption: Interruption) -> PollEnd:
    """Polls, and does a flush that is asked for."""
    channel, commands = interruption.channel, interruption.commands
    sink.rewrites.notice(commands.rewrite)
    outcome = _ended(sink.poll_and_commit(interruption.go_on), sink, interruption)
    if outcome is PollEnd.DONE and channel.owes_flush(commands):
        outcome = _drain(sink, interruption, close=Reason.FLUSH_NOW)
        if outcome is PollEnd.DONE:
            channel.flushed(commands, sink.unwritten)
    return outcome


def _drain(sink: Sink, interruption: Interruption, *, close: Reason | None) -> PollEnd:
    return _ended(sink.try_drain(interruption.go_on, close=close), sink, interruption)


def _unless_paused(
    sink: Sink,
    channel: CommandChannel,
    commands: Control | None,
    work: Callable[[Interruption], PollEnd],
    *,
    stopped: Callable[[], bool],
) -> PollEnd:
    """Works, unless it is asked not to, or it is not known what is asked."""
    if commands is None:
        return PollEnd.UNANSWERED
    if commands.paused:
        if not sink.settle():
            return PollEnd.UNANSWERED
        channel.resting(commands)
        return PollEnd.DONE
    channel.working(commands)
    return work(Interruption(stopped, channel, commands))


def _ended(answered: bool, sink: Sink, interruption: Interruption) -> PollEnd:
    """How work ended; where it was done, the channel learns it."""
    if not answered:
        return PollEnd.UNANSWERED
    if interruption.happened:
        return PollEnd.INTERRUPTED
    interruption.channel.worked(sink.topics.lag(), sink.polled_ms, sink.open_problems, behind=sink.followers.problems)
    return PollEnd.DONE


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
