"""What does the audit ask of Kafka? The seam; `kafka.plain_reader.PlainReader` asks a real cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic


class Cluster(Protocol):
    """A cluster as the audit sees it. Methods raise KafkaUnavailable where it does not answer, SourceError where it refuses."""

    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        ...

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the log start."""
        ...

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""
        ...

    def compacted(self, names: Sequence[str]) -> set[str]:
        """The topics of which compaction may remove records."""
        ...

    def values(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[tuple[int, bytes | None]]:
        """Offset and value of the records with offsets in `[start, until)`, ascending."""
        ...

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The same records whole, as a task reads them: `offset`, `timestamp`, `key`, `value` and `headers`."""
        ...
