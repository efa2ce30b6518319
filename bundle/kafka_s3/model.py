"""What are the things that the product talks about? Topic-partitions, offset ranges, data files, commit entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
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


class Role(StrEnum):
    """What an object holds."""

    VALUE = "value"
    KEY = "key"
    HEADER = "header"
    INDEX = "index"
    POINTER = "pointer"
    DEAD_LETTER = "dead_letter"


class Reason(StrEnum):
    """Why a file was closed: the rotation rule, by the key that sets it."""

    FLUSH_SIZE = "flush.size"
    FLUSH_BYTES = "flush.bytes"
    FLUSH_IDLE = "flush.idle.ms"
    ROTATE_INTERVAL = "rotate.interval.ms"
    OFFSET_FLUSH = "offset.flush.interval.ms"
    ROTATE_SCHEDULE = "rotate.schedule.interval.ms"
    PARTITION_CHANGE = "partition.change"
    SCHEMA = "schema"
    MAX_OPEN_FILES = "partitioner.max.open.files"
    FLUSH_NOW = "flush.now"
    DEAD_LETTER = "dead_letter"


class Stage(StrEnum):
    """Where a record failed, in Kafka Connect's words (SEMANTICS A9.3)."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that holds all its parts but is not completed: invisible in the bucket until it is.

    `parts` are the parts' ETags in order, without quotes; `size` is the object's size in bytes.
    """

    key: str
    id: str
    parts: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One object of a commit. Offsets are inclusive; timestamps are epoch milliseconds of the Kafka records (None: none had one)."""

    key: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    min_timestamp: int | None
    max_timestamp: int | None
    encoded_partition: str
    schema: str
    format: str
    reason: Reason
    upload: Upload
    role: Role = Role.VALUE

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic-partition whose records the object holds."""
        return TopicPartition(self.topic, self.partition)


def counted(files: Iterable[DataFile]) -> list[DataFile]:
    """The objects that stand for the records of their files: those of values, and those of keys where a file holds tombstones only."""
    own = [file for file in files if file.role in (Role.VALUE, Role.KEY)]
    values = {
        (file.topic_partition, file.encoded_partition, file.first_offset) for file in own if file.role is Role.VALUE
    }
    return [
        file
        for file in own
        if file.role is Role.VALUE or (file.topic_partition, file.encoded_partition, file.first_offset) not in values
    ]


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """How many records of a topic-partition an entry turned into dead letters, in all and per stage."""

    count: int
    stages: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `first..last` (inclusive) that hold no record for the sink, and why."""

    topic: str
    partition: int
    first: int
    last: int
    cause: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a log: `read = written + dead_letters + skipped` always holds."""

    read: int = 0
    written: int = 0
    dead_letters: int = 0
    skipped: int = 0
    files: int = 0
    bytes: int = 0


Frontier = Mapping[TopicPartition, int]
"""Per topic-partition the next offset to write: everything below is in objects, dead letters, skips or gaps."""

__all__ = [
    "DataFile", "DeadLetterCount", "Frontier", "Gap", "OffsetRange", "Reason", "Role", "Stage", "TopicPartition", "Totals", "Upload",
    "counted",
]  # fmt: skip
