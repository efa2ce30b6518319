"""How are whole records looked at outside of any sink? The seam; `kafka.plain_reader` reads a real cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic


class KafkaRecords(Protocol):
    """A cluster whose records can be read whole. Methods raise KafkaUnavailable, SourceError; `batches` OffsetsLost, too."""

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        ...

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the log start."""
        ...

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""
        ...

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in `[start, until)` with everything that a task takes, ascending."""
        ...
