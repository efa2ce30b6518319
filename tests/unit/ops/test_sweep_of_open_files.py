"""A sweep leaves alone what a sink goes on with, and removes what nobody goes on with, uploads and all."""

from __future__ import annotations

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.model.files import Reason
from kafka_s3.ops.sweep import Swept, UploadState, sweeper_of
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.open_files import world_with_open_files
from tests.support.pending_uploads import DAY_MS, OldUploads


def test_a_sweep_of_any_age_leaves_what_the_sink_goes_on_with() -> None:
    world = world_with_open_files()
    world.now += 30 * DAY_MS
    swept = sweeper_of(world.settings, OldUploads(world.store), clock_ms=lambda: world.now)
    judged = swept.judged(older_than_ms=0)

    assert [one.verdict for one in judged] == [UploadState.OPEN]
    assert swept.sweep(older_than_ms=0) == Swept(tuple(judged), 0, 0, done=True)
    world.add(range(4, 6))
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.numbers().values()) == [list(range(6))]


def test_a_state_that_is_noted_nowhere_is_kept_while_it_is_young_and_removed_later() -> None:
    world = world_with_open_files()
    paths: StatePaths = state_paths(world.settings)
    world.store.delete(paths.open_files())
    kept = OpenFileStates(world.store, paths)
    (upload_id,) = world.store.uploads
    young, old = world.now + DAY_MS - 1, world.now + DAY_MS

    assert {number for _, number in kept.uploads_in_use(younger_than_ms=DAY_MS, now_ms=young)} == {upload_id}
    assert kept.remove_overtaken(older_than_ms=DAY_MS, now_ms=young) == 0
    assert kept.uploads_in_use(younger_than_ms=DAY_MS, now_ms=old) == set()
    assert kept.remove_overtaken(older_than_ms=DAY_MS, now_ms=old) == 1
    assert not list(world.store.list(paths.open_states()))


def test_a_sink_that_is_deleted_with_its_log_leaves_nothing_of_its_open_files() -> None:
    world = world_with_open_files()
    paths = state_paths(world.settings)

    assert OpenFileStates(world.store, paths).remove_all() == 1
    assert world.store.uploads == {}
    assert not list(world.store.list(paths.open_states()))


def test_uploads_that_a_younger_state_goes_on_with_are_spared() -> None:
    world = world_with_open_files()
    paths = state_paths(world.settings)
    (first,) = list(world.store.list(paths.open_states()))
    left = world.store.get(first.key)
    world.now += DAY_MS
    world.add(range(4, 8))
    world.sink.poll_and_commit()
    world.store.put(f"{first.key}-left", left)  # by a driver that died before it could remove it
    world.now += DAY_MS
    kept = OpenFileStates(world.store, paths)

    assert kept.remove_overtaken(older_than_ms=DAY_MS, now_ms=world.now) == 1
    world.add(range(8, 10))
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.numbers().values()) == [list(range(10))]
    assert [entry.totals.read for entry in world.entries() if entry.totals.read] == [10]
