"""Are the entries of a log fetched side by side, and still given in order?"""

from __future__ import annotations

import json
from dataclasses import asdict
from threading import Event
from typing import Any

import pytest

from kafka_s3.engine.log import reading
from kafka_s3.engine.log.reading import Manifest, Stretch, read_manifest
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault
from tests.support.memory_world import ORDERS, world_of

READ_THREADS = reading.READ_THREADS


def test_a_start_asks_for_several_entries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request is answered once another one is there."""
    monkeypatch.setattr(reading, "READ_THREADS", READ_THREADS)
    world = world_of(1)
    world.start()
    for offset in range(7):
        world.add([offset])
        world.sink.poll_and_commit()
    asked, another = list[str](), Event()

    def answered_late(key: str) -> None:
        asked.append(key)
        if len(asked) == 1:
            assert another.wait(20), "one after the other"
        another.set()

    world.start([Fault("get", answered_late, nth=None, matches=lambda key: "/commits/" in key)])
    assert world.sink.log.state.frontier == {ORDERS: 7}


NAMES = ("entries", "files", "dead_letter_files")
FIRST = Stretch(0, 9, ("c0", "c9"), ("t0", "t9"), 3, dict.fromkeys(NAMES, 1), dict.fromkeys(NAMES, "f" * 64))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"last": -1}, "cannot be read"),
        ({"files": "3"}, "cannot be read"),
        ({"commits": ("c0",)}, "cannot be read"),
        ({"committed_at": ("t0", 9)}, "cannot be read"),
        ({"unknown": 1}, "cannot be read"),
        ({"first": 5}, "do not follow one another"),
        ({}, "is about another log"),
    ],
)
def test_a_manifest_that_is_not_of_this_log_is_named_with_what_to_do(change: dict[str, Any], reason: str) -> None:
    store, paths = MemoryStore(), StatePaths("_kafka_s3/", "sink")
    document = json.loads(Manifest((FIRST,)).to_json())
    document["stretches"] = [asdict(FIRST) | change]
    store.put(paths.log_manifest(), json.dumps(document).encode())
    with pytest.raises(LogDamaged, match=reason) as caught:
        read_manifest(store, paths)
    assert paths.log_tables() in str(caught.value)


def test_an_entry_that_calls_itself_another_stops_a_start() -> None:
    world = world_of(1)
    world.start()
    paths = world.log().paths
    world.store.put(paths.commit(1), world.store.get(paths.commit(0)))
    with pytest.raises(LogDamaged, match="calls itself entry 0"):
        world.log().load()
    world.store.put(paths.commit(1), b"{")
    with pytest.raises(LogDamaged, match=r"commits/0*1\.json"):
        list(world.log().entries())
