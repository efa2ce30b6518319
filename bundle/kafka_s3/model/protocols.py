"""What does the loop ask of Kafka and of the engine? Two seams: the brokers' metadata, and reading offset ranges through a pipeline.

Implementations: `kafka.brokers.KafkaBrokers` with `run.spark.source.SparkSource`; `testing.services.memory.MemoryKafka` is both, without Kafka and Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.tasks import Assignment, TaskOutcome


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
        ...

    def topic_names(self) -> list[str]:
        """All topics but internal ones."""
        ...

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        ...

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""
        ...

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The same with the leader epoch that the log has there."""
        ...

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        """Which logs were cut before a position that was known once, and up to which offset they are what they were."""
        ...

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the first offset that is still there."""
        ...

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Per topic-partition the first offset with a record timestamp (epoch ms) at or after the given one."""
        ...

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that a consumer group has committed of these topic-partitions; none where there is no such group."""
        ...

    def group_members(self, group: str) -> list[str]:
        """The live members of a consumer group, as text for a person."""
        ...

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets the committed offsets of a consumer group."""
        ...

    def produce(self, topic: str, messages: Iterable[Message], *, replication: int) -> Sequence[Refusal]:
        """Produces messages, creating the topic (one partition) where it is missing; returns when all are acknowledged or refused."""
        ...


class Source(Protocol):
    """The engine: runs one task per assignment, each through the pipeline of the configuration. Thread-safe."""

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One report or failure per assignment, in any order: what fails for one is no matter of the others.

        Raises only what concerns the engine as a whole.
        """
        ...
