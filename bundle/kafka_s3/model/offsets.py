"""Where in Kafka is something? Topic-partitions, offset ranges, gaps, the frontier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`topic-partition`, as Kafka's own tools print it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets `[start, until)` of one topic-partition."""

    topic_partition: TopicPartition
    start: int
    until: int

    def __str__(self) -> str:
        """`topic-partition [start, until)`."""
        return f"{self.topic_partition} [{self.start}, {self.until})"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `first..last` (inclusive) that hold no record for the sink, and why."""

    topic: str
    partition: int
    first: int
    last: int
    cause: str

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it is."""
        return TopicPartition(self.topic, self.partition)


Frontier = Mapping[TopicPartition, int]
"""Per topic-partition the next offset to write: everything below is in objects, dead letters, skips or gaps."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """An offset of a topic-partition's log and the leader epoch that it had when it reached there; None: not known."""

    offset: int
    epoch: int | None = None
