"""What does Kafka have? A scan of offset ranges with a consumer of its own: no Spark, no consumer group, nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kafka_s3.kafka.brokers import REQUEST_SECONDS, KafkaBrokers, client_settings
from kafka_s3.model.cluster import Record
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic

BATCH: Final = 10_000
POLL_SECONDS: Final = 0.3


class KafkaScan:
    """A real cluster; `properties` are the sink's own client properties by their Java names, so that it sees what the sink sees."""

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str]) -> None:
        self._servers = bootstrap_servers
        self._brokers = KafkaBrokers(bootstrap_servers, properties=properties)
        self._client = client_settings(bootstrap_servers, properties)
        self._isolation = properties.get("isolation.level", "read_uncommitted")

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
        admin = AdminClient({**self._client, "log_level": 0})
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        found = set()
        for resource, future in (
            admin.describe_configs(resources, request_timeout=REQUEST_SECONDS).items() if names else ()
        ):
            try:
                policy = future.result()["cleanup.policy"].value
            except KafkaException:
                policy = "compact"
            if "compact" in (policy or ""):
                found.add(resource.name)
        return found

    def records(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[Record]:
        """The records with offsets in `[start, until)`, ascending; of open and aborted transactions only if the sink reads those."""
        settings: dict[str, Any] = {
            **self._client, "group.id": "kafka-s3-verify", "enable.auto.commit": False, "auto.offset.reset": "error",
            "enable.partition.eof": True, "isolation.level": self._isolation, "log_level": 0,
        }  # fmt: skip
        consumer = Consumer(settings)
        try:
            consumer.assign([Place(*topic_partition, start)])
            yield from self._consumed(consumer, topic_partition, until)
        finally:
            consumer.close()

    def _consumed(self, consumer: Consumer, topic_partition: TopicPartition, until: int) -> Iterator[Record]:
        quiet_since = time.monotonic()
        while True:
            messages = consumer.consume(
                BATCH, timeout=POLL_SECONDS
            )  # returns full, or after this time with what there is
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
                        "retention removed them meanwhile, verify again; otherwise check the client's rights (consumer.override.*)."
                    )
                offset = message.offset()
                if offset is None or offset >= until:  # None only before a message was sent
                    return
                yield offset, message.value()
