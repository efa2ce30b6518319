"""Is every record in the bucket once when the driver's clock jumps, its log is damaged, it is not alone, or it or its executors die?

Each test injects the fault, asserts that it struck, and compares bucket and Kafka record by record, without the product's code.
"""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark import cloudpickle

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import Fenced, LogDamaged
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.faults import FaultyStore, Moment, Verb
from tests.services.faults import dying_task
from tests.services.faults.dying_driver import DEADLY, Death, DriverDied
from tests.services.faults.exactly_once import START_MS, assert_exactly_once, assert_swept, numbered, pending
from tests.services.faults.moving_clock import HOUR_MS, MovingClock
from tests.support.configurations import PARTITIONER, STATE
from tests.support.kafka import Given, document, group_offsets, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

MINUTE_MS = 60_000
BATCHES = "spark.sql.execution.arrow.maxRecordsPerBatch"
cloudpickle.register_pickle_by_value(dying_task)


# ---------------------------------------------------------------- the driver's clock jumps

TIME = {
    "partitioner.class": PARTITIONER + "HourlyPartitioner", "locale": "en", "timezone": "UTC",
    "rotate.interval.ms": str(MINUTE_MS),
}  # fmt: skip
CLOCK_RULES = {
    "rotate.schedule.interval.ms": {"rotate.schedule.interval.ms": str(MINUTE_MS), "timezone": "UTC"},
    "rotate.interval.ms by wall clock": {**TIME, "timestamp.extractor": "Wallclock"},
    "rotate.interval.ms by record time": {**TIME, "timestamp.extractor": "Record"},
    "flush.idle.ms": {"flush.idle.ms": str(MINUTE_MS // 2)},
    "tail.check.interval.ms": {**TIME, "timestamp.extractor": "RecordField", "timestamp.field": "created"},
}
EACH = 10


@dataclass
class Minutes:
    """A sink that looks once a minute and is given ten records each time; time is the test's."""

    here: Surroundings
    topic: str
    config: dict[str, str]
    clock: MovingClock
    produced: int = 0
    sink: Sink = field(init=False)

    def start(self) -> None:
        self.sink = self.here.sink(self.config)
        self.sink.open()

    def pass_one(self, records: int = EACH, *, jump_ms: int = 0) -> None:
        """Records come, the sink looks twice, and a minute goes by; the clock jumps while the records are open."""
        at = self.clock.true_ms
        values = [document(n=n, created=at) for n in range(self.produced, self.produced + records)]
        produce(self.here.servers, self.topic, [Given(value, 0, at) for value in values])
        self.produced += records
        assert self.sink.poll_and_commit()
        self.clock.jump(jump_ms)
        self.clock.advance(MINUTE_MS // 2 + 1000)
        assert self.sink.poll_and_commit()
        self.clock.advance(MINUTE_MS // 2)

    def files(self) -> list[list[int]]:
        """The numbers in each object, in order of offset."""
        return sorted([row["n"] for row in rows] for rows in self.here.bucket.contents().values())

    def assert_in_time(self, *, minutes: int) -> None:
        """All but the last two minutes' records are there, without gaps; and no rule has fallen into a frenzy."""
        files = self.files()
        written = [n for file in files for n in file]
        assert written == list(range(len(written)))
        assert len(written) >= self.produced - 2 * EACH
        assert len(files) <= minutes


@pytest.mark.nightly  # the rotation's model sets the clock back in every run
@pytest.mark.parametrize("rule", CLOCK_RULES)
def test_a_clock_that_jumps_an_hour_back_and_two_forward_loses_doubles_and_holds_back_nothing(
    rule: str, here: Surroundings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovingClock(START_MS)
    monkeypatch.setattr("kafka_s3.run.spark.launch.now_ms", clock)
    name = topic("clock")
    config = here.config(name, **{"flush.size": "100000", **CLOCK_RULES[rule]})
    minutes = Minutes(here, name, config, clock)
    minutes.start()
    minutes.pass_one(6 * EACH, jump_ms=-HOUR_MS)
    minutes.pass_one(0)
    if "tail" not in rule and "interval.ms by" not in rule:
        assert minutes.files() == [list(range(6 * EACH))]  # these rules need no new record
    minutes.pass_one()
    minutes.pass_one()
    minutes.assert_in_time(minutes=4)
    minutes.pass_one(jump_ms=2 * HOUR_MS)
    minutes.pass_one(0)
    minutes.pass_one()
    minutes.assert_in_time(minutes=7)

    clock.jump(-HOUR_MS)  # the next driver's clock is right again
    minutes.start()
    minutes.pass_one()
    minutes.assert_in_time(minutes=8)
    times = [entry["committed_at"] for entry in here.bucket.entries(config["name"])]
    assert times != sorted(times), "the log shows no jump"
    here.drain(config)
    assert_exactly_once(here, name)
    if "record time" in rule or "idle" in rule:  # as if nothing had happened to the clock
        assert [len(file) for file in minutes.files()] == [6 * EACH] + [EACH] * 5


# ---------------------------------------------------------------- the log is not what it was


@dataclass(frozen=True)
class Written:
    """A sink with a few entries in its log, at rest; more records wait in Kafka."""

    here: Surroundings
    topic: str
    config: dict[str, str]

    @property
    def log(self) -> list[str]:
        """The keys of the commit entries."""
        folder = f"{STATE}{self.config['name']}/commits/"
        return sorted(key for key in self.here.bucket.listing() if key.startswith(folder))

    def put(self, key: str, content: bytes) -> None:
        self.here.bucket.client.put_object(Bucket=self.here.bucket.name, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self.here.bucket.client.delete_object(Bucket=self.here.bucket.name, Key=key)

    def refusal(self) -> str:
        """Why the sink does not start; nothing in the bucket and no group offset has changed by trying."""
        group = f"connect-{self.config['name']}"
        before = self.here.bucket.listing(), group_offsets(self.here.servers, group, self.topic, 1)
        with pytest.raises(LogDamaged) as raised:
            self.here.drain(self.config)
        assert (self.here.bucket.listing(), group_offsets(self.here.servers, group, self.topic, 1)) == before
        assert pending(self.here) == []
        return str(raised.value)

    def goes_on(self) -> None:
        self.here.drain(self.config)
        assert_exactly_once(self.here, self.topic)


@pytest.fixture
def written(here: Surroundings, topic: Callable[..., str]) -> Written:
    name = topic("log")
    config = here.config(name, **{"flush.size": "10"})
    produce(here.servers, name, numbered(0, 20))
    here.drain(config)
    produce(here.servers, name, numbered(20, 35))
    return Written(here, name, config)


def as_later(content: bytes) -> bytes:
    """The entry as a later format might have it: another name for the frontier, and members that nobody knows today."""
    document = json.loads(content)
    document["positions"] = document.pop("frontier")
    return json.dumps({**document, "format": 99, "leases": []}).encode()


def test_a_log_with_an_entry_of_a_later_format_is_refused_untouched(written: Written) -> None:
    last = written.log[-1]
    content = written.here.bucket.get(last)
    written.put(last, as_later(content))
    refusal = written.refusal()
    assert f"{last} has format 99" in refusal
    assert "Upgrade kafka-s3" in refusal
    written.put(last, content)  # the later version would go on; so does this one with the entry as it was
    written.goes_on()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "not JSON": lambda content: b"<html>503</html>",
    "another document": lambda content: b"[]",
    "a member gone": lambda content: json.dumps({**json.loads(content), "totals": None}).encode(),
    "another entry": lambda content: json.dumps({**json.loads(content), "version": 17}).encode(),
}


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.nightly), -1], ids=["in the middle", "at the end"])
def test_a_damaged_entry_is_named_and_nothing_is_touched(at: int, written: Written) -> None:
    key = written.log[at]
    content = written.here.bucket.get(key)
    for damage, damaged in DAMAGES.items():
        written.put(key, damaged(content))
        refusal = written.refusal()
        assert f"Commit entry {key} " in refusal, damage
        assert "Restore the object" in refusal, damage
    written.put(key, content)
    written.goes_on()


def test_a_missing_entry_is_named_and_nothing_is_touched(written: Written) -> None:
    for key in written.log[:-1]:
        content = written.here.bucket.get(key)
        written.delete(key)
        refusal = written.refusal()
        assert f"Commit entry {key} is missing" in refusal
        written.put(key, content)
    written.goes_on()


def test_a_checkpoint_of_a_later_format_is_refused_and_a_damaged_one_may_be_deleted(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.log.CHECKPOINT_EVERY", 1)
    written.here.drain(written.config)
    produce(written.here.servers, written.topic, numbered(35, 45))
    key = max(key for key in written.here.bucket.listing() if "/checkpoints/" in key)
    content = written.here.bucket.get(key)
    document = json.loads(content)
    laters = (
        {**document, "entry": json.loads(as_later(json.dumps(document["entry"]).encode()))},
        {"format": 99, "state": {}},
    )
    for later in laters:
        written.put(key, json.dumps(later).encode())
        refusal = written.refusal()
        assert f"{key} has format 99" in refusal
        assert "Upgrade kafka-s3" in refusal
        assert "Delete" not in refusal
    for damaged in (b'{"entry": 1}', content[:100], b"", b"[]"):
        written.put(key, damaged)
        refusal = written.refusal()
        assert f"{key} is damaged" in refusal
    assert f"Checkpoint {key} is damaged" in refusal
    written.delete(key)  # as the message says
    written.goes_on()


# ---------------------------------------------------------------- more than one driver


@pytest.mark.nightly
def test_of_drivers_that_take_turns_only_the_last_one_to_claim_commits(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name, partitions, produced, fenced = topic("turns", 2), 2, 0, 0
    config = here.config(name, **{"flush.size": "10"})

    def records_come() -> None:
        nonlocal produced
        produce(here.servers, name, numbered(produced, produced + 50, partitions=partitions))
        produced += 50

    owner = here.sink(config)
    owner.open()
    for _ in range(4):
        records_come()
        assert owner.poll_and_commit()
        successor = here.sink(config)
        successor.open()
        records_come()
        before = here.bucket.listing()
        for _ in range(2):  # it stays fenced, however often it is asked to work
            with pytest.raises(Fenced, match="owned by another driver now"):
                owner.poll_and_commit()
            fenced += 1
        assert here.bucket.listing() == before
        owner = successor
    assert fenced == 8
    assert not pending(here), "a fenced driver ends its own uploads"
    here.drain(config)
    assert_exactly_once(here, name, partitions=partitions)
    assert_swept(here, config)


@contextmanager
def records_stream(here: Surroundings, topic: str, *, partitions: int) -> Iterator[None]:
    """Records come all the time, some fifty a second: few enough for a starting driver on a busy machine."""
    stop = threading.Event()

    def run() -> None:
        produced = 0
        while not stop.wait(0.2):
            produce(here.servers, topic, numbered(produced, produced + 10, partitions=partitions))
            produced += 10

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_of_two_processes_one_is_fenced_and_the_other_and_its_successor_may_be_killed(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, jitter = topic("processes", 2), random.Random(5)
    config = here.config(name, **{"flush.size": "100", "poll.interval.ms": "100", "heartbeat.interval.ms": "60000"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--log-format", "json", "--cores", "1"]

    def data_entries(epoch: int) -> int:
        entries = here.bucket.entries(config["name"])
        return sum(entry["kind"] == "data" and entry["epoch"] == epoch for entry in entries)

    def killed_at_work(process: SinkProcess, *, epoch: int) -> None:
        eventually(lambda: data_entries(epoch) > 1, what=process.output)
        threading.Event().wait(jitter.random())
        process.signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    with records_stream(here, name, partitions=2):
        with (
            SinkProcess(words, tmp_path / "one.log") as one,
            SinkProcess(words, tmp_path / "two.log") as two,
        ):
            eventually(lambda: ended(one) or ended(two), what=lambda: one.output() + two.output())
            loser, winner = (one, two) if ended(one) else (two, one)
            assert loser.wait() == 1, loser.output()
            assert "Fenced" in loser.output()
            assert "owned by another driver now" in loser.output()
            assert "Traceback" not in loser.output()
            killed_at_work(winner, epoch=2)
        with SinkProcess(words, tmp_path / "three.log") as three:
            killed_at_work(three, epoch=3)
    here.drain(config)
    epochs = [entry["epoch"] for entry in here.bucket.entries(config["name"]) if entry["kind"] == "epoch"]
    assert epochs == [1, 2, 3, 4]
    assert_exactly_once(here, name, partitions=2)
    assert_swept(here, config)


def ended(sink: SinkProcess) -> bool:
    """Whether the process has ended."""
    assert sink.process is not None
    return sink.process.poll() is not None


# ---------------------------------------------------------------- a driver that dies over and over


@pytest.mark.nightly
def test_a_driver_that_dies_twelve_times_at_random_requests_writes_every_record_once(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name, jitter, produced = topic("loop", 2), random.Random(11), 0
    config = here.config(name, **{"flush.size": "7", "tasks.max": "1", "tail.check.interval.ms": "0"})
    settings = resolved(validate(config).usable())
    deaths: list[tuple[Verb, str]] = []
    kinds = [(verb, moment) for verb in DEADLY for moment in Moment]
    kinds += jitter.sample(kinds, 4)
    jitter.shuffle(kinds)
    for verb, moment in kinds:
        produce(here.servers, name, numbered(produced, produced + 40, partitions=2))
        produced += 40
        death = Death(verb, jitter.randint(1, 3), moment)
        store = S3Store(store_options(settings))
        sink = sink_on_spark(settings, here.spark, store=FaultyStore(store, death.faults()))
        with pytest.raises(DriverDied):
            open_and_work(sink)
        store.close()
        assert death.struck is not None
        deaths.append(death.struck)
    assert len(deaths) == 12
    places = {(verb, where(key)) for verb, key in deaths}
    assert len(places) >= 4, places
    assert {(Verb.PUT_NEW, "commits"), (Verb.COMPLETE_UPLOAD, "objects")} <= places
    here.drain(config)
    assert_exactly_once(here, name, partitions=2)
    assert_swept(here, config)


def open_and_work(sink: Sink) -> None:
    """Takes over again and again, until it dies."""
    while True:
        sink.open()
        sink.poll_and_commit()


def where(key: str) -> str:
    """The kind of an object."""
    return key.split("/")[2] if key.startswith(STATE) else "objects"


# ---------------------------------------------------------------- an executor dies


@pytest.mark.parametrize("reader", ["tasks", pytest.param("spark", marks=pytest.mark.nightly)])
def test_a_python_worker_that_is_killed_in_its_task_takes_no_other_task_along_and_leaves_nothing(
    reader: str, here: Surroundings, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, traces = topic("worker", 2), tmp_path / "traces"
    config = here.config(name, **{"flush.size": "30", "kafka.reader": reader, "tasks.max": "2"})
    produce(here.servers, name, numbered(0, 500, partitions=2))
    with monkeypatch.context() as doomed:
        if reader == "tasks":
            doomed.setattr("kafka_s3.run.spark.source.ReadingTask", dying_task.dying_reading(dying_task.WORKER, traces))
        else:
            doomed.setattr("kafka_s3.run.spark.source.Task", dying_task.dying(dying_task.WORKER, traces))
        sink = here.sink(config)
        here.spark.conf.set(BATCHES, "50")
        sink.open()
        assert sink.poll_and_commit()
    assert dying_task.struck(traces)[0] == "worker"
    ((died, failure),) = sink.failures.passing.items()
    assert "died at its work" in str(failure.error)
    written = here.bucket.data_keys()
    assert written
    assert not [key for key in written if f"{name}+{died.partition}+" in key]
    assert pending(here), "the dead one's uploads"
    sink.poll()
    assert pending(here) == []
    here.drain(config)
    assert_exactly_once(here, name, partitions=2)
    assert pending(here) == []


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_spark_tries_tasks_again_whose_worker_or_executor_was_killed_and_nothing_is_written_twice(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    topics, words, config = [], [], {}
    for victim in (dying_task.WORKER, dying_task.EXECUTOR):
        topics.append(topic(victim, 2))
        produce(here.servers, topics[-1], numbered(0, 500, partitions=2))
        config = here.config(",".join(topics), **{"flush.size": "30"})
        path = tmp_path / f"{victim}.json"
        path.write_text(json.dumps(config))
        words.append(f"{victim}={path}")
    command = ["-m", "tests.services.faults.local_cluster_sink", str(tmp_path), *words]
    with SinkProcess(command, tmp_path / "run.log") as process:
        assert process.wait(300) == 0, process.output()
    for victim in (dying_task.WORKER, dying_task.EXECUTOR):
        traces = tmp_path / f"{victim}-traces"
        assert dying_task.struck(traces)[0] == victim
        assert max(dying_task.attempts(traces)) > 0, "Spark tried no task again"
    assert {key.split("/")[1] for key, _ in pending(here)} <= set(topics)  # the sink ends what it learns of itself
    for name in topics:
        assert_exactly_once(here, name, partitions=2)
    assert_swept(here, config)
