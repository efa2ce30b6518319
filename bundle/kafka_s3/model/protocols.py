"""What does the loop ask of others? Three seams: the brokers' metadata, reading offset ranges through a pipeline, and who watches the sink.

Implementations: `kafka.brokers.KafkaBrokers` with `run.spark.launch.SparkEngine`; `testing.services.memory.MemoryKafka` is both, without
Kafka and Spark. Logs, metrics, the heartbeat and progress displays are observers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from kafka_s3.model.files import DataFile, DeadLetterCount, Totals
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.tasks import Assignment, Fetched, TaskOutcome
from kafka_s3.model.timing import Requests

MIRRORED: Final = "kafka-s3"
"""Metadata of a group's offsets that a sink has committed: other programs leave it blank, or write their own."""


class RoundPhase(StrEnum):
    """What a round is at, one after the other."""

    READ = "read"
    COMMIT = "commit"
    PUBLISH = "publish"
    FOLLOW = "follow"


@dataclass(frozen=True, slots=True)
class Start:
    """A sink that begins to work: its place in the log, what it did so far, and the records that wait for it.

    `lag` is behind the heads at `polled_ms`; `open_problems` say what is the matter with topics and topic-partitions as long as it lasts.
    """

    sink: str
    epoch: int
    version: int
    totals: Totals
    partitions: int
    backlog: int
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    polled_ms: int | None = None
    open_problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """What a round of the loop did, for progress displays and logs. Times in epoch ms, lag in records, behind the heads at `polled_ms`.

    `open` records of these topic-partitions were read and wait in open files; with those that waited before, all that was `read` is
    written, a dead letter, skipped, or open (files that are not kept are read, and counted, again). `open_states` states of open files
    were written since the start, `open_state_bytes` in all. `fetched` came from Kafka to this round's tasks.
    """

    version: int
    started_ms: int
    ended_ms: int
    read: int
    totals: Totals
    files: tuple[DataFile, ...]
    frontier: dict[TopicPartition, int]
    lag: dict[TopicPartition, int]
    polled_ms: int | None = None
    open: int = 0
    open_states: int = 0
    open_state_bytes: int = 0
    dead_letters: Mapping[TopicPartition, DeadLetterCount] = field(default_factory=dict)
    skipped: Mapping[TopicPartition, int] = field(default_factory=dict)
    phases: Mapping[RoundPhase, float] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)
    fetched: tuple[Fetched, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteSummary:
    """What entry `version` did for `reason`: so many objects `made` in the place of those `replaced`, or so many originals `deleted`."""

    version: int
    reason: str = ""
    made: int = 0
    replaced: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class StateProgress:
    """How far a topic's state table has come: through entry `position`; keys and pace as after the merge at `merged_ms`.

    `waiting_since_ms` (epoch ms): since when this run has known of an entry that the table lacks, None where there is none.
    """

    position: int
    merged_ms: int
    keys: int | None = None
    changes_a_minute: float | None = None
    waiting_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicBacklog:
    """What of a topic is not in objects yet: how many records, and since when (epoch ms) this run has known of the oldest of them.

    That is one time for those that no task has read, `unread` of the records, and one for those in open files; None where there are none.
    """

    records: int
    unread_since_ms: int | None = None
    open_since_ms: int | None = None
    unread: int = 0


class Observer:
    """Is notified of what the loop does. This one passes it on to `inner`, if there is one.

    Others override what they want to know of.
    """

    inner: Observer | None = None

    def preparing(self, step: str) -> None:
        """What is done before the sink works, and takes its time: `connecting to Kafka at ...`."""
        if self.inner is not None:
            self.inner.preparing(step)

    def started(self, start: Start) -> None:
        """The log is claimed and the topics are known."""
        if self.inner is not None:
            self.inner.started(start)

    def polled(self, backlog: Callable[[], Mapping[str, TopicBacklog]]) -> None:
        """After a poll of the brokers or a commit; `backlog` gives what of each topic is not in objects now."""
        if self.inner is not None:
            self.inner.polled(backlog)

    def reading(self, records: int, wanted: int) -> None:
        """Within a round: about so many of its records are read."""
        if self.inner is not None:
            self.inner.reading(records, wanted)

    def round_done(self, done: RoundSummary) -> None:
        """A round was committed, published and followed."""
        if self.inner is not None:
            self.inner.round_done(done)

    def rewritten(self, done: RewriteSummary) -> None:
        """Objects took the place of others, or originals were deleted, and the log says so."""
        if self.inner is not None:
            self.inner.rewritten(done)

    def states_kept(self, topics: Mapping[str, StateProgress]) -> None:
        """State tables were looked after, by this sink; some may wait for their time."""
        if self.inner is not None:
            self.inner.states_kept(topics)

    def warned(self, text: str) -> None:
        """Something failed that the sink tries again."""
        if self.inner is not None:
            self.inner.warned(text)

    def follower_warned(self, text: str) -> None:
        """What follows the log fails, or leaves something out; the sink itself is at work. Who does not tell the two apart is `warned`."""
        self.warned(text)

    def recovered(self, after_ms: int) -> None:
        """What kept the sink from its work is over; it lasted so long."""
        if self.inner is not None:
            self.inner.recovered(after_ms)

    def stopped(self) -> None:
        """The sink has stopped because it was asked to, or was done."""
        if self.inner is not None:
            self.inner.stopped()

    def decided(self, choice: str, reason: str) -> None:
        """A choice that the configuration leaves open was made, for this run: `kafka.reader=tasks`, and why."""
        if self.inner is not None:
            self.inner.decided(choice, reason)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the brokers describe it; `id` changes when it is deleted and created again."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be produced; `timestamp` is epoch ms. `origin` is the record it was made from: topic, partition, offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    origin: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that a topic does not take, whatever becomes of the others, and the brokers' reason."""

    message: Message
    reason: str


class Brokers(Protocol):
    """A Kafka cluster. Methods raise KafkaUnavailable where it does not answer, SourceError where it refuses.

    What is asked per topic-partition leaves out those that nobody leads, or that are not there any more.
    """

    def cluster_id(self) -> str:
        """The cluster's id."""

    def topic_names(self) -> list[str]:
        """All topics but internal ones."""

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The same with the leader epoch that the log has there."""

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        """Which logs were cut before a position that was known once, and up to which offset they are what they were."""

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the first offset that is still there."""

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Per topic-partition the first offset with a record timestamp (epoch ms) at or after the given one."""

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that a consumer group has committed of these topic-partitions; none where there is no such group."""

    def group_progress(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The same, each with its metadata."""

    def group_members(self, group: str) -> list[str]:
        """The live members of a consumer group, as text for a person."""

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a consumer group, with the metadata `MIRRORED`."""

    def produce(self, topic: str, messages: Iterable[Message], *, replication: int) -> Sequence[Refusal]:
        """Produces messages, creating the topic (one partition) where it is missing; returns when all are acknowledged or refused."""


class Source(Protocol):
    """The engine: runs one task per assignment, each through the pipeline of the configuration. Thread-safe."""

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One report or failure per assignment, in any order: what fails for one is no matter of the others.

        Raises only what concerns the engine as a whole.
        """
