"""Damage in a log is found wherever it still counts, with the offsets that the entry held, and looked for at a bounded price."""

from __future__ import annotations

import pytest

from kafka_s3.engine.control import damage
from kafka_s3.engine.control.damage import AGAIN_MS, DamageSearch, DamageWatch
from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Phase
from kafka_s3.engine.control.status import SinkState, all_snapshots, check_sink, health, snapshot_of, whole_snapshot_of
from kafka_s3.engine.log.log import CHECKPOINT_EVERY
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3_testing.faults import FaultyStore
from tests.support.memory_world import World

PATHS = StatePaths("_kafka_s3", "orders")


def worked(entries: int) -> World:
    """A running sink with a heartbeat and a checkpoint behind its first entries, three records an entry."""
    world = World({"flush.size": "3"})
    writer = HeartbeatWriter(world.store, PATHS, interval_ms=10_000, clock_ms=lambda: world.now)
    sink = world.start(observer=writer)
    for turn in range(entries):
        world.add(range(3 * turn, 3 * turn + 3))
        assert sink.poll_and_commit()
    writer.doing(Phase.RUNNING, "")
    writer.beat()
    return world


def entry_with(world: World, offset: int) -> int:
    return next(
        one.version for one in world.entries() if any(f.first_offset <= offset <= f.last_offset for f in one.files)
    )


def test_a_damaged_entry_behind_the_checkpoint_is_red_in_check_status_and_watch_and_its_offsets_are_shown() -> None:
    """The state begins at the newest checkpoint, and a glance at the heartbeat's entry: both were green."""
    world = worked(CHECKPOINT_EVERY + 20)
    version = entry_with(world, 15)
    world.store.put(PATHS.commit(version), b"{broken")
    assert health(snapshot_of(world.store, PATHS, seen_ms=world.now)).state is SinkState.RUNNING
    line, well = check_sink(world.store, PATHS, seen_ms=world.now)
    assert not well
    assert line.startswith("orders DEGRADED")
    assert f"{PATHS.commit(version)} is damaged" in line
    assert "the offsets that its neighbours leave out: orders-0 15 to 17" in line
    watch = DamageWatch(world.store)
    (seen,) = all_snapshots(world.store, "_kafka_s3", seen_ms=world.now, watch=watch)
    assert (health(seen).state, health(seen).well) == (SinkState.DEGRADED, False)
    assert "orders-0 15 to 17" in whole_snapshot_of(world.store, PATHS, seen_ms=world.now).damage


def test_entries_that_are_missing_are_reported_with_the_offsets_of_all_of_them() -> None:
    world = worked(10)
    first = entry_with(world, 9)
    for version in (first, first + 1):
        world.store.delete(PATHS.commit(version))
    (found,) = DamageSearch(world.store, PATHS).find()
    assert (found.first, found.last) == (first, first + 1)
    assert "is missing" in str(found)
    assert f"So are the entries up to {first + 1}." in str(found)
    assert "orders-0 9 to 14" in str(found)


def test_what_the_state_already_says_is_not_shown_twice() -> None:
    world = worked(5)
    world.store.put(PATHS.commit(entry_with(world, 6)), b"{broken")
    known = whole_snapshot_of(world.store, PATHS, seen_ms=world.now)
    assert known.damage.count("is damaged") == 1
    assert "orders-0 6 to 8" in known.damage


def test_a_restored_entry_is_well_again_and_what_was_read_is_not_read_again() -> None:
    world = worked(20)
    version = entry_with(world, 15)
    content = world.store.get(PATHS.commit(version))
    world.store.put(PATHS.commit(version), b"{broken")
    asked = FaultyStore(world.store)
    watch = DamageWatch(asked)
    assert watch.damaged_entries(PATHS, 0)
    world.store.put(PATHS.commit(version), content)
    assert watch.damaged_entries(PATHS, 1) == []
    calls = len(asked.calls)
    assert watch.damaged_entries(PATHS, 2) == []
    assert len(asked.calls) == calls, "no more than once in AGAIN_MS"
    assert watch.damaged_entries(PATHS, 2 + AGAIN_MS) == []
    assert len(asked.calls) == calls + 2, "the manifest and a listing: every entry is known to be sound"


def test_of_a_log_without_closed_stretches_the_newest_entries_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "MOST_ENTRIES", 5)
    world = worked(20)
    world.store.put(PATHS.commit(2), b"{broken")
    assert DamageSearch(world.store, PATHS).find() == []
    world.store.put(PATHS.commit(19), b"{broken")
    assert [one.first for one in DamageSearch(world.store, PATHS).find()] == [19]
