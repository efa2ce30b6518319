"""Which topics can a pattern match? All but the brokers' own, as with Kafka's consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_s3.kafka.brokers import KafkaBrokers
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from kafka_s3_testing.services.kafka import EmbeddedKafka


def test_a_topic_that_begins_with_two_underscores_is_an_ordinary_one(kafka: EmbeddedKafka) -> None:
    brokers = KafkaBrokers(kafka.bootstrap_servers)
    brokers.create_topic("__audit")

    eventually(
        lambda: "__audit" in brokers.topic_names()
    )  # a broker hears of a topic after the controller has answered
    assert "__consumer_offsets" not in brokers.topic_names()
