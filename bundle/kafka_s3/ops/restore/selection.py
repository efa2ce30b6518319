"""Which of the stored records are wanted back? A topic-partition, offsets, times; what cannot be cut exactly is taken whole, and said."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.restore.values import StoredFile


@dataclass(frozen=True, slots=True)
class RestoreSelection:
    """None is all. Offsets are inclusive; `since_ms` (included) and `until_ms` (excluded) are times of records, epoch ms."""

    topics: frozenset[str] | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether times are asked for, which only a log knows of objects."""
        return self.since_ms is not None or self.until_ms is not None

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether records of a topic-partition are wanted at all."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and self.partition in (None, partition)

    def of(self, file: StoredFile) -> tuple[StoredFile | None, bool]:
        """What is wanted of a file, None for nothing; and whether it is whole though only a part of it is meant."""
        if not self._meets(file):
            return None, False
        cut = self._cut(file)
        return (cut if cut.wanted != 0 else None), cut is file and not self._holds(file)

    def _meets(self, file: StoredFile) -> bool:
        end = file.last_offset
        if end is None and file.until is not None:
            end = file.first_offset + file.until - 1
        return (
            (self.last is None or file.first_offset <= self.last)
            and (self.first is None or end is None or end >= self.first)
            and (self.since_ms is None or file.max_timestamp is None or file.max_timestamp >= self.since_ms)
            and (self.until_ms is None or file.min_timestamp is None or file.min_timestamp < self.until_ms)
        )

    def _holds(self, file: StoredFile) -> bool:
        """Whether all of a file is meant."""
        known = (file.min_timestamp, file.max_timestamp)
        times = not self.by_time or (None not in known and self._has_time(known[0]) and self._has_time(known[1]))
        first = self.first is None or file.first_offset >= self.first
        return (
            times and first and (self.last is None or (file.last_offset is not None and file.last_offset <= self.last))
        )

    def _has_time(self, ms: int | None) -> bool:
        assert ms is not None
        return (self.since_ms is None or ms >= self.since_ms) and (self.until_ms is None or ms < self.until_ms)

    def _cut(self, file: StoredFile) -> StoredFile:
        """Without the rows outside of the offsets, where each row's offset is known."""
        if not file.dense:
            return file
        skip = max((self.first or 0) - file.first_offset, file.skip)
        cut = file if self.last is None else file.before(self.last + 1)
        return cut if skip == cut.skip else replace(cut, skip=skip)
