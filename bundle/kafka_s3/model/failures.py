"""Why can a record not be written? The stage at which it failed, and the words of the original (SEMANTICS A9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"


class Stage(StrEnum):
    """Where a record failed, in Kafka Connect's words (SEMANTICS A9.3)."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that cannot be written: where and why.

    `stops_original` marks failures that kill the original's task even with a dead letter topic (SEMANTICS A9.2).
    """

    offset: int
    stage: Stage
    component: str
    exception: str
    message: str
    stops_original: bool = False


def rejection(offset: int, message: str) -> Failure:
    """The failure of a record that the sink itself cannot write (stage TASK_PUT, SEMANTICS A9.2)."""
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, DATA_EXCEPTION, message)
