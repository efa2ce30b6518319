"""What a real cluster says of topic-partitions, each on its own."""

from __future__ import annotations

from collections.abc import Callable

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.kafka import EmbeddedKafka


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


def test_a_topic_that_was_looked_for_before_it_was_there_has_its_ends_at_once(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    early, maker = KafkaBrokers(kafka.bootstrap_servers), KafkaBrokers(kafka.bootstrap_servers)
    for number in range(5):
        new = TopicPartition(f"{topic('other')}-{number}", 0)
        assert early.describe([new.topic]) == {}
        maker.create_topic(new.topic)
        assert early.heads([new]) == early.starts([new]) == {new: 0}
        maker.delete_topic(new.topic)
