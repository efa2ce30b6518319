"""What does a sink make of everything that Kafka can do to it? Real broker, real Spark, real S3 server, one fault per test.

Each test ends with an account of every record by a judge that has none of the product's code (`kafka_judge`), and where the log and Kafka
can still be compared, with the product's own `verify`, which must find nothing.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
import typer
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from typer.testing import CliRunner

from kafka_s3.cli.audit import verify
from kafka_s3.engine.loop.runner import run_continuously, waiting
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import OffsetsLost, TopicRecreated
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.services.faults.kafka_judge import Witness, assert_exactly_once
from tests.support.bucket import Bucket
from tests.support.kafka import Given, cut_segment, document, produce
from tests.support.observers import Warnings
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3

GAP = {"behavior.on.lost.offsets": "gap"}
HOLDING = {"tail.read.records": "1", "tail.check.interval.ms": "0"}
IMPATIENT = {"consumer.override.default.api.timeout.ms": "2000", "consumer.override.request.timeout.ms": "1500"}
AWAY_SECONDS = 5  # more than two of these timeouts, one after the other
names = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    """A broker of this module's own, which is stopped, emptied and compacted as the tests like."""
    with EmbeddedKafka(settings={"log.cleaner.backoff.ms": "100"}) as broker:
        yield broker


@pytest.fixture
def here(broker: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession) -> Iterator[Surroundings]:
    broker.start()  # a test that failed may have left it halted
    content = Bucket(s3.endpoint_url, bucket)
    yield Surroundings(broker, s3, content, spark)
    content.close()


@pytest.fixture
def topic(broker: EmbeddedKafka) -> Callable[..., str]:
    def create(prefix: str, partitions: int = 1, *, config: dict[str, str] | None = None) -> str:
        name = f"{prefix}-{next(names)}"
        broker.create_topic(name, partitions, config=config)
        return name

    return create


@dataclass
class Running:
    """A sink that runs in a thread of the test."""

    warnings: Warnings
    stop: Event
    thread: Thread
    died: list[BaseException]

    @property
    def alive(self) -> bool:
        return self.thread.is_alive() and not self.died


@contextmanager
def running(here: Surroundings, config: dict[str, str]) -> Iterator[Running]:
    """The sink at work; it must end without an error when it is asked to stop."""
    stop, warnings, died = Event(), Warnings(), list[BaseException]()

    def work() -> None:
        try:
            run_continuously(here.sink(config, observer=warnings), poll_ms=100, backoff_ms=200, wait=waiting(stop))
        except BaseException as error:
            died.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield Running(warnings, stop, thread, died)
    finally:
        stop.set()
        thread.join(240)
    assert not thread.is_alive()
    assert died == []


@dataclass
class Before:
    """Spark, and what happens between the plan and the first read."""

    source: Source
    happens: Callable[[], object] | None

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return self.source.read(assignments)


def numbered(numbers: Iterable[int], *, partitions: int = 1) -> list[Given]:
    return [Given(document(n=n), n % partitions) for n in numbers]


@contextmanager
def producing(servers: str, topic: str) -> Iterator[list[int]]:
    """Twenty records a second to two partitions, none lost whatever the broker does; the list grows with what was handed over."""
    stop, sent, left = Event(), list[int](), list[int]()

    def work() -> None:
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
        while not stop.wait(0.05):
            producer.produce(topic, document(n=len(sent)), partition=len(sent) % 2)
            sent.append(len(sent))
        left.append(producer.flush(30))

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join(240)
    assert left == [0]


def delete_before(servers: str, topic: str, offset: int) -> None:
    """What retention does."""
    admin = AdminClient({"bootstrap.servers": servers})  # held: one that is collected never answers
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    future.result()


def recreate(here: Surroundings, topic: str) -> None:
    brokers = KafkaBrokers(here.servers)
    brokers.delete_topic(topic)
    eventually(lambda: topic not in brokers.topic_names())
    brokers.create_topic(topic)


def verified(config: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """What `kafka-s3 verify` says of each topic-partition; it must find nothing."""
    path = folder / "sink.json"
    path.write_text(json.dumps(config))
    app = typer.Typer()
    app.command()(verify)
    done = CliRunner().invoke(app, [str(path), "--output", "json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["findings"] == []
    return list(report["partitions"])


def data_files(here: Surroundings, config: dict[str, str]) -> list[tuple[str, int, int, int]]:
    return [
        (file["topic"], file["partition"], file["first_offset"], file["last_offset"])
        for entry in here.bucket.entries(config["name"])
        for file in entry["files"]
        if file["role"] == "value"
    ]


# ------------------------------------------------------------------------------------------------ brokers come and go


@pytest.mark.nightly  # the readers' tests restart one in every run
def test_a_broker_that_restarts_under_a_running_sink_costs_no_record(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("restarted", 2)
    config = here.config(name, **IMPATIENT, **{"flush.size": "10"})
    with running(here, config) as sink, producing(here.servers, name) as sent:
        eventually(lambda: len(here.bucket.data_keys()) >= 2)
        before = len(here.bucket.data_keys())
        here.kafka.restart()
        eventually(lambda: len(here.bucket.data_keys()) >= before + 4 or not sink.alive)
        assert sink.alive
    assert len({entry["epoch"] for entry in here.bucket.entries(config["name"])}) == 1
    here.drain(config)
    witness = Witness(here.servers, name, 2).poll()
    assert len(witness.now) == len(sent)
    found = assert_exactly_once(here.bucket, config["name"], witness)
    assert (len(found.written), found.gaps) == (len(sent), set())
    assert [tally["written"] for tally in verified(config, tmp_path)] == [
        len(witness.offsets(0)),
        len(witness.offsets(1)),
    ]


@pytest.mark.nightly
def test_a_broker_that_is_gone_for_longer_than_every_timeout_is_waited_for(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("gone")
    config = here.config(name, **IMPATIENT, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(15)))
    with running(here, config) as sink:
        eventually(lambda: len(here.bucket.data_keys()) == 1)
        here.kafka.halt()
        time.sleep(AWAY_SECONDS)
        eventually(lambda: len(sink.warnings.texts) >= 2 or not sink.alive)
        assert sink.alive
        here.kafka.start()
        produce(here.servers, name, numbered(range(15, 30)))
        eventually(lambda: len(here.bucket.data_keys()) == 3 or not sink.alive)
    leaderless = f"{name}-0: no broker answers for it"  # a broker that is there again leads only a moment later
    outages = [text for text in sink.warnings.texts if not text.startswith(leaderless)]
    assert len(outages) >= 2
    assert [text for text in outages if here.servers not in text or "Check kafka.bootstrap.servers" not in text] == []
    assert data_files(here, config) == [(name, 0, 0, 9), (name, 0, 10, 19), (name, 0, 20, 29)]
    assert len({entry["epoch"] for entry in here.bucket.entries(config["name"])}) == 1
    found = assert_exactly_once(here.bucket, config["name"], Witness(here.servers, name).poll())
    assert (len(found.written), found.gaps) == (30, set())
    assert [tally["written"] for tally in verified(config, tmp_path)] == [30]


def test_a_broker_that_goes_between_plan_and_read_leaves_nothing_half_done(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("between")
    config = here.config(name, **IMPATIENT, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(20)))
    warnings = Warnings()
    sink = here.sink(config, observer=warnings)
    sink.open()
    sink.source = Before(sink.source, here.kafka.halt)
    assert sink.poll_and_commit() is False
    outage = ("could not read from Kafka", "is not decided while Kafka is away")
    assert sum(any(words in text for words in outage) for text in warnings.texts) == 1, warnings.texts
    assert here.bucket.data_keys() == []
    here.kafka.start()
    eventually(sink.poll_and_commit)
    assert data_files(here, config) == [(name, 0, 0, 9), (name, 0, 10, 19)]
    assert_exactly_once(here.bucket, config["name"], Witness(here.servers, name).poll())
    verified(config, tmp_path)


# ------------------------------------------------------------------------------------------------ records go


def test_retention_that_overtakes_the_sink_stops_it_or_is_a_gap_and_dead_letters_beyond_stay_what_they_are(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("overtaken")
    config = here.config(name, **{"flush.size": "10", "errors.tolerance": "all", "tail.state.enable": "false"})
    bad = {12, 17}
    produce(here.servers, name, [Given(b"{" if n in bad else document(n=n)) for n in range(20)])
    here.drain(config, close=None)  # writes 0 to 9; the dead letters of the open tail are recorded ahead
    produce(here.servers, name, numbered(range(20, 40)))
    witness = Witness(here.servers, name).poll()
    delete_before(here.servers, name, 15)
    before = here.bucket.data_keys()
    with pytest.raises(OffsetsLost, match=f"{name}-0: wanted 10, available from 15.*behavior.on.lost.offsets=gap"):
        here.drain(config)
    assert here.bucket.data_keys() == before

    here.drain({**config, **GAP})
    found = assert_exactly_once(here.bucket, config["name"], witness.poll())
    assert found.dead == [(0, 12), (0, 17)]
    assert found.gaps == {(0, 10), (0, 11), (0, 13), (0, 14)}
    assert data_files(here, config) == [(name, 0, 0, 9), (name, 0, 15, 25), (name, 0, 26, 35), (name, 0, 36, 39)]
    (tally,) = verified({**config, **GAP}, tmp_path)
    assert (tally["gaps"], tally["written"]) == ({"retention": 4}, 34)


def test_retention_between_plan_and_read_is_a_gap_or_stops_the_sink_before_it_commits(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("raced")
    config = here.config(name, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(30)))
    witness = Witness(here.servers, name).poll()
    sink = here.sink(config)
    sink.open()
    sink.source = Before(sink.source, lambda: delete_before(here.servers, name, 3))
    with pytest.raises(OffsetsLost, match="Kafka lost records while they were read"):
        sink.poll_and_commit()
    assert here.bucket.data_keys() == []

    warnings = Warnings()
    sink = here.sink({**config, **GAP}, observer=warnings)
    sink.open()
    sink.source = Before(sink.source, lambda: delete_before(here.servers, name, 7))  # once the gap before 3 is recorded
    eventually(lambda: sink.poll_and_commit() and bool(here.bucket.data_keys()))
    assert data_files(here, config) == [(name, 0, 7, 16), (name, 0, 17, 26)]
    assert any("Kafka lost records while they were read" in text for text in warnings.texts)
    here.drain({**config, **GAP})
    found = assert_exactly_once(here.bucket, config["name"], witness.poll())
    assert found.gaps == {(0, offset) for offset in range(7)}
    verified({**config, **GAP}, tmp_path)


@pytest.mark.parametrize("reader", ["tasks", pytest.param("spark", marks=pytest.mark.nightly)])
def test_records_that_open_files_hold_are_written_though_retention_took_them_and_only_what_follows_is_a_gap(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path, reader: str
) -> None:
    name, other = topic("held"), topic("held-in-part")
    config = here.config(f"{name},{other}", **{"flush.size": "1000", "kafka.reader": reader, **HOLDING, **GAP})
    for one in (name, other):
        produce(here.servers, one, numbered(range(30)))
    here.drain(config, close=None)
    assert data_files(here, config) == []
    for one, start in ((name, 20), (other, 33)):
        produce(here.servers, one, numbered(range(30, 40)))
        delete_before(here.servers, one, start)
    warnings = Warnings()
    here.drain(config, observer=warnings)

    assert sorted(data_files(here, config)) == [(name, 0, 0, 39), (other, 0, 0, 29), (other, 0, 33, 39)]
    contents = here.bucket.contents()
    assert [row["n"] for key in sorted(contents) if other in key for row in contents[key]] == [
        *range(30),
        *range(33, 40),
    ]
    gaps = [gap for entry in here.bucket.entries(config["name"]) for gap in entry["gaps"]]
    assert gaps == [{"topic": other, "partition": 0, "from": 30, "to": 32, "cause": "retention"}]
    assert warnings.texts == [f"records lost to retention, gap recorded: {other}-0: wanted 30, available from 33"]
    verified(config, tmp_path)


def test_what_open_files_hold_is_written_before_the_sink_stops_for_what_follows(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("held-then-stopped")
    config = here.config(name, **{"flush.size": "1000", **HOLDING})
    produce(here.servers, name, numbered(range(30)))
    here.drain(config, close=None)
    produce(here.servers, name, numbered(range(30, 40)))
    delete_before(here.servers, name, 33)
    with pytest.raises(OffsetsLost, match=f"{name}-0: wanted 30, available from 33"):
        here.drain(config)
    assert data_files(here, config) == [(name, 0, 0, 29)]


def test_open_files_of_a_log_that_was_cut_and_has_grown_again_while_the_sink_was_down_are_read_again(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, same = topic("held-and-cut"), topic("held-and-same")
    config = here.config(f"{name},{same}", **{"flush.size": "1000", "errors.tolerance": "all", **HOLDING})
    for one in (name, same):
        for n in range(0, 30, 5):
            produce(here.servers, one, [Given(b"{" if n == 28 else document(n=n)) for n in range(n, n + 5)])
    here.drain(config, close=None)  # the dead letters are recorded ahead
    here.kafka.halt()
    cut_segment(here.kafka.partition_folder(name, 0), 25)
    here.kafka.start()
    for one in (name, same):
        produce(here.servers, one, numbered(range(100, 120)))
    warnings = Warnings()
    here.drain(config, observer=warnings)

    contents = here.bucket.contents()
    found = {
        one: sorted(row["n"] for key, rows in contents.items() if f"{one}+" in key for row in rows)
        for one in (name, same)
    }
    assert found == {name: [*range(25), *range(100, 120)], same: [*range(28), 29, *range(100, 120)]}
    assert warnings.texts == [
        f"{name}-0 was truncated at 25, above the sink's position 0: it had reached to 30, and ends at 45 now. The open files and "
        "1 recorded dead letters of what is gone are dropped, and it is read again."
    ]
    verified(config, tmp_path)


def test_a_topic_that_was_created_again_stops_the_sink_though_it_outgrew_the_old_one(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("anew")
    config = here.config(name, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(15)))
    sink = here.sink(config)
    sink.open()
    assert sink.poll_and_commit()
    recreate(here, name)
    produce(here.servers, name, numbered(range(100, 125)))
    before = here.bucket.contents()
    with pytest.raises(
        TopicRecreated, match=f"topic {name} was deleted and created again"
    ):  # well before a refresh is due
        eventually(lambda: not sink.poll_and_commit())
    assert here.bucket.contents() == before

    here.drain({**config, **GAP})
    found = assert_exactly_once(here.bucket, config["name"], Witness(here.servers, name).poll())
    assert (len(found.written), found.gaps) == (25, set())
    verified({**config, **GAP}, tmp_path)


def test_a_topic_that_is_deleted_under_the_sink_is_left_out_and_the_others_go_on(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    gone, stays = topic("deleted"), topic("stays")
    config = here.config(f"{gone},{stays}", **{"flush.size": "10", "topics.refresh.interval.ms": "200"})
    produce(here.servers, gone, numbered(range(13)))
    with running(here, config) as sink:
        eventually(lambda: len(here.bucket.data_keys()) == 1)
        KafkaBrokers(here.servers).delete_topic(gone)
        produce(here.servers, stays, numbered(range(20)))
        eventually(lambda: len(here.bucket.data_keys()) == 3 or not sink.alive)
        left_out = f"{gone}-0 is not in Kafka any more: left out. The sink is at 10, 3 offsets before its end."
        eventually(lambda: left_out in sink.warnings.texts or not sink.alive)  # at first its leader may be gone only
    assert left_out in sink.warnings.texts
    assert_exactly_once(here.bucket, config["name"], Witness(here.servers, stays).poll())
    verified(config, tmp_path)


@pytest.mark.nightly
def test_a_partition_that_lost_all_its_records_stops_the_sink_or_is_written_from_its_new_first_record(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("truncated")
    config = here.config(name, **{"flush.size": "10"})
    produce(here.servers, name, numbered(range(30)))
    here.drain(config)
    folder = here.kafka.partition_folder(name, 0)
    here.kafka.halt()
    for file in folder.iterdir():  # a disk that lost its data, as after an unclean leader election
        if file.name != "partition.metadata":
            file.unlink() if file.is_file() else shutil.rmtree(file)
    here.kafka.start()
    produce(here.servers, name, numbered(range(100, 105)))
    before = here.bucket.contents()
    with pytest.raises(OffsetsLost, match=f"{name}-0 was truncated at 0, before 30, .* has grown again to 5"):
        here.drain(config)
    assert here.bucket.contents() == before

    here.drain({**config, **GAP})
    produce(here.servers, name, numbered(range(105, 120)))
    here.drain({**config, **GAP})
    witness = Witness(here.servers, name).poll()
    written = {key: rows for key, rows in here.bucket.contents().items() if before.get(key) != rows}
    assert [row["n"] for key in sorted(written) for row in written[key]] == list(range(100, 120))
    assert witness.heads == {0: 20}
    verified({**config, **GAP}, tmp_path)


def test_a_partition_that_was_truncated_and_has_grown_past_the_position_is_noticed_by_its_leader_epoch(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("regrown")
    config = here.config(name, **{"flush.size": "10"})
    for n in range(0, 30, 5):
        produce(here.servers, name, numbered(range(n, n + 5)))
    here.drain(config)
    here.kafka.halt()
    cut_segment(here.kafka.partition_folder(name, 0), 25)
    here.kafka.start()
    produce(here.servers, name, numbered(range(100, 120)))
    before = here.bucket.contents()
    with pytest.raises(OffsetsLost, match=f"{name}-0 was truncated at 25, before 30.* has grown again to 45"):
        here.drain(config)
    assert here.bucket.contents() == before

    here.drain({**config, **GAP})
    written = {key: rows for key, rows in here.bucket.contents().items() if key not in before}
    assert [row["n"] for key in sorted(written) for row in written[key]] == list(range(100, 120))
    verified({**config, **GAP}, tmp_path)


@pytest.mark.parametrize("reader", ["tasks", pytest.param("spark", marks=pytest.mark.nightly)])
def test_a_damaged_batch_holds_its_partition_alone_and_is_reported_with_the_way_out(
    here: Surroundings, topic: Callable[..., str], reader: str
) -> None:
    name, other = topic("rotten"), topic("sound")
    config = here.config(f"{name},{other}", **{"flush.size": "10", "kafka.reader": reader})
    for n in range(0, 20, 5):
        produce(here.servers, name, numbered(range(n, n + 5)))
        produce(here.servers, other, numbered(range(n, n + 5)))
    here.kafka.halt()
    (segment,) = here.kafka.partition_folder(name, 0).glob("*.log")
    segment.write_bytes(segment.read_bytes().replace(document(n=12), document(n=99)))
    here.kafka.start()
    warnings = Warnings()
    here.drain(config, observer=warnings)

    assert sorted(data_files(here, config)) == [(name, 0, 0, 9), (other, 0, 0, 9), (other, 0, 10, 19)]
    (reported,) = [text for text in warnings.texts if "damaged" in text]
    assert f"What Kafka holds of {name}-0 from offset 10 on is damaged" in reported
    assert f"kafka-s3 position set CONFIG {name} 0 OFFSET" in reported


# ------------------------------------------------------------------------------------------------ offsets without records


def transaction(servers: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 5})
    producer.init_transactions(20)
    producer.begin_transaction()
    return producer


def put(producer: Producer, topic: str, numbers: Iterable[int]) -> None:
    for n in numbers:
        producer.produce(topic, document(n=n), partition=0)
    assert producer.flush(20) == 0


def test_an_open_transaction_is_not_passed_and_an_aborted_one_is_never_written(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("transactions")
    config = here.config(name, **{"flush.size": "10", "consumer.override.isolation.level": "read_committed"})
    aborted = transaction(here.servers, f"{name}-aborted")
    put(aborted, name, range(100, 105))
    produce(here.servers, name, numbered(range(7)))
    aborted.abort_transaction()
    slow = transaction(here.servers, f"{name}-open")
    put(slow, name, range(7, 10))
    produce(here.servers, name, numbered(range(10, 30)))  # of no transaction, but behind one that is open
    here.drain(config)
    witness = Witness(here.servers, name).poll()
    assert witness.offsets() == list(range(5, 12))
    assert data_files(here, config) == [(name, 0, 5, 11)]
    assert_exactly_once(here.bucket, config["name"], witness)
    slow.commit_transaction()
    here.drain(config)

    found = assert_exactly_once(here.bucket, config["name"], witness.poll())
    assert (len(found.written), found.gaps) == (30, set())
    assert sorted(row["n"] for rows in here.bucket.contents().values() for row in rows) == list(range(30))
    (tally,) = verified(config, tmp_path)
    assert (tally["written"], tally["without_record"]) == (30, len(witness.holes()))
    assert len(witness.holes()) == 5 + 1 + 1  # the aborted records and both markers


def compact_after(servers: str, topic: str, *, years: int) -> None:
    """Has the topic's records compacted only so long after their time."""
    lag = ConfigEntry("min.compaction.lag.ms", str(years * 31_536_000_000), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[lag])
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(20)


def test_a_compacted_topic_is_written_as_it_is_read_and_verified_when_it_was_compacted_again(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    compact = {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    name = topic("compacted", config=compact)
    config = here.config(name, **{"flush.size": "10"})
    witness = Witness(here.servers, name)

    def overwrite(start: int) -> None:
        """Forty records of eight keys, then one of another key in a segment of its own: the active one is never compacted."""
        time = 1_736_935_200_000 + start * 1000  # by records' time, a segment ends after 50 ms
        records = [Given(document(n=start + n), 0, time + n // 20 * 1000, b"k%d" % (n % 8)) for n in range(40)]
        produce(here.servers, name, records[:20])
        produce(here.servers, name, records[20:])
        produce(here.servers, name, [Given(document(n=start + 40), 0, time + 2000, b"last")])

    overwrite(0)
    # the newest of each key, and the active segment: segments that were cleaned one by one are cleaned together again
    eventually(lambda: len(witness.poll().now) == 8 + 1)
    witness.seen = dict(witness.now)
    here.drain(config)
    missing = witness.poll().holes()
    assert len(missing) > 20
    assert_exactly_once(here.bucket, config["name"], witness)
    (tally,) = verified(config, tmp_path)
    assert tally["written"] == len(witness.seen)
    assert tally["without_record"] == len(missing)

    compact_after(here.servers, name, years=10)  # else the sink might read what the witness does not see any more
    overwrite(41)
    here.drain(config, close=None)
    witness.poll()
    compact_after(here.servers, name, years=0)
    # the newest of each key, the last of the segments and the active segment: nothing more is cleaned while it is verified
    eventually(lambda: len(witness.poll().now) == 8 + 1 + 1)
    here.drain(config)
    found = assert_exactly_once(here.bucket, config["name"], witness)
    assert found.gaps == set()
    (tally,) = verified(config, tmp_path)  # Kafka has fewer records now than were written; none is claimed to be lost
    assert tally["written"] == len(found.written) > tally["kafka"] == len(witness.now)


# ------------------------------------------------------------------------------------------------ partitions come


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_partitions_that_are_added_while_the_sink_runs_are_read_from_their_first_record(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path, reset: str
) -> None:
    name = topic("grown")
    own = {"flush.size": "10", "topics.refresh.interval.ms": "200", "consumer.override.auto.offset.reset": reset}
    config = here.config(name, **own)
    with running(here, config) as sink:
        eventually(lambda: len(here.bucket.entries(config["name"])) >= 2)
        admin = AdminClient({"bootstrap.servers": here.servers})
        (future,) = admin.create_partitions([NewPartitions(name, 3)]).values()
        future.result()
        produce(here.servers, name, numbered(range(60), partitions=3))
        eventually(lambda: len(here.bucket.data_keys()) == 6 or not sink.alive)
    found = assert_exactly_once(here.bucket, config["name"], Witness(here.servers, name, 3).poll())
    assert len(found.written) == 60
    assert [tally["written"] for tally in verified(config, tmp_path)] == [20, 20, 20]
