"""Has the running sink done what it was asked? Waits for its answer in the heartbeat, and tells meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kafka_s3.cli.control_target import Target
from kafka_s3.cli.display import console
from kafka_s3.engine.control.commands import Control, read_control
from kafka_s3.engine.control.heartbeat import Heartbeat
from kafka_s3.engine.control.status import Lag, SinkSnapshot
from kafka_s3.model.errors import SinkError
from kafka_s3.model.timing import age, now_ms

LOOK_S: Final = 0.25
TELL_S: Final = 5.0


class NotAnswered(SinkError):
    """The sink did not answer, or is not there to answer."""


def wait_for_answer(
    target: Target, timeout: float, *, answered: Callable[[Heartbeat], bool], replaced: Callable[[Control], bool]
) -> Heartbeat:
    """The heartbeat that answers. Raises NotAnswered: too late, the process ended, or another command came in between."""
    began = told = time.monotonic()
    while (beat := target.heartbeat()) is None or not answered(beat):
        now = time.monotonic()
        if beat is None or beat.ended:
            why = f": {beat.failure}" if beat is not None and beat.failure else "."
            raise NotAnswered(f"Sink {target.name} ended before it answered{why}")
        if replaced(read_control(target.store, target.paths) or Control()):
            text = f"Another command to {target.name} came in between and took this one's place. See `kafka-s3 status`."
            raise NotAnswered(text)
        if now - began >= timeout:
            raise NotAnswered(
                f"Sink {target.name} has not answered within {timeout:g} s (last heartbeat {_since(beat)}). The request stands: it is "
                "acted on after the commit that the sink is at. See `kafka-s3 status`."
            )
        if now - told >= TELL_S:
            told = now
            say(f"  {now - began:.0f} s: still {beat.phase}, last heartbeat {_since(beat)}, lag {_lag(beat)}")
        time.sleep(LOOK_S)
    return beat


def process_of(beat: Heartbeat) -> str:
    """Which process a heartbeat is from, and how old it is."""
    return f"pid {beat.pid} on {beat.host}, heartbeat {_since(beat)}"


def say(text: str) -> None:
    """A line on standard output, never broken."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def _lag(beat: Heartbeat) -> Lag:
    return SinkSnapshot(beat.sink, heartbeat=beat, seen_ms=now_ms()).lag


def _since(beat: Heartbeat) -> str:
    return f"{age(now_ms() - beat.beat_ms)} ago"
