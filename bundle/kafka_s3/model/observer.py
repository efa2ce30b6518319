"""What is there to see of a running sink? What the loop tells logs and progress displays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafka_s3.model.files import DataFile, Totals
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Start:
    """A sink that begins to work: its place in the log, what it did so far, and the records that wait for it.

    `lag` is behind the heads at `looked_ms`; `standing` says what is the matter with topics and topic-partitions as long as it lasts.
    """

    sink: str
    epoch: int
    version: int
    totals: Totals
    partitions: int
    backlog: int
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked_ms: int | None = None
    standing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """What one step of the loop did, for progress displays and logs. Times in epoch ms, lag in records, behind the heads at `looked_ms`.

    `open_states` states of open files were written since the start, `open_state_bytes` in all.
    """

    version: int
    started_ms: int
    ended_ms: int
    read: int
    totals: Totals
    files: tuple[DataFile, ...]
    frontier: dict[TopicPartition, int]
    lag: dict[TopicPartition, int]
    looked_ms: int | None = None
    open_states: int = 0
    open_state_bytes: int = 0


class Observer(Protocol):
    """Is told what the loop does."""

    def started(self, start: Start) -> None:
        """The log is claimed and the topics are known."""
        ...

    def round_done(self, done: Round) -> None:
        """A round was committed, published and followed."""
        ...

    def warned(self, text: str) -> None:
        """Something failed that the sink tries again."""
        ...

    def decided(self, choice: str, reason: str) -> None:
        """A choice that the configuration leaves open was made, for this run: `kafka.reader=tasks`, and why."""
        ...


class Silent:
    """An observer that does nothing."""

    def started(self, start: Start) -> None:
        """Nothing."""

    def round_done(self, done: Round) -> None:
        """Nothing."""

    def warned(self, text: str) -> None:
        """Nothing."""

    def decided(self, choice: str, reason: str) -> None:
        """Nothing."""
