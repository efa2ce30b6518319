"""Is every record in the bucket once, whatever S3 and the way to it do? Or does the sink stop with a precise reason, and then go on?

A fault proxy on a real socket stands between the sink (driver and Spark workers) and a real S3 server. Each test breaks something, proves
that it broke, and compares Kafka with the bucket. Where the sink stops, it is started again without the fault.

Parts that wait for their size are kept in memory and, when several files are open and that is short, on the local disk of the Spark
worker: so a disk that is full is tested there as well as in the bucket. versitygw serves where an aborted upload is completed, as moto
then answers unlike S3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_s3.model.errors import PartitionsStopped, StorageError, StorageUnavailable
from kafka_s3.model.protocols import Observer, Start
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.faults.reconciliation import assert_nothing_missing_nothing_twice, reconcile
from tests.support.bucket import Bucket
from tests.support.configurations import PARTITIONER
from tests.support.kafka import Given, document, produce
from tests.support.s3_proxy import (
    ANYTHING,
    COMPLETION,
    CREATION,
    ENTRY,
    ENTRY_READ,
    PART,
    Action,
    First,
    LateAnswer,
    LateRequest,
    LoseAnswer,
    Proxy,
    Refuse,
    Request,
    Reset,
    Rule,
    Which,
)
from tests.support.s3_servers import strict_engine
from tests.support.surroundings import Surroundings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka

PARTITIONS, SMALL, LARGE = 2, 20, 100
SMALL_TOPIC, LARGE_TOPIC = "s3-faults-small", "s3-faults-large"
LEAST_PART = 5 << 20
QUICK = {
    "flush.size": "10", "tasks.max": "2", "s3.part.size": str(LEAST_PART), "s3.part.retries": "3", "s3.retry.backoff.ms": "50",
}  # fmt: skip
ONE_FILE = {**QUICK, "flush.size": str(LARGE)}
SLOW_DOWN = Refuse(503, "SlowDown", "Please reduce your request rate.")
NO_SPACE = Refuse(507, "InsufficientStorage", "No space left.")
EXPIRED = Refuse(403, "ExpiredToken", "The provided token has expired.")
OLD, NEW, SECRET = "AKIAOLD", "AKIANEW", "a-secret-that-is-nowhere-shown"
numbers = itertools.count(1)
FIRST_FILE = r"\+0\+0000000000\.json$"


@dataclass
class Notes(Observer):
    """What a run reported, and what is to break once the sink has claimed its log: entries that are put from then on are of data."""

    proxy: Proxy
    rules: tuple[Rule, ...] = ()
    warnings: list[str] = field(default_factory=list)

    def started(self, start: Start) -> None:
        for rule in self.rules:
            self.proxy.add(rule)

    def warned(self, text: str) -> None:
        self.warnings.append(text)


@dataclass
class Ground:
    """A sink whose way to S3 leads through the proxy."""

    here: Surroundings
    proxy: Proxy
    topics: dict[str, int]

    @property
    def sink(self) -> str:
        return f"sink-{self.here.bucket.name}"

    def run(self, topic: str, *rules: Rule, read_timeout_s: float | None = None, **more: str) -> Notes:
        """Runs the sink until all is worked off; the rules hold from its start on."""
        notes = Notes(self.proxy, rules)
        config = self.here.config(topic, **{**QUICK, "store.url": self.proxy.url, **more})
        self.here.drain(config, observer=notes, read_timeout_s=read_timeout_s)
        return notes

    def judge(self, topic: str) -> None:
        assert_nothing_missing_nothing_twice(
            self.here.bucket, self.here.servers, topic, partitions=PARTITIONS, sink=self.sink,
            records=self.topics[topic],
        )  # fmt: skip

    def abort(self, request: Request) -> None:
        """Somebody else aborts the upload of a request, past the proxy."""
        self.here.bucket.client.abort_multipart_upload(
            Bucket=request.bucket, Key=request.key, UploadId=request.query["uploadId"]
        )

    def abort_all(self) -> int:
        """Somebody else aborts whatever is pending; how many that was."""
        name = self.here.bucket.name
        pending = self.here.bucket.client.list_multipart_uploads(Bucket=name).get("Uploads", [])
        for upload in pending:
            self.here.bucket.client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        return len(pending)


@pytest.fixture(scope="module")
def topics(kafka: EmbeddedKafka) -> dict[str, int]:
    """A small topic and one of two parts, with their numbers of records; every test reads them into a bucket of its own."""
    for name, count, padding in ((SMALL_TOPIC, SMALL, 20), (LARGE_TOPIC, LARGE, 80_000)):
        kafka.create_topic(name, PARTITIONS)
        spread = PARTITIONS if name == SMALL_TOPIC else 1  # all of one partition, so that its file has two parts
        records = [Given(document(n=n, side="lr"[n % 2], text="x" * padding), n % spread) for n in range(count)]
        produce(kafka.bootstrap_servers, name, records)
    return {SMALL_TOPIC: SMALL, LARGE_TOPIC: LARGE}


@pytest.fixture
def ground(here: Surroundings, topics: dict[str, int]) -> Iterator[Ground]:
    """With moto."""
    with Proxy(here.s3.endpoint_url) as proxy:
        yield Ground(here, proxy, topics)


@pytest.fixture(scope="module")
def versitygw() -> Iterator[EmbeddedS3]:
    with EmbeddedS3(engine=strict_engine()) as server:
        yield server


@pytest.fixture
def strict(
    kafka: EmbeddedKafka, versitygw: EmbeddedS3, spark: SparkSession, topics: dict[str, int]
) -> Iterator[Ground]:
    """With versitygw, which checks signatures, and answers as S3 does where an upload is gone."""
    name = f"strict-{next(numbers)}"
    versitygw.create_bucket(name)
    bucket = Bucket(versitygw.endpoint_url, name)
    with Proxy(versitygw.endpoint_url) as proxy:
        yield Ground(Surroundings(kafka, versitygw, bucket, spark), proxy, topics)
    bucket.close()


@pytest.mark.parametrize(
    ("opens", "of", "answer", "warning"),
    [
        pytest.param(CREATION, ANYTHING, SLOW_DOWN, ("SlowDown", "s3.part.retries"), id="in the tasks"),
        pytest.param(COMPLETION, ANYTHING, SLOW_DOWN, ("SlowDown", "s3.part.retries"), id="after the commit"),
        pytest.param(ENTRY, ANYTHING, SLOW_DOWN, ("is not known whether commit entry", "SlowDown"), id="at the entry"),
        pytest.param(None, PART, NO_SPACE, ("InsufficientStorage (507): No space left",), id="a bucket without space"),
    ],
)  # fmt: skip
def test_a_storm_of_refusals_passes_and_the_sink_goes_on_by_itself(
    opens: Which | None, of: Which, answer: Refuse, warning: tuple[str, ...], ground: Ground
) -> None:
    storm = Rule(of, answer, opens=opens, times=None, seconds=1.5)
    notes = ground.run(SMALL_TOPIC, storm)

    assert len(storm.strikes) >= 3
    assert any(all(words in text for words in warning) for text in notes.warnings)
    ground.judge(SMALL_TOPIC)


def test_a_storm_at_the_start_stops_the_sink_with_the_reason(ground: Ground) -> None:
    storm = ground.proxy.add(Rule(ANYTHING, SLOW_DOWN, times=None))
    with pytest.raises(StorageUnavailable, match=r"SlowDown \(503\).*Tried 3 times \(s3\.part\.retries\)"):
        ground.run(SMALL_TOPIC)
    assert len(storm.strikes) == 3

    ground.proxy.clear()
    ground.run(SMALL_TOPIC)
    ground.judge(SMALL_TOPIC)


def test_slow_answers_only_take_longer(ground: Ground) -> None:
    slow = Rule(ANYTHING, LateAnswer(0.3), times=None)
    notes = ground.run(SMALL_TOPIC, slow)

    for which in (CREATION, PART, ENTRY, COMPLETION):
        assert any(which.matches(request) for request in slow.strikes)
    assert notes.warnings == []
    ground.judge(SMALL_TOPIC)


@pytest.mark.parametrize("late", [LateRequest(1.5), LateAnswer(1.5)], ids=["request", "answer"])
def test_what_comes_after_the_read_timeout_has_no_second_effect(late: Action, ground: Ground) -> None:
    entry, completion = Rule(ENTRY, late), Rule(COMPLETION, late)
    ground.run(SMALL_TOPIC, entry, completion, read_timeout_s=1)

    assert (len(entry.strikes), len(completion.strikes)) == (1, 1)
    assert ground.proxy.count(ENTRY) > 1 + len(
        ground.here.bucket.entries(ground.sink)
    )  # one is tried twice; it did time out
    ground.judge(SMALL_TOPIC)


def test_parts_whose_connections_are_cut_are_sent_again(ground: Ground) -> None:
    parts = [Which("PUT", having=("uploadId", f"partNumber={number}")) for number in (1, 2)]
    lost, reset = Rule(parts[0], LoseAnswer()), Rule(parts[1], Reset(1 << 20))
    notes = ground.run(LARGE_TOPIC, lost, reset, **ONE_FILE)

    assert (len(lost.strikes), len(reset.strikes)) == (1, 1)
    assert [ground.proxy.count(part) for part in parts] == [2, 2]
    assert notes.warnings == []
    ground.judge(LARGE_TOPIC)
    (file,) = [file for entry in ground.here.bucket.entries(ground.sink) for file in entry["files"]]
    assert len(file["upload"]["parts"]) == 2


@pytest.mark.parametrize("which", [CREATION, ENTRY, COMPLETION], ids=["creation", "entry", "completion"])
def test_a_lost_answer_is_settled(which: Which, ground: Ground) -> None:
    lost = Rule(which, LoseAnswer())
    notes = ground.run(SMALL_TOPIC, lost)

    assert len(lost.strikes) == 1
    assert notes.warnings == []
    ground.judge(SMALL_TOPIC)


def test_an_entry_that_was_written_unseen_and_cannot_be_read_back_counts_once_it_can(ground: Ground) -> None:
    lost = Rule(ENTRY, LoseAnswer())
    blind = Rule(ENTRY_READ, SLOW_DOWN, times=3)
    notes = ground.run(SMALL_TOPIC, lost, blind)

    assert (len(lost.strikes), len(blind.strikes)) == (1, 3)
    assert any("is not known who wrote commit entry" in text for text in notes.warnings)
    ground.judge(SMALL_TOPIC)


@pytest.mark.parametrize(
    ("code", "times", "uploads"), [("OperationAborted", 2, 1), ("ConditionalRequestConflict", 3, 2)]
)
def test_a_conflict_at_completion_passes_or_the_file_is_uploaded_again(
    code: str, times: int, uploads: int, ground: Ground
) -> None:
    which = Which("POST", key=FIRST_FILE, having=("uploadId",))
    conflict = Rule(which, Refuse(409, code), times=times)
    notes = ground.run(SMALL_TOPIC, conflict)

    assert len(conflict.strikes) == times
    asked = [request.query["uploadId"] for request in ground.proxy.requests if which.matches(request)]
    assert len(set(asked)) == uploads
    assert notes.warnings == []
    ground.judge(SMALL_TOPIC)


@pytest.mark.parametrize("opens", [PART, ENTRY, COMPLETION], ids=["in a task", "at the commit", "after the commit"])
def test_expired_credentials_stop_the_sink_and_valid_ones_let_it_go_on(opens: Which, ground: Ground) -> None:
    expired = Rule(Which(access_key=OLD), EXPIRED, opens=opens, times=None)
    with pytest.raises(StorageError, match=r"ExpiredToken \(403\).*credentials have expired: renew them") as stopped:
        ground.run(SMALL_TOPIC, expired, **keys(OLD))
    assert expired.strikes
    assert not isinstance(stopped.value, StorageUnavailable)
    assert SECRET not in str(stopped.value)

    ground.run(SMALL_TOPIC, **keys(NEW))  # the old ones are still refused
    ground.judge(SMALL_TOPIC)


def keys(identity: str) -> dict[str, str]:
    return {"aws.access.key.id": identity, "aws.secret.access.key": SECRET}


def test_a_file_whose_upload_is_aborted_before_its_completion_is_written_again_from_kafka(strict: Ground) -> None:
    which = Which("POST", key=FIRST_FILE, having=("uploadId",))
    gone = Rule(which, First(strict.abort))
    strict.run(SMALL_TOPIC, gone)

    assert len(gone.strikes) == 1
    assert strict.proxy.count(Which("POST", key=FIRST_FILE, having=("uploads",))) == 2
    strict.judge(SMALL_TOPIC)


def test_uploads_that_are_aborted_while_the_sink_is_down_are_written_again_at_its_start(strict: Ground) -> None:
    refused = Rule(COMPLETION, Refuse(403, "AccessDenied"), times=None)
    with pytest.raises(StorageError, match=r"AccessDenied \(403\).*Grant s3:PutObject"):
        strict.run(SMALL_TOPIC, refused)
    assert refused.strikes
    strict.proxy.clear()
    assert strict.here.bucket.data_keys() == []
    assert strict.abort_all() == SMALL // int(QUICK["flush.size"])

    strict.run(SMALL_TOPIC)
    strict.judge(SMALL_TOPIC)


def test_an_upload_that_is_aborted_between_its_parts_is_begun_again(ground: Ground) -> None:
    # the answer is S3's, given by the proxy: moto and versitygw hang up before they have read the part
    answer = Refuse(404, "NoSuchUpload", "The specified upload does not exist.")
    gone = Rule(Which("PUT", having=("uploadId", "partNumber=2")), First(ground.abort, answer))
    notes = ground.run(LARGE_TOPIC, gone, **ONE_FILE)

    assert len(gone.strikes) == 1
    assert any("UploadPart on s3://" in text and "NoSuchUpload" in text for text in notes.warnings)
    ground.judge(LARGE_TOPIC)


@pytest.fixture
def cramped(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Spark workers whose local files may not grow beyond 256 KiB, until the function that this gives is called."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))\n"
    (tmp_path / "sitecustomize.py").write_text(limit)
    environment = spark.sparkContext.environment
    before = dict(environment)

    def give_room() -> None:
        environment.clear()
        environment.update(before)

    environment["PYTHONPATH"] = str(tmp_path)  # workers of another environment are other processes
    yield give_room
    give_room()


def test_a_local_disk_without_space_stops_the_topic_partition_with_the_reason(
    ground: Ground, cramped: Callable[[], None]
) -> None:
    spilling = {
        **ONE_FILE, "writer.memory.bytes": str(1 << 20), "partitioner.class": PARTITIONER + "FieldPartitioner",
        "partition.field.name": "side",
    }  # fmt: skip
    with pytest.raises(PartitionsStopped, match=r"File too large.*writer\.memory\.bytes"):
        ground.run(LARGE_TOPIC, **spilling)
    assert ground.here.bucket.data_keys() == []

    cramped()
    ground.run(LARGE_TOPIC, **spilling)
    ground.judge(LARGE_TOPIC)


def test_the_judge_itself_sees_what_is_missing_twice_or_uncounted(ground: Ground) -> None:
    ground.run(SMALL_TOPIC)
    bucket, servers = ground.here.bucket, ground.here.servers
    first, second = bucket.data_keys()
    content = bucket.get(first)
    bucket.client.put_object(Bucket=bucket.name, Key=first.replace(".json", "-copy.json"), Body=content)
    bucket.client.put_object(Bucket=bucket.name, Key=first, Body=content.replace(b'"n":0', b'"n":-1'))
    bucket.client.delete_object(Bucket=bucket.name, Key=second)

    found = reconcile(bucket, servers, SMALL_TOPIC, partitions=PARTITIONS, sink=ground.sink)
    assert len(found.missing) == 10
    assert len(found.twice) == 9
    assert ['"n": -1' in value for value in found.foreign] == [True]
    assert (found.absent, found.miscounted) == ([second], [first])
    assert [key.endswith("-copy.json") for key in found.uncounted] == [True]
    assert set(found.wrong) == {"missing", "twice", "foreign", "absent", "uncounted", "miscounted"}
