"""What becomes of messages that a topic of a real broker does not take?"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending_in_transactions
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.protocols import Message
from kafka_s3_testing.services.kafka import EmbeddedKafka

HOUR_MS = 3_600_000


def test_what_a_topic_does_not_take_is_reported_and_everything_beside_it_arrives(
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
    assert sorted(value[:1] for value in values(kafka.bootstrap_servers, name)) == [b"A", b"C", b"G"]


def test_behind_a_record_that_is_not_taken_nothing_counts_of_a_transaction(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("ordered", config={"max.message.bytes": "5000"})
    brokers, seconds = KafkaBrokers(kafka.bootstrap_servers), iter(range(1_000_000))

    def send_all() -> None:
        with sending_in_transactions(brokers.clients, name, clock=lambda: next(seconds) / 100) as send:
            for n in range(300):
                send(name, Message(None, b"x" * 9_000 if n == 290 else b"%d" % n, (), None), partition=0)

    with pytest.raises(KafkaUnavailable, match="did not take records"):
        send_all()
    found = values(kafka.bootstrap_servers, name)
    assert 0 < len(found) <= 290
    assert found == [b"%d" % n for n in range(len(found))]


@pytest.mark.parametrize("pause_s", [0.0, 0.3])  # its client learns of it sooner or later
def test_what_was_begun_under_a_name_never_comes_once_another_begins_under_it(
    kafka: EmbeddedKafka, topic: Callable[..., str], pause_s: float
) -> None:
    name = topic("taken-over")
    brokers = KafkaBrokers(kafka.bootstrap_servers)

    def first() -> None:
        with sending_in_transactions(brokers.clients, name) as send:
            send(name, Message(None, b"late", (), None), partition=0)
            second()
            for text in (b"later", b"last"):
                send(name, Message(None, text, (), None), partition=0)
                time.sleep(pause_s)

    def second() -> None:
        with sending_in_transactions(brokers.clients, name) as send:
            send(name, Message(None, b"counts", (), None), partition=0)

    with pytest.raises(SourceError, match="Another process writes as"):
        first()
    assert values(kafka.bootstrap_servers, name) == [b"counts"]


def test_where_something_else_ends_it_what_was_sent_counts(kafka: EmbeddedKafka, topic: Callable[..., str]) -> None:
    name = topic("stopped")
    brokers = KafkaBrokers(kafka.bootstrap_servers)

    def stopped() -> None:
        with sending_in_transactions(brokers.clients, name) as send:
            send(name, Message(None, b"sent", (), None), partition=0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert values(kafka.bootstrap_servers, name) == [b"sent"]


def values(servers: str, name: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.partition.eof": True})
    consumer.assign([TopicPartition(name, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(message.value() or b"")
    consumer.close()
    return found
