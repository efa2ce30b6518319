"""What is made of answers that librdkafka gives without an error, though they are none?"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import OFFSET_INVALID
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import ListOffsetsResultInfo

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.offsets import LogEnd, TopicPartition

LED, LEADERLESS = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS = {LED: 7, LEADERLESS: OFFSET_INVALID}


class LeaderWent:
    """librdkafka's admin client, as it answered a real cluster one of whose brokers had just gone."""

    def describe_cluster(self, **_: Any) -> Future[object]:
        future: Future[object] = Future()
        future.set_result(object())
        return future

    def list_offsets(self, asked: Iterable[Place], **_: Any) -> dict[Place, Future[ListOffsetsResultInfo]]:
        return {place: self._answer(TopicPartition(place.topic, place.partition)) for place in asked}

    def _answer(self, tp: TopicPartition) -> Future[ListOffsetsResultInfo]:
        future: Future[ListOffsetsResultInfo] = Future()
        future.set_result(ListOffsetsResultInfo(OFFSETS[tp], -1, 3))
        return future


def test_a_topic_partition_whose_leader_went_just_now_is_left_out_and_does_not_end_at_minus_1001() -> None:
    brokers = KafkaBrokers("127.0.0.1:1")
    brokers._admin = LeaderWent()  # type: ignore[assignment]

    assert brokers.ends([LED, LEADERLESS]) == {LED: LogEnd(7, 3)}
    assert brokers.starts([LED, LEADERLESS]) == brokers.heads([LED, LEADERLESS]) == {LED: 7}
    assert brokers.offsets_at({LED: 5, LEADERLESS: 5}) == {LED: 7}
