"""Which records does Kafka have, with everything that a task takes of them? For those who look at a few of them, outside of any sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader.messages import ReadScope
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.model.protocols import Topic


class WholeRecords:
    """A real cluster; `properties` are the sink's own client properties by their Java names, so that it sees what the sink sees.

    Methods raise KafkaUnavailable where the brokers do not answer, SourceError where they refuse.
    """

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str]) -> None:
        self._brokers = KafkaBrokers(bootstrap_servers, properties=properties)
        self._reader = RangeReader(bootstrap_servers, properties, ReadScope.ENVELOPES)

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        return self._brokers.describe(names)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the log start."""
        return self._brokers.starts(partitions)

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""
        return self._brokers.heads(partitions)

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in `[start, until)` with keys and headers, ascending. Raises OffsetsLost, too."""
        with closing(self._reader.read([OffsetRange(topic_partition, start, until)])) as ranges:
            for _, batches in ranges:
                yield from batches
