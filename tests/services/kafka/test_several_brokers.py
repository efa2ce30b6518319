"""What becomes of a sink when one of several brokers is away, and with it the only replica of a topic-partition?

A real cluster, the real loop and the tasks' own reader; only the bucket is in memory.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.support.configurations import STATE
from tests.support.kafka import Given, document, produce
from tests.support.memory_world import rows, settings_of
from tests.support.observers import Warnings
from tests.support.waiting import eventually

TOPIC = "orders"
ON_SECOND = TopicPartition(TOPIC, 1)
NODES = [[1], [2], [1]]
"""The only replica of each topic-partition."""
SOON_FENCED = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
IMPATIENT = {"consumer.override.default.api.timeout.ms": "4000"}
Away = Callable[[EmbeddedKafka], None]


@dataclass
class Tasks:
    """The engine: each range by the tasks' own reader, in this process."""

    settings: Settings
    store: MemoryStore

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        reader = RangeReader(self.settings.text("kafka.bootstrap.servers"), consumer_properties(self.settings))
        ranges = [OffsetRange(wanted.topic_partition, wanted.first_unread, wanted.until) for wanted in assignments]
        pipeline = make_pipeline(self.settings)
        read = zip(assignments, reader.read_ranges(ranges), strict=True)
        return [pipeline.outcome(wanted, batches, self.store) for wanted, (_, batches) in read]


@dataclass
class Cluster:
    """Two brokers. The first has the metadata, too, and does not go away."""

    first: EmbeddedKafka
    second: EmbeddedKafka

    @property
    def servers(self) -> str:
        return f"{self.first.bootstrap_servers},{self.second.bootstrap_servers}"

    def send(self, partition: int, numbers: range) -> None:
        values = [document(n=number) for number in numbers]
        produce(self.servers, TOPIC, [Given(value, partition) for value in values])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with (
        EmbeddedKafka(settings=SOON_FENCED) as first,
        EmbeddedKafka(settings=SOON_FENCED, joins=first, node=2) as second,
    ):
        found = Cluster(first, second)
        admin = AdminClient({"bootstrap.servers": found.servers})
        (made,) = admin.create_topics([NewTopic(TOPIC, len(NODES), replica_assignment=NODES)]).values()
        made.result(30)
        yield found


@dataclass
class Run:
    """A sink of the cluster's topic that closes a file after three records."""

    sink: Sink
    store: MemoryStore
    reported: Warnings

    def numbers(self) -> dict[int, list[int]]:
        """What the objects hold, by partition."""
        found: dict[int, list[int]] = {number: [] for number in range(len(NODES))}
        for key, content in sorted(self.store.objects.items()):
            if not key.startswith(STATE):
                found[int(key.split("+")[1])] += [row["n"] for row in rows(key, content)]
        return found

    def reaches(self, *wanted: int) -> bool:
        """Whether after another cycle so many records of each partition are in objects."""
        self.sink.poll_and_commit()
        return [len(found) for found in self.numbers().values()] == list(wanted)


@pytest.fixture
def run(cluster: Cluster) -> Run:
    settings = settings_of({"flush.size": "3", "kafka.bootstrap.servers": cluster.servers, **IMPATIENT})
    store, reported = MemoryStore(), Warnings()
    brokers = KafkaBrokers(cluster.servers, properties=consumer_properties(settings))
    sink = build_sink(settings, brokers, source=Tasks(settings, store), store=store, clock_ms=now_ms, observer=reported)
    sink.open()
    return Run(sink, store, reported)


def stopped(broker: EmbeddedKafka) -> None:
    broker.halt()


def killed(broker: EmbeddedKafka) -> None:
    """The brokers that are left learn it by its silence."""
    assert broker._process is not None
    os.killpg(broker._process._guard.pid, signal.SIGKILL)
    broker.halt()


@pytest.mark.nightly
@pytest.mark.parametrize("goes_away", [stopped, killed], ids=["stopped", "killed"])
def test_a_topic_partition_that_nobody_leads_is_reported_and_left_out_until_its_broker_is_back(
    goes_away: Away, cluster: Cluster, run: Run
) -> None:
    for partition in range(3):
        cluster.send(partition, range(3))
    eventually(lambda: run.reaches(3, 3, 3))

    goes_away(cluster.second)
    cluster.send(0, range(3, 6))
    cluster.send(2, range(3, 9))
    eventually(lambda: run.reaches(6, 3, 9))
    silent = f"{ON_SECOND}: no broker answers for it (no leader, or deleted). Left out until one does."
    assert run.reported.texts.count(silent) == 1
    assert run.sink.topics.open_problems == (f"no broker answers for {ON_SECOND}",)
    assert ON_SECOND not in run.sink.topics.lag()
    assert run.sink.poll_and_commit(), "a topic-partition without a leader holds no round"

    cluster.second.start()
    cluster.send(1, range(3, 6))
    eventually(lambda: run.reaches(6, 6, 9))
    assert run.sink.topics.open_problems == ()
    assert run.reported.texts.count(silent) == 1
    assert run.numbers() == {0: [*range(6)], 1: [*range(6)], 2: [*range(9)]}


@pytest.mark.nightly
def test_a_sink_starts_and_names_the_topic_partition_whose_broker_is_away(cluster: Cluster, run: Run) -> None:
    for partition in range(3):
        cluster.send(partition, range(3))
    stopped(cluster.second)
    eventually(lambda: run.reaches(3, 0, 3))
    settings = settings_of({"flush.size": "3", "kafka.bootstrap.servers": cluster.servers, **IMPATIENT})
    reported = Warnings()
    brokers = KafkaBrokers(cluster.servers, properties=consumer_properties(settings))
    again = build_sink(
        settings, brokers, source=Tasks(settings, run.store), store=run.store, clock_ms=now_ms, observer=reported
    )
    again.open()
    assert again.poll_and_commit()
    assert any(text.startswith(f"{ON_SECOND}: no broker answers") for text in reported.texts)
    cluster.send(0, range(3, 6))
    eventually(lambda: Run(again, run.store, reported).reaches(6, 0, 3))
    cluster.second.start()
    eventually(lambda: Run(again, run.store, reported).reaches(6, 3, 3))
