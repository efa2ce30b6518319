"""What is a file that comes back? Its objects, its offsets, and the rows that are wanted of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a file: its key, size in bytes and format."""

    key: str
    size: int
    format: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The records of one file: an object of values, and those of keys and headers beside it; without values they are tombstones.

    `records` None: nothing but the object itself knows. Rows `[skip, until)` are wanted (None: to the end). `timestamp` is that of all its
    records, epoch ms, None where they have different ones, or where it is not known.
    """

    topic_partition: TopicPartition
    first_offset: int
    directory: str
    parts: dict[Role, StoredObject] = field(default_factory=dict)
    records: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    skip: int = 0
    until: int | None = None

    @property
    def name(self) -> str:
        """The key by which it is called: that of its values, or of its keys."""
        return self.parts[Role.VALUE if Role.VALUE in self.parts else Role.KEY].key

    @property
    def timestamp(self) -> int | None:
        """The time of all its records."""
        return self.min_timestamp if self.min_timestamp == self.max_timestamp else None

    @property
    def dense(self) -> bool:
        """Whether its records fill its offsets, so that each row's offset is known."""
        return self.last_offset is not None and self.records == self.last_offset - self.first_offset + 1

    @property
    def wanted(self) -> int | None:
        """How many rows are wanted, None where that is not known before it is read."""
        end = self.records if self.until is None else self.until
        return None if end is None else max(end - self.skip, 0)

    def before(self, offset: int) -> StoredFile:
        """Without the rows that are surely at or behind an offset: the n-th is at the first offset and n, or later."""
        most = max(offset - self.first_offset, 0)
        if self.last_offset is not None and self.last_offset < offset:
            return self
        return replace(self, until=most if self.until is None else min(most, self.until))
