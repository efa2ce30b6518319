"""What becomes of messages that a topic of a real broker does not take?"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending_in_order
from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.model.offsets import TopicPartition as Place
from kafka_s3.model.protocols import Message

HOUR_MS = 3_600_000


def test_what_a_topic_does_not_take_is_told_and_everything_beside_it_arrives(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("strict", config={"message.timestamp.after.max.ms": str(HOUR_MS), "max.message.bytes": "5000"})
    now = int(time.time() * 1000)
    times = [now, now + 10 * HOUR_MS, now, 1_700_000_000_000_000_000, now, now, now]
    sizes = [10, 10, 10, 10, 9_000, 2_000_000, 10]
    wanted = [
        Message(None, bytes([65 + n]) * size, (), at) for n, (at, size) in enumerate(zip(times, sizes, strict=True))
    ]
    brokers = KafkaBrokers(kafka.bootstrap_servers)

    refused = brokers.produce(name, wanted, replication=1)

    assert sorted(one.message.value[:1] for one in refused if one.message.value) == [b"B", b"D", b"E", b"F"]
    assert {one.message.value[:1]: one.reason for one in refused if one.message.value}[b"F"].endswith("size too large")
    assert values(kafka.bootstrap_servers, name) == [b"A", b"C", b"G"]


def test_behind_a_record_that_is_not_taken_nothing_is_written_in_order(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("ordered", config={"max.message.bytes": "5000"})
    brokers = KafkaBrokers(kafka.bootstrap_servers)

    def send_all() -> None:
        with sending_in_order(brokers.clients) as send:
            for n in range(1_000):
                send(name, Message(None, b"x" * (9_000 if n == 500 else 100), (), None), partition=0)

    with pytest.raises(KafkaUnavailable, match="did not take records"):
        send_all()
    place = Place(name, 0)
    assert brokers.heads([place])[place] <= 500


def values(servers: str, name: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.partition.eof": True})
    consumer.assign([TopicPartition(name, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append((message.value() or b"")[:1])
    consumer.close()
    return sorted(found)
