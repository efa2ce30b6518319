"""Is a directory of a time marked once it is complete, not before, and again where a record comes late?"""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_s3.followers.done_markers import CompleteDirectories, write_marker
from kafka_s3.model.errors import ConfigError, Fenced
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.followers import NEVER, end_of_directory
from kafka_s3_testing.faults import Moment, failure
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TIME
from tests.support.deaths import Died, strikes
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

HOUR = 3_600_000
OTHER = TopicPartition("orders", 1)
CONFIG = {**TIME, "flush.size": "1", "done.marker.name": "_SUCCESS", "rotate.schedule.interval.ms": "-1"}


def come(world: World, tp: TopicPartition, offset: int, at_ms: int, n: int = 1) -> None:
    world.kafka.add(tp, MemoryRecord(offset, at_ms, None, b'{"n":%d}' % n))
    world.now = max(world.now, at_ms)


def work(world: World) -> None:
    world.sink.poll()
    world.sink.drain()
    world.sink.poll_and_commit()


def marked(world: World) -> dict[str, dict[str, Any]]:
    found = {key: data for key, data in world.store.objects.items() if key.endswith("/_SUCCESS")}
    return {key.split("/")[-2]: json.loads(data) for key, data in found.items()}


def test_a_directory_is_marked_when_its_time_is_over_and_no_topic_partition_can_add_to_it() -> None:
    world = World(CONFIG, topics=(ORDERS, OTHER))
    world.start()
    come(world, ORDERS, 0, START_MS)
    come(world, OTHER, 0, START_MS + 1)
    work(world)
    assert marked(world) == {}  # 10 o'clock is not over
    come(world, ORDERS, 1, START_MS + HOUR)
    work(world)
    assert {name: (one["files"], one["records"]) for name, one in marked(world).items()} == {"h=10": (2, 2)}


def test_the_last_directory_of_a_topic_that_goes_quiet_is_marked_when_its_time_ends_and_quiet_rounds_ask_nothing() -> (
    None
):
    world = World(CONFIG, topics=(ORDERS, OTHER))
    world.start()
    come(world, ORDERS, 0, START_MS)
    work(world)
    del world.calls[:]
    for minute in range(1, 60):
        world.now = START_MS + minute * 60_000
        world.sink.poll_and_commit()
    assert (marked(world), world.calls) == ({}, [])
    world.now = START_MS + HOUR
    world.sink.poll_and_commit()
    assert marked(world).keys() == {"h=10"}
    assert [verb for verb, _ in world.calls] == ["head", "put", "put"]  # still the owner? the marker, the state
    world.now += 10 * HOUR
    world.sink.poll_and_commit()
    assert len(world.calls) == 3


def test_records_that_wait_hold_the_marker_of_a_quiet_topic_until_they_are_committed() -> None:
    world = World({**CONFIG, "flush.size": "2", "flush.idle.ms": str(2 * HOUR)}, topics=(ORDERS, OTHER))
    world.start()
    for offset in range(2):
        come(world, ORDERS, offset, START_MS)
    come(world, OTHER, 0, START_MS)
    work(world)
    for _ in range(3):
        world.now += 40 * 60_000
        held = marked(world)
        world.sink.poll_and_commit()
    assert (held, marked(world)["h=10"]["records"]) == ({}, 3)


def test_a_driver_that_was_replaced_marks_nothing_on_a_quiet_topic() -> None:
    world = World(CONFIG)
    replaced = world.start()
    come(world, ORDERS, 0, START_MS)
    work(world)
    world.start()
    world.now = START_MS + HOUR
    with pytest.raises(Fenced):
        replaced.poll_and_commit()
    assert marked(world) == {}
    world.sink.poll_and_commit()
    assert marked(world).keys() == {"h=10"}


def test_a_marker_that_could_not_be_written_on_a_quiet_topic_is_written_in_the_next_round() -> None:
    world = World(CONFIG)
    world.start([failure("put", matches=lambda key: "_SUCCESS" in key)])
    come(world, ORDERS, 0, START_MS)
    work(world)
    for _ in range(2):
        world.now = max(world.now + 1, START_MS + HOUR)
        held = marked(world)
        world.sink.poll_and_commit()
    assert (held, marked(world).keys()) == ({}, {"h=10"})


def test_records_are_counted_once_though_their_keys_lie_beside_them() -> None:
    keys = {"store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat"}
    world = World({**CONFIG, **keys, "key.converter": "org.apache.kafka.connect.storage.StringConverter"})
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, b"k", b'{"n":1}'))
    work(world)
    world.now = START_MS + HOUR
    world.sink.poll_and_commit()
    assert {name: (one["files"], one["records"]) for name, one in marked(world).items()} == {"h=10": (1, 1)}


def test_what_is_known_of_open_directories_is_bounded_and_what_is_given_up_is_reported() -> None:
    world, warned = World({**CONFIG, "done.marker.name": "", "flush.size": "1"}, topics=(ORDERS, OTHER)), list[str]()
    world.start()
    for hour in range(20):
        come(world, ORDERS, hour, START_MS + hour * HOUR)
    world.sink.poll()
    world.sink.drain()
    come(world, OTHER, 0, START_MS)  # not committed: no directory is complete
    log = world.log()
    log.load()
    end_of = end_of_directory(world.settings)
    follower = CompleteDirectories(
        write_marker("_SUCCESS"), end_of, world.kafka, lambda: world.now, warned.append, most_bytes=2_000
    )
    follower.catch_up(log)
    assert marked(world) == {}
    assert "directories are passed over, topics/orders/" in warned[0]
    assert len(world.store.objects[log.paths.follower("done-markers")]) < 3_000
    world.sink.poll()
    world.sink.drain()
    log.load()
    follower.catch_up(log)
    assert "h=04" in marked(world)


def test_it_waits_for_a_topic_partition_that_lags() -> None:
    world = World({**CONFIG, "flush.size": "2"}, topics=(ORDERS, OTHER))
    world.start()
    for offset in range(2):
        come(world, ORDERS, offset, START_MS)
    come(world, OTHER, 0, START_MS)  # stays open
    for offset in range(2, 4):
        come(world, ORDERS, offset, START_MS + HOUR)
    work(world)
    assert marked(world) == {}
    come(world, OTHER, 1, START_MS)
    work(world)
    assert marked(world)["h=10"]["records"] == 4


def test_a_late_record_writes_the_marker_again_with_its_entry() -> None:
    world = World(CONFIG)
    world.start()
    come(world, ORDERS, 0, START_MS)
    come(world, ORDERS, 1, START_MS + HOUR)
    work(world)
    before = marked(world)["h=10"]["entry"]
    come(world, ORDERS, 2, START_MS)
    come(world, ORDERS, 3, START_MS + HOUR)
    work(world)
    assert marked(world)["h=10"]["entry"] > before


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_a_crash_at_a_marker_or_before_markers_were_wanted_leaves_none_out(moment: Moment) -> None:
    world = World({**CONFIG, "done.marker.name": ""})
    world.start()
    come(world, ORDERS, 0, START_MS)
    come(world, ORDERS, 1, START_MS + HOUR)
    work(world)
    world.settings = settings_of(CONFIG)
    with pytest.raises(Died):
        world.start([strikes("put", "_SUCCESS", moment)])
    world.start()
    assert marked(world).keys() == {"h=10"}


@pytest.mark.parametrize(
    ("config", "end"),
    [
        ({}, "2024-01-15T11:00"),
        ({"path.format": "'d'=YYYY-MM-dd"}, "2024-01-16T00:00"),
        ({"path.format": "'d'=YYYY-MM-dd", "timezone": "America/New_York"}, "2024-01-16T05:00"),
        ({"path.format": "'all'"}, None),
    ],
)
def test_the_end_of_a_directory_is_that_of_all_buckets_of_its_name(
    config: dict[str, str], end: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    monkeypatch.setattr("kafka_s3.run.wiring.followers.MOST_BUCKETS", 100)  # more than a day has
    found = end_of_directory(settings_of({**CONFIG, **config}))(START_MS + 5)
    assert found == (NEVER if end is None else int(datetime.fromisoformat(end).replace(tzinfo=UTC).timestamp() * 1000))


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"timestamp.extractor": "Wallclock"}, "directories by the records' own times"),
        ({"done.marker.name": "SUCCESS"}, "read as data"),
    ],
)
def test_what_cannot_be_marked_is_refused(config: dict[str, str], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        settings_of({**CONFIG, **config})


class LateScene:
    """Records that come late, crash by crash: two topic-partitions, hours as directories, a marker's put that fails now and then."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = World(
            {**CONFIG, "flush.size": str(self.draw.choice([1, 2, 3])), "flush.idle.ms": str(HOUR)},
            topics=(ORDERS, OTHER),
        )
        self.next = {ORDERS: 0, OTHER: 0}
        self.seen: dict[str, dict[str, Any]] = {}
        self.world.start()

    def play(self) -> None:
        for _ in range(self.draw.randint(20, 60)):
            self.draw.choice([self.record] * 5 + [self.time] * 2 + [self.round] * 4 + [self.crash])()
        for _ in range(4):
            self.world.now += 3 * HOUR
            self.round()
        self.judge()

    def record(self) -> None:
        tp = self.draw.choice([ORDERS, OTHER])
        late = self.draw.randint(1, 4) * HOUR if self.draw.random() < 0.2 else 0
        self.world.kafka.add(tp, MemoryRecord(self.next[tp], self.world.now - late, None, b'{"n":1}'))
        self.next[tp] += 1

    def time(self) -> None:
        self.world.now += self.draw.choice([60_000, 20 * 60_000, HOUR, 2 * HOUR])

    def crash(self) -> None:
        """The next driver may find its store unwilling to take a marker, or what is noted of them."""
        plan = (
            [failure("put", matches=lambda key: "_SUCCESS" in key or "followers" in key)]
            if self.draw.random() < 0.5
            else []
        )
        self.world.start(plan)
        self.look()  # a start catches up with markers

    def round(self) -> None:
        self.world.sink.poll_and_commit()
        self.look()

    def look(self) -> None:
        for hour, marker in marked(self.world).items():
            if self.seen.get(hour) != marker:
                self.check(hour, marker)
        self.seen = marked(self.world)

    def check(self, hour: str, marker: dict[str, Any]) -> None:
        """Its time is over, and nobody has records of it that were there before and are not committed, unless later ones are."""
        assert marker["end_ms"] <= self.world.now, hour
        state = self.world.log().load()
        for tp in (ORDERS, OTHER):
            waiting = [
                record.timestamp
                for record in self.world.kafka.records[tp]
                if record.offset >= state.frontier.get(tp, 0)
            ]
            passed = any(
                file.max_timestamp is not None and file.max_timestamp >= marker["end_ms"]
                for entry in self.world.entries() for file in entry.files if file.topic_partition == tp
            )  # fmt: skip
            assert passed or not [ms for ms in waiting if ms is not None and ms < marker["end_ms"]], (hour, tp)

    def judge(self) -> None:
        """Each hour that has objects is marked, and its last marker names the last entry that added to it."""
        last: dict[str, int] = {}
        for entry in self.world.entries():
            for file in entry.files:
                last[file.key.split("/")[-2]] = entry.version
        assert {hour: marker["entry"] for hour, marker in marked(self.world).items()} == last


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in range(15, 515, 100))]
)
def test_late_records_and_crashes_leave_every_hour_marked_and_none_too_early(first: int) -> None:
    for seed in range(first, first + (100 if first else 15)):
        try:
            LateScene(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


SMALL = {"compact.enable": "true", "rewrite.grace.ms": "60000"}


def sizes(world: World) -> list[int]:
    """The numbers of records of all objects."""
    return sorted(len(found) for key, found in world.objects().items() if key.endswith(".json"))


def look_again(world: World) -> None:
    world.now += 61_000
    work(world)
    work(world)


def test_the_small_files_of_a_complete_directory_become_one_and_no_others() -> None:
    world = World({**CONFIG, **SMALL})
    world.start()
    for offset in range(4):
        come(world, ORDERS, offset, START_MS)
        work(world)
    assert sizes(world) == [1, 1, 1, 1]
    for offset in (4, 5):
        come(world, ORDERS, offset, START_MS + HOUR)
        work(world)
    look_again(world)
    assert sizes(world) == [1, 1, 4]
    assert world.store.uploads == {}
    assert marked(world).keys() == {"h=10"}


def test_a_directory_is_compacted_in_parts_and_what_a_dead_driver_left_is_done_by_the_next() -> None:
    world = World({**CONFIG, **SMALL, "compact.target.bytes": "20"})
    world.start([strikes("put_new", "/rewrites/", Moment.AFTER, 2)])
    for offset in range(6):
        come(world, ORDERS, offset, START_MS)
        work(world)
    come(world, ORDERS, 6, START_MS + HOUR)
    with pytest.raises(Died):
        look_again(world)
    world.start()
    for _ in range(4):
        look_again(world)
    assert sizes(world) == [1, 2, 2, 2]
    assert world.store.uploads == {}


def test_what_comes_late_into_a_directory_is_put_together_by_itself() -> None:
    world = World({**CONFIG, **SMALL})
    world.start()
    for offset in range(2):
        come(world, ORDERS, offset, START_MS)
    come(world, ORDERS, 2, START_MS + HOUR)
    work(world)
    look_again(world)
    for offset in (3, 4, 5):
        come(world, ORDERS, offset, START_MS)
    work(world)
    look_again(world)
    look_again(world)
    assert sizes(world) == [1, 2, 3]


def test_the_rows_of_a_complete_directory_are_sorted_where_that_is_asked_for() -> None:
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}
    world = World({**CONFIG, **SMALL, **parquet, "compact.sort.by": "n"})
    world.start()
    for offset in range(4):
        come(world, ORDERS, offset, START_MS, n=9 - offset)
        work(world)
    come(world, ORDERS, 4, START_MS + HOUR)
    work(world)
    look_again(world)
    (merged,) = [file for entry in world.entries() for file in entry.files if entry.swaps]
    assert merged.sorted_by == "n"
    assert pq.read_table(io.BytesIO(world.store.get(merged.key)))["n"].to_pylist() == [6, 7, 8, 9]


def test_the_files_of_all_partitions_of_a_complete_directory_become_one_where_that_is_asked_for() -> None:
    second = TopicPartition("orders", 1)
    world = World({**CONFIG, **SMALL, "compact.across.partitions": "true"}, topics=(ORDERS, second))
    world.start()
    for offset in range(2):
        for tp in (ORDERS, second):
            come(world, tp, offset, START_MS)
        work(world)
    for tp in (ORDERS, second):
        come(world, tp, 2, START_MS + HOUR)
    work(world)
    look_again(world)
    assert sizes(world) == [1, 1, 4]
    (merged,) = [file for entry in world.entries() for file in entry.files if entry.swaps]
    assert merged.topic_partitions == (ORDERS, second)
    assert marked(world).keys() == {"h=10"}


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"timestamp.extractor": "Wallclock"}, "compact.enable"),
        ({"compact.target.bytes": "99999999"}, "compact.target.bytes"),
    ],
)
def test_compaction_by_itself_needs_times_and_memory(changed: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        settings_of({**TIME, "flush.size": "1", **SMALL, **changed})
