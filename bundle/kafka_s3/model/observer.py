"""What is there to see of a running sink? What the loop tells logs and progress displays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kafka_s3.model.files import DataFile, DeadLetterCount, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.requests import Requests


class RoundPhase(StrEnum):
    """What a round is at, one after the other."""

    READ = "read"
    COMMIT = "commit"
    PUBLISH = "publish"
    FOLLOW = "follow"


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

    `open` records of these topic-partitions were read and wait in open files; with those that waited before, all that was `read` is
    written, a dead letter, skipped, or open (files that are not kept are read, and counted, again). `open_states` states of open files
    were written since the start, `open_state_bytes` in all.
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
    open: int = 0
    open_states: int = 0
    open_state_bytes: int = 0
    dead_letters: Mapping[TopicPartition, DeadLetterCount] = field(default_factory=dict)
    skipped: Mapping[TopicPartition, int] = field(default_factory=dict)
    phases: Mapping[RoundPhase, float] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What of a topic is not in objects yet: how many records, and since when (epoch ms) this run has known of the oldest of them.

    That is one time for those that no task has read, and one for those in open files; None where there are none.
    """

    records: int
    unread_since_ms: int | None = None
    open_since_ms: int | None = None


class Observer(Protocol):
    """Is told what the loop does."""

    def preparing(self, step: str) -> None:
        """What is done before the sink works, and takes its time: `asking Kafka at ...`."""
        ...

    def started(self, start: Start) -> None:
        """The log is claimed and the topics are known."""
        ...

    def looked(self, waiting: Callable[[], Mapping[str, Waiting]]) -> None:
        """After a look at the brokers or a commit; `waiting` says what waits of each topic now, over all topic-partitions."""
        ...

    def reading(self, records: int, wanted: int) -> None:
        """Within a round: about so many of its records are read."""
        ...

    def round_done(self, done: Round) -> None:
        """A round was committed, published and followed."""
        ...

    def warned(self, text: str) -> None:
        """Something failed that the sink tries again."""
        ...

    def recovered(self, after_ms: int) -> None:
        """What kept the sink from its work is over; it lasted so long."""
        ...

    def stopped(self) -> None:
        """The sink has stopped because it was told to, or was done."""
        ...

    def decided(self, choice: str, reason: str) -> None:
        """A choice that the configuration leaves open was made, for this run: `kafka.reader=tasks`, and why."""
        ...


class Silent:
    """An observer that does nothing."""

    def preparing(self, step: str) -> None:
        """Nothing."""

    def looked(self, waiting: Callable[[], Mapping[str, Waiting]]) -> None:
        """Nothing."""

    def reading(self, records: int, wanted: int) -> None:
        """Nothing."""

    def recovered(self, after_ms: int) -> None:
        """Nothing."""

    def stopped(self) -> None:
        """Nothing."""

    def started(self, start: Start) -> None:
        """Nothing."""

    def round_done(self, done: Round) -> None:
        """Nothing."""

    def warned(self, text: str) -> None:
        """Nothing."""

    def decided(self, choice: str, reason: str) -> None:
        """Nothing."""
