"""What does Kafka have? A scan of offset ranges with a consumer of its own: no Spark, no consumer group, nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.clients import CHECK, REQUEST_SECONDS
from kafka_s3.kafka.envelopes import envelopes
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic

GROUP: Final = "kafka-s3-verify"
BATCH: Final = 10_000
POLL_SECONDS: Final = 0.3


class KafkaScan:
    """A real cluster; `properties` are the sink's own client properties by their Java names, so that it sees what the sink sees."""

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str]) -> None:
        self._servers = bootstrap_servers
        self._brokers = KafkaBrokers(bootstrap_servers, properties=properties)

    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._brokers.cluster_id()

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        return self._brokers.describe(names)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the log start."""
        return self._brokers.starts(partitions)

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Per topic-partition the offset after the last readable record."""
        return self._brokers.heads(partitions)

    def compacted(self, names: Sequence[str]) -> set[str]:
        """The topics whose `cleanup.policy` names compaction. Where that may not be read: all of them, which is the milder check."""
        return {name for name in names if self._is_compacted(name)}

    def values(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[tuple[int, bytes | None]]:
        """Offset and value of the records with offsets in `[start, until)`, ascending; of open and aborted transactions only if the sink
        reads those.
        """
        consumer = self._brokers.clients.consumer(GROUP)
        try:
            consumer.assign([Place(*topic_partition, start)])
            yield from self._consumed(consumer, topic_partition, start, until=until)
        finally:
            consumer.close()

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The same records whole."""
        return envelopes(self._brokers.clients, topic_partition, start=start, until=until)

    def _is_compacted(self, name: str) -> bool:
        try:
            return "compact" in self._brokers.topic_settings(name).get("cleanup.policy", "")
        except KafkaUnavailable:
            raise
        except SourceError:
            return True

    def _consumed(
        self, consumer: Consumer, topic_partition: TopicPartition, start: int, *, until: int
    ) -> Iterator[tuple[int, bytes | None]]:
        position, quiet_since = start, time.monotonic()
        while position < until:
            # returns full, or after this time with what there is: never asked for more than there can be, it mostly returns full
            messages = consumer.consume(min(BATCH, until - position), timeout=POLL_SECONDS)
            if messages:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > REQUEST_SECONDS:
                raise KafkaUnavailable(
                    f"Kafka at {self._servers} sent no record of {topic_partition} for {REQUEST_SECONDS:.0f} s. Verify again."
                )
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise SourceError(
                        f"Kafka at {self._servers} did not give the records of {topic_partition}: {error.str()} ({error.name()}). Where "
                        f"retention removed them meanwhile, verify again. {CHECK}"
                    )
                offset = message.offset()
                if offset is None or offset >= until:  # None only before a message was sent
                    return
                yield offset, message.value()
                position = offset + 1
