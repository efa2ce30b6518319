"""What does it mean when Kafka does not give what is to be read? One text for each case, whoever reads: a task, the driver or Spark."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from kafka_s3.model.errors import KafkaUnavailable, OffsetsLost, UnreadableRecord
from kafka_s3.model.offsets import TopicPartition

DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG})
"""What the client says of bytes that are no records."""
TRANSIENT: Final = frozenset({
    KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
    KafkaError._NOENT, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._WAIT_COORD, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
    KafkaError.BROKER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_CONTROLLER,
})  # fmt: skip
"""What Kafka's own clients try again, and librdkafka's word for a partition without a known leader, as after a broker's restart."""
CHECK: Final = "Check the client's rights and security settings (consumer.override.*)."


def lost(reason: str) -> OffsetsLost:
    """Records went while they were read: retention, a log that was cut, a topic that was created again."""
    return OffsetsLost(f"Kafka lost records while they were read: {reason} The next start says which.")


def damaged(topic_partition: TopicPartition, offset: int, reason: str) -> UnreadableRecord:
    """What the brokers hold from an offset on are no records."""
    topic, partition = topic_partition
    return UnreadableRecord(
        f"What Kafka holds of {topic_partition} from offset {offset} on is damaged: {reason}. Restore it from another replica, or "
        f"pass over it: kafka-s3 position set CONFIG {topic} {partition} OFFSET, with the first offset behind the damage.",
        offset,
    )


def unanswered(text: str) -> KafkaUnavailable:
    """The brokers did not answer. `text` says what was asked of whom."""
    return KafkaUnavailable(f"{text} Check kafka.bootstrap.servers and that the brokers can be reached from here.")
