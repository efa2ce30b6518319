"""Is a log still the one that was read? Asked by leader epoch (KIP-320): one that was cut and has grown again ends its epochs earlier.

librdkafka asks the brokers (OffsetForLeaderEpoch) before it fetches from an offset that comes with an epoch; no call does that alone. Where
the log was cut before the offset, it fetches from the cut instead, as every consumer with a reset policy does. So the offsets are assigned,
and the offset of what comes first, a record or the end of the log, is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from kafka_s3.kafka.failures import unanswered
from kafka_s3.model.offsets import LogEnd, TopicPartition

GROUP: Final = "kafka-s3-epochs"
SETTINGS: Final = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
"""Without a reset policy librdkafka says where a log was cut in the words of an error alone; a record of any transaction shows the cut."""
POLL_SECONDS: Final = 0.5


def cut_logs(
    consumer: Consumer, positions: Mapping[TopicPartition, LogEnd], *, timeout_s: float
) -> dict[TopicPartition, int]:
    """Those that were cut before a position, and the offset up to which they are what they were. Raises KafkaUnavailable.

    The consumer is one of these `SETTINGS`. Offsets without a record at the cut (compacted away since, or of a transaction's marker) count
    as uncut: nothing new is there.
    """
    consumer.assign([Place(*tp, end.offset, leader_epoch=end.epoch) for tp, end in positions.items()])
    waiting, found, until = set(positions), dict[TopicPartition, int](), time.monotonic() + timeout_s
    while waiting:
        if time.monotonic() > until:
            names = ", ".join(map(str, sorted(waiting)))
            raise unanswered(
                f"Kafka did not say within {timeout_s:.0f} s whether these logs are still the same: {names}."
            )
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        tp, error = TopicPartition(message.topic() or "", message.partition() or 0), message.error()
        if tp not in waiting or (error is not None and error.code() != KafkaError._PARTITION_EOF):
            continue
        waiting.discard(tp)
        consumer.incremental_unassign([Place(*tp)])
        if (at := message.offset() or 0) < positions[tp].offset:
            found[tp] = at
    return found
