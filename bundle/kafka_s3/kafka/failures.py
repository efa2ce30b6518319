"""What does it mean when Kafka does not give what is to be read? One text for each case, whoever reads: a task, the driver or Spark."""

from __future__ import annotations

from kafka_s3.model.errors import KafkaUnavailable, OffsetsLost


def lost(reason: str) -> OffsetsLost:
    """Records went while they were read: retention, a log that was cut, a topic that was created again."""
    return OffsetsLost(f"Kafka lost records while they were read: {reason} The next start says which.")


def unanswered(text: str) -> KafkaUnavailable:
    """The brokers did not answer. `text` says what was asked of whom."""
    return KafkaUnavailable(f"{text} Check kafka.bootstrap.servers and that the brokers can be reached from here.")
