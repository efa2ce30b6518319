"""Is a log still the one that was read? Asked by leader epoch (KIP-320): one that was cut and has grown again ends its epochs earlier.

librdkafka asks the brokers (OffsetForLeaderEpoch) before it fetches from an offset that comes with an epoch; no call does that alone.
So the offsets are assigned, and each answers with a record, the end of its log, or where it was cut.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from kafka_s3.kafka.failures import unanswered
from kafka_s3.model.offsets import LogEnd, TopicPartition

GROUP: Final = "kafka-s3-epochs"
POLL_SECONDS: Final = 0.5
ANSWERS: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
_CUT: Final = re.compile(r"broker end offset is (-?\d+)")


def cut_logs(
    consumer: Consumer, positions: Mapping[TopicPartition, LogEnd], *, timeout_s: float
) -> dict[TopicPartition, int]:
    """Those that were cut before a position, and the offset up to which they are what they were. Raises KafkaUnavailable."""
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
        tp = TopicPartition(message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET and (cut := _CUT.search(error.str())):
            found[tp] = max(int(cut[1]), 0)
        if tp in waiting and (error is None or error.code() in ANSWERS):
            waiting.discard(tp)
            consumer.incremental_unassign([Place(*tp)])
    return found
