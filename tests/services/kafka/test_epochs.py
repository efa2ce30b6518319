"""Real brokers say which logs were cut since they were read, whatever has happened to them besides."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.support.kafka import Given, cut_segment, document, produce

BATCH = 5
RECORDS = 30
Change = Callable[[EmbeddedKafka, str], None]


def numbered(numbers: Iterable[int]) -> list[Given]:
    return [Given(document(n=n)) for n in numbers]


def cut(at: int) -> Change:
    return lambda broker, name: cut_segment(broker.partition_folder(name, 0), at)


def emptied(broker: EmbeddedKafka, name: str) -> None:
    """A disk that lost its data."""
    for file in broker.partition_folder(name, 0).iterdir():
        if file.name != "partition.metadata":
            file.unlink() if file.is_file() else shutil.rmtree(file)


def nothing(broker: EmbeddedKafka, name: str) -> None:
    """The broker restarts, and the log is what it was, under another leader epoch."""


def more(broker: EmbeddedKafka, name: str) -> None:
    produce(broker.bootstrap_servers, name, numbered(range(100, 120)))


def trimmed(broker: EmbeddedKafka, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([Place(name, 0, RECORDS - 1)]).values():
        future.result()


def aborted(broker: EmbeddedKafka, name: str) -> None:
    """What follows the cut is of a transaction that was aborted: a consumer of committed records sees none of it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "linger.ms": 5})
    producer.init_transactions(20)
    producer.begin_transaction()
    for n in range(RECORDS):
        producer.produce(name, b"%d" % n, partition=0)
    producer.flush(20)
    producer.abort_transaction()


CASES: dict[str, tuple[Change, Change, int | None]] = {
    "the same log": (nothing, nothing, None),
    "the same log, longer": (nothing, more, None),
    "cut and shorter": (cut(10), nothing, 10),
    "cut and longer": (cut(25), more, 25),
    "cut, and an aborted transaction behind": (cut(20), aborted, 20),
    "all lost": (emptied, nothing, 0),
    "all lost, and others came": (emptied, more, 0),
    "retention up to the last record": (nothing, trimmed, None),
    "retention, and longer": (nothing, lambda broker, name: (trimmed(broker, name), more(broker, name))[1], None),
}


def test_each_log_that_was_cut_is_named_with_the_offset_up_to_which_it_is_the_same() -> None:
    names = {f"log-{number}": case for number, case in enumerate(CASES)}
    with EmbeddedKafka() as broker:
        for name in names:
            broker.create_topic(name)
            for first in range(0, RECORDS, BATCH):
                produce(broker.bootstrap_servers, name, numbered(range(first, first + BATCH)))
        partitions = [TopicPartition(name, 0) for name in names]
        known = KafkaBrokers(broker.bootstrap_servers).ends(partitions)
        assert {end.offset for end in known.values()} == {RECORDS}
        broker.halt()
        for name, case in names.items():
            CASES[case][0](broker, name)
        broker.start()
        for name, case in names.items():
            CASES[case][1](broker, name)
        for isolation in ("read_uncommitted", "read_committed"):
            brokers = KafkaBrokers(broker.bootstrap_servers, properties={"isolation.level": isolation})
            found = {names[tp.topic]: at for tp, at in brokers.cut_before(known).items()}
            assert found == {case: at for case, (_, _, at) in CASES.items() if at is not None}
        # of an offset that retention has passed nothing is known, which is no cut: the log's start says it
        early = {
            tp: LogEnd(BATCH, end.epoch) for tp, end in known.items() if names[tp.topic] == "retention, and longer"
        }
        assert brokers.cut_before(early) == {}


@pytest.mark.nightly
def test_a_log_of_several_leader_epochs_is_the_same_up_to_its_earliest_cut() -> None:
    """Each log got a batch in each of four epochs, and is cut in two more."""
    cuts = {"never": (), "once": (10,), "first less, then more": (15, 5), "first more, then less": (5, 8)}
    partitions = [TopicPartition(name.replace(" ", "-").replace(",", ""), 0) for name in cuts]
    with EmbeddedKafka() as broker:
        known = list[dict[TopicPartition, LogEnd]]()
        for tp in partitions:
            broker.create_topic(tp.topic)
        for first in range(0, 4 * BATCH, BATCH):
            for tp in partitions:
                produce(broker.bootstrap_servers, tp.topic, numbered(range(first, first + BATCH)))
            known.append(KafkaBrokers(broker.bootstrap_servers).ends(partitions))
            broker.halt()
            broker.start()
        for cut_number in range(2):
            broker.halt()
            for tp, places in zip(partitions, cuts.values(), strict=True):
                for at in places[cut_number : cut_number + 1]:
                    cut_segment(broker.partition_folder(tp.topic, 0), at)
            broker.start()
            for tp in partitions:
                for n in range(100, 110):  # a batch each
                    produce(broker.bootstrap_servers, tp.topic, numbered([n]))
        brokers = KafkaBrokers(broker.bootstrap_servers)
        for ends in known:
            earliest = {tp: min(places, default=RECORDS) for tp, places in zip(partitions, cuts.values(), strict=True)}
            assert brokers.cut_before(ends) == {tp: at for tp, at in earliest.items() if at < ends[tp].offset}
