"""What does it mean when Kafka does not give what is to be read? One text for each case, whoever reads: a task, the driver or Spark."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from kafka_s3.model.errors import KafkaUnavailable, OffsetsLost, UnreadableRecord
from kafka_s3.model.offsets import TopicPartition

DAMAGED: Final = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG})
"""What the client says of bytes that are no records."""


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
