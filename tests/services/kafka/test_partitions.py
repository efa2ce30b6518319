"""What a real cluster says of topic-partitions, each on its own."""

from __future__ import annotations

from collections.abc import Callable

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.model.offsets import TopicPartition


def test_topic_partitions_that_are_not_there_are_left_out_of_the_answers(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    kept, deleted = (TopicPartition(topic(name), 0) for name in ("kept", "deleted"))
    brokers = KafkaBrokers(kafka.bootstrap_servers)
    asked = [kept, deleted, kept._replace(partition=7)]
    assert brokers.heads([kept, deleted]) == {kept: 0, deleted: 0}
    brokers.delete_topic(deleted.topic)
    while brokers.describe([deleted.topic]):
        pass

    assert brokers.heads(asked) == brokers.starts(asked) == {kept: 0}
    assert brokers.offsets_at(dict.fromkeys(asked, 0)) == {kept: None}
    assert brokers.heads([deleted]) == {}
