"""Is a directory of a time marked once it is complete, not before, and again where a record comes late?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_s3.local.memory import MemoryRecord
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.storage.faults import Moment
from kafka_s3.wiring.followers import NEVER, end_of_directory
from tests.support.configurations import TIME
from tests.support.deaths import Died, strikes
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

HOUR = 3_600_000
OTHER = TopicPartition("orders", 1)
CONFIG = {**TIME, "flush.size": "1", "done.marker.name": "_SUCCESS", "rotate.schedule.interval.ms": "-1"}


def come(world: World, tp: TopicPartition, offset: int, at_ms: int) -> None:
    world.kafka.add(tp, MemoryRecord(offset, at_ms, None, b'{"n":1}'))
    world.now = max(world.now, at_ms)


def work(world: World) -> None:
    world.sink.poll()
    world.sink.drain()
    world.sink.cycle()


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


def test_a_late_record_writes_the_marker_anew_with_its_entry() -> None:
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
def test_the_end_of_a_directory_is_that_of_all_buckets_of_its_name(config: dict[str, str], end: str | None) -> None:
    from datetime import UTC, datetime

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
