"""Does the engine read exactly the offset ranges that it is given, in order, with either reader, and does each topic-partition report?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.planner import QUIET_OFFSETS, RANGES_IN_A_TASK
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.spark.launch import SparkEngine
from kafka_s3.run.spark.reader_choice import ReaderChoice, Trial
from kafka_s3.run.spark.source import TASKS_AT_LEAST, ReadRanges, SparkSource, TasksSource, shares
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3_testing.services.process import free_ports
from tests.support.bucket import Bucket
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

Engine = Callable[..., SparkSource]
Either = Callable[..., ReadRanges]


@pytest.fixture
def parts(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str) -> Callable[[str], Settings]:
    """The settings of a configuration that closes files after three records."""

    def make(topics: str) -> Settings:
        config = {
            **BASE, "name": "source", "topics": topics, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
            "kafka.bootstrap.servers": kafka.bootstrap_servers, "flush.size": "3",
        }  # fmt: skip
        return resolved(validate(config).usable())

    return make


@pytest.fixture
def engine(parts: Callable[[str], Settings], kafka: EmbeddedKafka, spark: SparkSession) -> Engine:
    """Spark's own Kafka source."""

    def make(topics: str, **consumer: str) -> SparkSource:
        return SparkSource(spark, task_plan(parts(topics)), bootstrap_servers=kafka.bootstrap_servers, kafka=consumer)

    return make


@pytest.fixture(params=["tasks", "spark"])
def either(
    request: pytest.FixtureRequest, parts: Callable[[str], Settings], kafka: EmbeddedKafka, spark: SparkSession
) -> Either:
    """One reader and the other."""

    def make(topics: str, **consumer: str) -> ReadRanges:
        servers, settings = kafka.bootstrap_servers, parts(topics)
        if request.param == "tasks":
            return TasksSource(
                spark, task_plan(settings), bootstrap_servers=servers, properties=consumer
            ).run_reading_tasks
        return SparkSource(spark, task_plan(settings), bootstrap_servers=servers, kafka=consumer).run_job

    return make


def wanted(topic: str, partition: int, *, start: int, until: int, close: Reason | None = None) -> Assignment:
    return Assignment(TopicPartition(topic, partition), start, until, (Delivery(0, until),), close=close)


def test_ranges_are_read_exactly_in_order_and_each_by_a_task_of_its_own(
    engine: Engine, kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    a, b = topic("a", 2), topic("b")
    for name, partition in ((a, 0), (a, 1), (b, 0)):
        produce(kafka.bootstrap_servers, name, [Given(document(n=n), partition) for n in range(1000)])
    assignments = [
        wanted(a, 0, start=3, until=700),
        wanted(a, 1, start=990, until=1000),
        wanted(b, 0, start=0, until=1),
    ]
    frame = engine(f"{a},{b}").frame(assignments)
    rows = frame.select("topic", "partition", "offset", F.spark_partition_id().alias("task")).collect()
    by_task: dict[int, list[tuple[str, int, int]]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append((row.topic, row.partition, row.offset))
    expected = [[(x.topic_partition.topic, x.topic_partition.partition, offset) for offset in range(x.start, x.until)]
                for x in assignments]  # fmt: skip
    assert sorted(by_task.values()) == sorted(expected)


def test_one_job_reports_on_every_topic_partition_also_on_an_empty_one(
    either: Either, kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    a, b = topic("a", 3), topic("b")
    produce(kafka.bootstrap_servers, a, [Given(document(n=n), n % 2) for n in range(20)])
    produce(kafka.bootstrap_servers, b, [Given(document(n=n)) for n in range(5)])
    places = [(a, 0, 2, 10), (a, 1, 0, 4), (a, 2, 0, 0), (b, 0, 0, 5)]
    reports = either(f"{a},{b}")([wanted(t, p, start=start, until=until) for t, p, start, until in places])
    facts = [
        (*report.topic_partition, report.read, report.frontier, [(f.first_offset, f.last_offset) for f in report.files])
        for report in reports
    ]
    assert facts == [
        (a, 0, 8, 8, [(2, 4), (5, 7)]),
        (a, 1, 4, 3, [(0, 2)]),
        (a, 2, 0, 0, []),
        (b, 0, 5, 3, [(0, 2)]),
    ]


def test_nothing_of_what_a_task_has_uploaded_is_visible(
    either: Either, kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str]
) -> None:
    name = topic("hidden")
    produce(kafka.bootstrap_servers, name, [Given(document(n=n)) for n in range(6)])
    (report,) = either(name)([wanted(name, 0, start=0, until=6)])
    content = Bucket(s3.endpoint_url, bucket)
    assert len(report.files) == 2
    assert content.listing() == {}
    content.close()


def test_records_of_aborted_transactions_are_gaps_under_read_committed(
    either: Either, kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    for count, end in ((3, "commit"), (4, "abort"), (2, "commit")):
        producer.begin_transaction()
        for n in range(count):
            producer.produce(name, document(n=n, end=end), partition=0)
        assert producer.flush(30) == 0  # an abort would drop what has not been sent
        getattr(producer, f"{end}_transaction")(30)
    place = TopicPartition(name, 0)
    committed = {"isolation.level": "read_committed"}
    head = 3 + 1 + 4 + 1 + 2 + 1  # each transaction ends with a marker, written some time after the broker's answer
    brokers = KafkaBrokers(kafka.bootstrap_servers, properties=committed)
    eventually(lambda: brokers.heads([place])[place] == head)
    (report,) = either(name, **committed)([wanted(name, 0, start=0, until=head, close=Reason.FLUSH_NOW)])
    assert (report.rows, report.frontier) == (5, head)
    assert [(f.first_offset, f.last_offset, f.records) for f in report.files] == [(0, 2, 3), (9, 10, 2)]


def test_large_and_small_records_of_several_topics_cross_in_one_job(
    engine: Engine, kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    mixed, small = topic("mixed", 2), topic("small")
    produce(kafka.bootstrap_servers, mixed, [Given(document(n=n), n % 2) for n in range(6)])
    produce(
        kafka.bootstrap_servers, mixed, [Given(document(text="x" * 900_000)), *[Given(document(n=n)) for n in (7, 8)]]
    )
    produce(kafka.bootstrap_servers, small, [Given(document(n=n)) for n in range(3)])
    places = [(mixed, 0, 6), (mixed, 1, 3), (small, 0, 3)]
    reports = engine(f"{mixed},{small}").run_job([wanted(name, n, start=0, until=until) for name, n, until in places])
    assert [(report.read, len(report.files)) for report in reports] == [(6, 2), (3, 1), (3, 1)]


# ------------------------------------------------------------------------------------------------ tasks that read for themselves


def test_quiet_topic_partitions_share_tasks_and_long_ranges_do_not() -> None:
    long = [wanted("long", n, start=0, until=QUIET_OFFSETS) for n in range(3)]
    few = [wanted("few", n, start=0, until=5) for n in range(TASKS_AT_LEAST)]
    many = [wanted(f"many-{n % 50}", n // 50, start=7, until=9) for n in range(1000)]
    assert shares(long, 100) == [(one,) for one in long]
    assert shares(few, 100) == [(one,) for one in few]
    packed = shares([*many, *long], 100)
    assert packed[:3] == [(one,) for one in long]
    assert len(packed) == 3 + -(-1000 // RANGES_IN_A_TASK)
    assert max(map(len, packed)) == RANGES_IN_A_TASK
    assert sorted((one for share in packed[3:] for one in share), key=lambda one: one.topic_partition) == sorted(
        many, key=lambda one: one.topic_partition
    )
    assert shares([], 100) == []
    assert len(shares(few, 2)) == 2


def test_a_task_reads_many_quiet_topic_partitions(
    parts: Callable[[str], Settings], kafka: EmbeddedKafka, spark: SparkSession, topic: Callable[..., str]
) -> None:
    partitions = 3 * TASKS_AT_LEAST
    name = topic("quiet", partitions)
    produce(kafka.bootstrap_servers, name, [Given(document(n=n), n % partitions) for n in range(partitions * 4)])
    source = TasksSource(spark, task_plan(parts(name)), bootstrap_servers=kafka.bootstrap_servers, properties={})
    reports = source.run_reading_tasks([wanted(name, n, start=0, until=4) for n in range(partitions)])
    facts = [(report.topic_partition.partition, report.read, report.frontier) for report in reports]
    assert sorted(facts) == [(n, 4, 3) for n in range(partitions)]


def test_a_reader_that_tasks_can_use_is_chosen_once_and_reported(
    parts: Callable[[str], Settings], kafka: EmbeddedKafka, spark: SparkSession, topic: Callable[..., str]
) -> None:
    name = topic("chosen")
    produce(kafka.bootstrap_servers, name, [Given(document(n=n)) for n in range(6)])
    reported: list[tuple[str, str]] = []

    def chosen(**properties: str) -> Source:
        servers, plan = kafka.bootstrap_servers, task_plan(parts(name))
        choice = ReaderChoice(
            TasksSource(spark, plan, bootstrap_servers=servers, properties=properties).run_reading_tasks,
            SparkSource(spark, plan, bootstrap_servers=servers).run_job, check=partial(Trial(servers, properties).check, spark),
            brokers=KafkaBrokers(servers), decided=lambda choice, reason: reported.append((choice, reason)),
        )  # fmt: skip
        return SparkEngine(spark, choice.choose, lambda *_: None)

    source = chosen()
    assert source.read([]) == []
    for _ in range(2):
        assert [report.read for report in source.read([wanted(name, 0, start=0, until=6)])] == [6]
    assert reported == [("kafka.reader=tasks", f"a Spark task read {name}-0 from Kafka directly.")]
    reported.clear()
    kerberos = chosen(**{"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})
    assert [report.read for report in kerberos.read([wanted(name, 0, start=0, until=6)])] == [6]
    ((choice, reason),) = reported
    assert choice == "kafka.reader=spark"
    assert "librdkafka's build here cannot log in by GSSAPI" in reason


def test_a_task_that_does_not_reach_the_brokers_says_so_as_an_outage(spark: SparkSession) -> None:
    closed = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(KafkaUnavailable, match="refused"):
        Trial(closed, {}).check(spark, TopicPartition("orders", 0))
