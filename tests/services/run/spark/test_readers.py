"""Do both readers, the one in the task and Spark's, give exactly a range's records, and say what is wrong where they cannot?"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader import consumer as consumers
from kafka_s3.kafka.reader.messages import BYTES, ROWS
from kafka_s3.kafka.reader.reader import AT_A_TIME, RangeReader
from kafka_s3.kafka.reader.settings import QUEUE_BYTES, ReadScope
from kafka_s3.model.errors import KafkaUnavailable, OffsetsLost, SourceError, UnreadableRecord
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.spark.source import SparkSource
from kafka_s3.run.spark.task import by_topic_partition
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.support.configurations import BASE
from tests.support.kafka import Given, produce
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = 1_736_935_200_000
COMMITTED = {"isolation.level": "read_committed"}
IMPATIENT = {"default.api.timeout.ms": "2000"}
numbers = itertools.count(1)
Reading = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    """A broker of this module's own, which is stopped, damaged and compacted as the tests like."""
    with EmbeddedKafka(settings={"log.cleaner.backoff.ms": "100"}) as broker:
        yield broker


@pytest.fixture
def topic(broker: EmbeddedKafka) -> Callable[..., str]:
    def create(prefix: str, partitions: int = 1, *, config: dict[str, str] | None = None) -> str:
        broker.start()
        name = f"{prefix}-{next(numbers)}"
        broker.create_topic(name, partitions, config=config)
        return name

    return create


@dataclass(frozen=True)
class InTask:
    """The reader that runs in a task, run here."""

    servers: str

    def __call__(self, name: str, start: int, until: int, **consumer: str) -> list[dict[str, Any]]:
        reader = RangeReader(self.servers, consumer, ReadScope.ENVELOPES)
        whole = OffsetRange(TopicPartition(name, 0), start, until)
        return [row for _, batches in reader.read_ranges([whole]) for row in rows(batches)]


@dataclass(frozen=True)
class BySpark:
    """Spark's Kafka source."""

    servers: str
    spark: SparkSession

    def __call__(self, name: str, start: int, until: int, **consumer: str) -> list[dict[str, Any]]:
        config = {
            **BASE, "name": "source", "topics": name, "s3.bucket.name": "bucket", "flush.size": "3",
            "kafka.bootstrap.servers": self.servers,
            "errors.tolerance": "all",
        }  # fmt: skip
        settings = resolved(validate(config).usable())
        source = SparkSource(self.spark, task_plan(settings), bootstrap_servers=self.servers, kafka=consumer)
        wanted = Assignment(TopicPartition(name, 0), start, until, (Delivery(0, until),))
        return rows(batch for _, batch in by_topic_partition(source.first_batches(wanted), one_topic=name))


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [
        {**row, "headers": [(header["key"], header["value"]) for header in row["headers"]]}
        for batch in batches
        for row in batch.to_pylist()
    ]


@pytest.fixture(params=["tasks", "spark"])
def reading(request: pytest.FixtureRequest, broker: EmbeddedKafka) -> Reading:
    """`reading(topic, start, until, **properties)`: the records of partition 0, one way and the other."""
    if request.param == "tasks":
        return InTask(broker.bootstrap_servers)
    return BySpark(broker.bootstrap_servers, request.getfixturevalue("spark"))


@pytest.fixture
def in_task(broker: EmbeddedKafka) -> InTask:
    return InTask(broker.bootstrap_servers)


def offsets(found: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in found]


def transactions(servers: str, name: str, *ends: tuple[int, str]) -> int:
    """Produces transactions of so many records that end so; returns the head: each of them has a marker behind it."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    for count, end in ends:
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(name, b"x", partition=0)
        assert producer.flush(30) == 0
        getattr(producer, f"{end}_transaction")(30)
    place, head = TopicPartition(name, 0), sum(count + 1 for count, _ in ends)
    brokers = KafkaBrokers(servers, properties=COMMITTED)
    eventually(lambda: brokers.heads([place])[place] == head)
    return head


# ------------------------------------------------------------------------------------------------ what a record has


def test_a_record_comes_with_key_headers_time_and_nulls_that_are_not_empty(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("whole")
    given = [
        Given(b"v", 0, TIME, b"k", (("a", b"1"), ("b", b""), ("a", b"2"))),
        Given(b"", 0, TIME + 1, b""),
        Given(None, 0, TIME + 2, None, (("none", None),)),  # type: ignore[arg-type]
        Given("ü\0\n".encode(), 0, 1, b"\xff\x00", (("größe", b"\x00\xff"),)),
    ]
    produce(broker.bootstrap_servers, name, given)
    found = reading(name, 0, len(given))
    facts = [(row["offset"], row["timestamp"], row["key"], row["value"], row["headers"]) for row in found]
    assert facts == [(n, g.timestamp_ms, g.key, g.value, list(g.headers)) for n, g in enumerate(given)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_headers_belong_to_their_record_whatever_is_empty_or_missing_in_it_and_its_neighbours(
    codec: str, in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("headers", config={"compression.type": "producer"})
    some = [None, b"", b"\0", b"\0" * 200]
    headers: list[tuple[tuple[str, bytes], ...]] = [(), (("a", b""),), (("a", b"\0"),) * 64, (("", b"1"), ("b", b"2"))]
    given = [Given(value, key=key, headers=own) for value, key, own in itertools.product(some, some, headers)]
    given += random.Random(7).sample(given, len(given))
    produce(broker.bootstrap_servers, name, given, **{"compression.type": codec})

    found = in_task(name, 0, len(given))
    assert [(row["value"], row["key"], tuple(row["headers"])) for row in found] == [
        (one.value, one.key, one.headers) for one in given
    ]


def test_the_type_of_a_time_is_reported(in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]) -> None:
    by_producer = topic("create")
    by_broker = topic("append", config={"message.timestamp.type": "LogAppendTime"})
    for name in (by_producer, by_broker):
        produce(broker.bootstrap_servers, name, [Given(b"v")])
    assert [(row["timestamp"], row["timestamp_type"]) for row in in_task(by_producer, 0, 1)] == [(TIME, 1)]
    ((row),) = in_task(by_broker, 0, 1)
    assert row["timestamp_type"] == 2
    assert row["timestamp"] > TIME


def test_a_time_in_nanoseconds_passes_through_the_task_and_is_no_outage_of_sparks_source(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name, nanoseconds = topic("nanoseconds"), 1_736_935_200_000_000_000
    produce(broker.bootstrap_servers, name, [Given(b"v"), Given(b"v", 0, nanoseconds)])
    if isinstance(reading, InTask):
        assert [row["timestamp"] for row in reading(name, 0, 2)] == [TIME, nanoseconds]
        return
    with pytest.raises(UnreadableRecord) as error:  # for which the driver's own client reads
        reading(name, 0, 2)
    assert not isinstance(error.value, KafkaUnavailable)


def test_a_record_of_ten_megabytes_comes_between_small_ones(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name, large = topic("large"), os.urandom(10 << 20)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 12 << 20})
    for value in (b"before", large, b"after"):
        producer.produce(name, value)
        assert producer.flush(30) == 0
    assert [row["value"] for row in reading(name, 0, 3)] == [b"before", large, b"after"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read(
    codec: str, in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic(codec)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    values = [b"value %d" % n for n in range(1000)]
    for value in values:
        producer.produce(name, value)
    assert producer.flush(30) == 0
    assert [row["value"] for row in in_task(name, 7, 993)] == values[7:993]


# ------------------------------------------------------------------------------------------------ where a range ends


@pytest.mark.parametrize(("start", "until"), [(0, 1000), (0, 1), (3, 700), (999, 1000), (500, 500)])
def test_a_range_is_read_exactly(
    start: int, until: int, reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("exact")
    produce(broker.bootstrap_servers, name, [Given(b"%d" % n) for n in range(1000)])
    assert [row["value"] for row in reading(name, start, until)] == [b"%d" % n for n in range(start, until)]


def test_aborted_records_and_markers_are_gaps_also_at_the_end(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("transactions")
    head = transactions(broker.bootstrap_servers, name, (3, "commit"), (4, "abort"), (2, "commit"), (5, "abort"))
    assert offsets(reading(name, 0, head, **COMMITTED)) == [0, 1, 2, 9, 10]
    assert offsets(reading(name, 3, 9, **COMMITTED)) == [], "nothing but an aborted transaction and its marker"
    assert offsets(reading(name, 12, head, **COMMITTED)) == []
    assert offsets(reading(name, 2, 10)) == [2, 4, 5, 6, 7, 9], "markers are never records"


def test_what_was_compacted_away_is_a_gap_also_at_the_end(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    compact = {
        "cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0",
    }  # fmt: skip
    name = topic("compacted", config=compact)
    early = [Given(b"%d" % n, 0, TIME, b"key") for n in range(20)]
    produce(broker.bootstrap_servers, name, early)
    produce(broker.bootstrap_servers, name, [Given(b"later", 0, TIME + 1000, b"key")])
    produce(broker.bootstrap_servers, name, [Given(b"last", 0, TIME + 2000, b"other")])
    in_task = InTask(broker.bootstrap_servers)
    eventually(lambda: offsets(in_task(name, 0, 22)) == [20, 21])
    assert offsets(reading(name, 0, 22)) == [20, 21]
    assert offsets(reading(name, 0, 20)) == []
    assert offsets(reading(name, 5, 21)) == [20]


# ------------------------------------------------------------------------------------------------ what can be wrong


def test_a_range_whose_first_records_are_gone_is_lost(
    reading: Reading, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("shortened")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 40)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.delete_records([Place(name, 0, 13)]).values()
    future.result(30)
    with pytest.raises(OffsetsLost):
        reading(name, 10, 40)
    assert offsets(reading(name, 13, 40)) == list(range(13, 40))


def test_a_log_that_is_shorter_than_the_range_is_lost_too(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("cut")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 5)
    with pytest.raises(OffsetsLost, match=f"Kafka lost records while they were read: {name}-0 ends with offset 4 now"):
        in_task(name, 0, 9)
    with pytest.raises(OffsetsLost, match=f"^Kafka lost records while they were read: {name}-0 does not have offset 7"):
        in_task(name, 7, 9)


def recreated(broker: EmbeddedKafka, name: str, records: list[Given], partitions: int = 1) -> None:
    """Deletes the topic and makes it anew, with these records."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([name])[name].result(30)
    brokers = KafkaBrokers(broker.bootstrap_servers)
    eventually(lambda: not brokers.describe([name]))
    broker.create_topic(name, partitions)
    places = [TopicPartition(name, number) for number in range(partitions)]

    def has_leaders() -> bool:
        try:
            return len(brokers.starts(places)) == partitions
        except KafkaUnavailable:  # a leader that was named does not know of it yet
            return False

    eventually(has_leaders)
    produce(broker.bootstrap_servers, name, records)


def test_a_range_never_has_records_of_two_topics_of_one_name(broker: EmbeddedKafka, topic: Callable[..., str]) -> None:
    name, count = topic("again"), 5000
    produce(broker.bootstrap_servers, name, [Given(b"old" * 300)] * count)
    whole = OffsetRange(TopicPartition(name, 0), 0, count)
    for _, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges([whole]):
        assert len(next(batches)) < count
        recreated(broker, name, [Given(b"new" * 300)] * count)
        with pytest.raises(
            OffsetsLost, match=f"^Kafka lost records while they were read: the topic of {name}-0 was created again"
        ):
            list(batches)
    assert (
        len(
            list(
                offset
                for _, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges([whole])
                for offset in batches
            )
        )
        > 0
    )


def test_of_ranges_that_are_read_together_none_has_records_of_two_topics_of_one_name(
    broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name, count = topic("again", 3), 20_000
    places = [TopicPartition(name, number) for number in range(3)]
    produce(broker.bootstrap_servers, name, [Given(b"old" * 100, n % 3) for n in range(3 * count)])
    reader, values = RangeReader(broker.bootstrap_servers, {}), dict[TopicPartition, set[bytes]]()
    for _, batches in reader.read_ranges([OffsetRange(places[0], 0, 10)]):
        assert (
            sum(map(len, batches)) == 10
        )  # from then on the topic is known, and its topic-partitions are read together

    def read() -> None:
        for wanted, batches in reader.read_ranges([OffsetRange(place, 0, count) for place in places]):
            found = list(batches)
            values[wanted.topic_partition] = {value for batch in found for value in batch.column("value").to_pylist()}
            if wanted.topic_partition == places[0]:
                recreated(broker, name, [Given(b"new" * 100, n % 3) for n in range(3 * count)], 3)

    with pytest.raises(OffsetsLost):
        read()
    assert values == {places[0]: {b"old" * 100}}


def test_records_that_come_late_are_waited_for(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("late")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 5)
    for _, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges(
        [OffsetRange(TopicPartition(name, 0), 0, 9)]
    ):
        first = len(next(batches))  # the brokers may have got the five in several batches
        produce(broker.bootstrap_servers, name, [Given(b"v")] * 4)
        assert 0 < first <= 5
        assert first + sum(map(len, batches)) == 9


def test_a_reading_that_is_left_gives_its_messages_back(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("left")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 70_000)  # more than a batch
    reading = RangeReader(broker.bootstrap_servers, {}).read_ranges([OffsetRange(TopicPartition(name, 0), 0, 70_000)])
    _, batches = next(reading)
    assert len(next(batches)) > 0
    reading.close()  # a task that stops at a record; its traceback still holds `batches`
    assert list(batches) == []
    assert len(in_task(name, 0, 70_000)) == 70_000


def test_a_damaged_record_is_no_outage(in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]) -> None:
    name = topic("damaged")
    produce(broker.bootstrap_servers, name, [Given(b"a" * 200)])
    produce(broker.bootstrap_servers, name, [Given(b"b" * 200)])
    broker.halt()
    (segment,) = broker.partition_folder(name, 0).glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"b" * 200, b"b" * 199 + b"c"))
    broker.start()
    reported = f"^What Kafka holds of {name}-0 from offset 1 on is damaged: .*CRC.*position set CONFIG {name} 0 OFFSET"
    with pytest.raises(UnreadableRecord, match=reported) as error:
        in_task(name, 0, 2)
    assert error.value.offset == 1
    assert offsets(in_task(name, 0, 1)) == [0]


def test_brokers_that_are_away_are_an_outage_that_says_why(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("away")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 3)
    assert len(in_task(name, 0, 3, **IMPATIENT)) == 3
    broker.halt()
    begun = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=r"^Kafka at .* did not describe away-.*\. librdkafka says: .*refused"):
        in_task(name, 0, 3, **IMPATIENT)
    assert time.monotonic() - begun < 6
    broker.start()
    assert len(in_task(name, 0, 3)) == 3


def test_a_broker_that_restarts_in_the_middle_costs_nothing_but_time(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name, size = topic("restart"), 100_000
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for _ in range(1000):
        producer.produce(name, os.urandom(size))
        producer.poll(0)
    assert producer.flush(60) == 0
    found = []
    for _, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges(
        [OffsetRange(TopicPartition(name, 0), 0, 1000)]
    ):
        found += next(batches).column("offset").to_pylist()
        broker.restart()
        for batch in batches:
            found += batch.column("offset").to_pylist()
    assert found == list(range(1000))


def test_an_answer_that_is_larger_than_a_task_takes_is_no_outage(
    in_task: InTask, topic: Callable[..., str], broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("large-answer")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 8 << 20})
    producer.produce(name, os.urandom(4 << 20))
    assert producer.flush(30) == 0
    monkeypatch.setattr("kafka_s3.kafka.reader.settings.BATCH_BYTES", 100_000)
    with pytest.raises(
        SourceError, match=r"large-answer-.*from offset 0 on is larger than .*kafka\.reader=spark"
    ) as error:
        in_task(name, 0, 1, **IMPATIENT, **{"fetch.max.bytes": "1000000"})
    assert not isinstance(error.value, KafkaUnavailable)


def test_a_setting_that_librdkafka_refuses_is_named(in_task: InTask) -> None:
    with pytest.raises(SourceError, match=r"does not take retry\.backoff\.ms=0.*kafka\.reader=spark"):
        in_task("any", 0, 1, **{"retry.backoff.ms": "0"})


# ------------------------------------------------------------------------------------------------ several, and for long


def test_many_topic_partitions_are_read_one_to_its_end_after_the_other(
    broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    partitions = AT_A_TIME + 9
    name = topic("many", partitions)
    produce(broker.bootstrap_servers, name, [Given(b"%d" % n, n % partitions) for n in range(partitions * 10)])
    ranges = [OffsetRange(TopicPartition(name, n), n % 5, 5 + n % 5) for n in range(partitions)]
    found = [
        (wanted, [row for batch in batches for row in batch.column("offset").to_pylist()])
        for wanted, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges(ranges)
    ]
    assert found == [(wanted, list(range(wanted.start, wanted.until))) for wanted in ranges]


def test_a_range_that_was_left_in_the_middle_is_read_from_its_start_the_next_time(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("left")
    produce(broker.bootstrap_servers, name, [Given(b"%d" % n) for n in range(ROWS + 1000)])
    whole = OffsetRange(TopicPartition(name, 0), 0, ROWS + 1000)
    for _, batches in RangeReader(broker.bootstrap_servers, {}).read_ranges([whole]):
        assert next(batches).column("offset")[0].as_py() == 0
    assert offsets(in_task(name, 5, 20)) == list(range(5, 20))


def test_a_consumer_is_kept_for_its_configuration_and_one_that_failed_is_not(
    in_task: InTask, broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("kept")
    produce(broker.bootstrap_servers, name, [Given(b"v")] * 3)
    clients = [{"client.id": f"reader-{n}"} for n in range(consumers.KEPT)]
    in_task(name, 0, 3)  # from then on the topic is known

    def used(client: dict[str, str]) -> consumers.Consumer:
        in_task(name, 0, 3, **client)
        return next(reversed(consumers._kept.values()))

    first = used(clients[0])
    assert used(clients[0]) is first
    for client in clients[1:]:
        assert used(client) is not first
    assert used(clients[0]) is first
    with pytest.raises(OffsetsLost):
        in_task(name, 9, 10, **clients[0])
    again = used(clients[0])
    assert again is not first
    for n in range(consumers.KEPT):
        used({"client.id": f"another-{n}"})
    assert again not in consumers._kept.values()


def test_memory_is_bounded_in_bytes_however_slowly_the_records_are_taken(
    broker: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name, size, count = topic("memory"), 200_000, 2000
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for n in range(count):
        while len(producer) > 200:
            producer.poll(0.1)
        producer.produce(name, n.to_bytes(4, "big") * (size // 4))
    assert producer.flush(60) == 0
    script = (
        "import resource, sys, time\n"
        "from kafka_s3.kafka.reader.reader import RangeReader\n"
        "from kafka_s3.model.offsets import OffsetRange\n"
        "from kafka_s3.model.offsets import TopicPartition\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        f"before, wanted, rows = peak(), OffsetRange(TopicPartition({name!r}, 0), 0, {count}), 0\n"
        f"for _, batches in RangeReader({broker.bootstrap_servers!r}, {{}}).read_ranges([wanted]):\n"
        "    for batch in batches:\n"
        "        rows += len(batch)\n"
        "        time.sleep(0.05)\n"
        "print(rows, peak() - before)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2] / "bundle"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    read, grown = map(int, done.stdout.split())
    assert read == count
    assert grown < 3 * QUEUE_BYTES + 4 * BYTES, f"{grown >> 20} MiB"
