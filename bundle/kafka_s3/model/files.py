"""What does a commit count? Objects with the records they hold, why they were closed, and sums over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from kafka_s3.model.offsets import TopicPartition


class Role(StrEnum):
    """What an object holds."""

    VALUE = "value"
    KEY = "key"
    HEADER = "header"
    INDEX = "index"
    POINTER = "pointer"
    DEAD_LETTER = "dead_letter"


class Reason(StrEnum):
    """Why a file was closed: the rotation rule, by the key that sets it; or why it was made from others."""

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
    LOST_OFFSETS = "behavior.on.lost.offsets"
    DEAD_LETTER = "dead_letter"
    COMPACTION = "compaction"
    ERASURE = "erasure"


ROLES: Final[Mapping[str, Role]] = {role.value: role for role in Role}
REASONS: Final[Mapping[str, Reason]] = {reason.value: reason for reason in Reason}
"""By their texts: a long log has millions of them, and calling the enumeration takes longer than all else of a file."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that holds all its parts but is not completed: invisible in the bucket until it is.

    `parts` are the parts' ETags in order, without quotes; `size` is the object's size in bytes. One that is `inherited` was begun by an
    earlier task, whose state others may go on with: whoever cannot commit it leaves it as it is. `token` is what the object's metadata say
    once the upload is completed, blank if an earlier version began it.
    """

    key: str
    id: str
    parts: tuple[str, ...]
    size: int
    token: str = ""
    inherited: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of an object that follow one another, and are of one partition of its topic, in the order of their offsets (inclusive)."""

    partition: int
    first_offset: int
    last_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One object of a commit. Offsets are inclusive; timestamps are epoch milliseconds of the Kafka records (None: none had one).

    `sorted_by` names the columns by which the rows of an object that was made from others are sorted; blank: rows are in the order of
    their offsets.

    An object may hold records of several topic-partitions: then `slices` are its rows from the first to the last, `records` counts all of
    them, and partition and offsets are those of the first slice. `by_slice` gives each slice as a file of its own, and `place` says where
    it lies: how many records of the object come before it, and how many the object has.
    """

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
    sorted_by: str = ""
    slices: tuple[Slice, ...] = ()
    place: tuple[int, int] | None = None

    @property
    def dense(self) -> bool:
        """Whether its records fill its offsets in their order, so that each row's offset is known."""
        whole = not self.slices and not self.sorted_by
        return whole and self.records == self.last_offset - self.first_offset + 1

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic-partition whose records the object holds, or the first of them."""
        return TopicPartition(self.topic, self.partition)

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """All topic-partitions whose records the object holds."""
        numbers = {one.partition for one in self.slices} or {self.partition}
        return tuple(TopicPartition(self.topic, number) for number in sorted(numbers))

    @property
    def by_slice(self) -> tuple[DataFile, ...]:
        """The object as files of one topic-partition each, in the order of its rows; itself, where it has one."""
        if not self.slices:
            return (self,)
        found, before = list[DataFile](), 0
        for one in self.slices:
            found.append(replace(self._of(one), slices=(), place=(before, self.records)))
            before += one.records
        return tuple(found)

    def holding(self, slices: Sequence[Slice]) -> DataFile:
        """The object with these rows in place of its own; neighbours of one topic-partition become one."""
        joined = join_slices(slices)
        one = replace(self._of(joined[0]), records=sum(some.records for some in joined))
        return replace(one, slices=joined if len(joined) > 1 else ())

    def _of(self, one: Slice) -> DataFile:
        return replace(
            self,
            partition=one.partition,
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            records=one.records,
        )


def slices_of(file: DataFile) -> tuple[Slice, ...]:
    """The rows of an object, one slice where it has one topic-partition."""
    return file.slices or (Slice(file.partition, file.first_offset, file.last_offset, file.records),)


def join_slices(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """The slices with neighbours of one partition as one."""
    joined = list[Slice]()
    for one in slices:
        if joined and joined[-1].partition == one.partition:
            last = joined.pop()
            end = max(last.last_offset, one.last_offset)
            one = Slice(one.partition, last.first_offset, end, last.records + one.records)
        joined.append(one)
    return tuple(joined)


def counted(files: Iterable[DataFile]) -> list[DataFile]:
    """The objects that stand for the records of their files: those of values, and those of keys where a file holds tombstones only."""
    own = [file for file in files if file.role in (Role.VALUE, Role.KEY)]
    if all(file.role is Role.VALUE for file in own):
        return own
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
class Totals:
    """Sums over a log: `read = written + dead_letters + skipped` always holds."""

    read: int = 0
    written: int = 0
    dead_letters: int = 0
    skipped: int = 0
    files: int = 0
    bytes: int = 0

    def plus(self, more: Totals) -> Totals:
        """The sums over both."""
        return Totals(*(getattr(self, name) + getattr(more, name) for name in self.__slots__))
