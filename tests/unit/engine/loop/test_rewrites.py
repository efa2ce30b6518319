"""Objects take the place of others by one entry: whatever dies, whatever answer is lost, each record counts in exactly one object."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import live_objects, read_checkpoint
from kafka_s3.engine.log.rewrites import rewrite_requests
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges, plan_merges
from kafka_s3.model.errors import Fenced, StorageError, StorageUnavailable
from kafka_s3.model.files import Role
from kafka_s3.ops.positions import write_positions
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.faults import Fault, Moment, raising
from tests.support.deaths import Died, strikes
from tests.support.memory_world import ORDERS, World, world_of

MINUTE_MS = 60_000
GRACE_MS = 3_600_000
CONFIG = {"rewrite.grace.ms": str(GRACE_MS)}
ENTRY = "/commits/00000000000000000004.json"
"""The rewrite's, after another start."""
MERGED = "topics/orders/partition=0/orders+0+0000000000-0000000011."


def ask(
    world: World, *, store: ObjectStore | None = None, by: str = "compact/1", target: int = 1 << 20
) -> list[CommitEntry]:
    """Merges all that can be, as `kafka-s3 compact` does beside a sink."""
    log = world.log()
    entries = list(log.entries())
    rules = CompactionRules(target, until_ms=world.now + 1)
    merges = plan_merges(live_objects(entries).values(), rules)
    compactor = compactor_of(world.settings, store or world.store)
    return list(
        ask_for_merges(
            compactor, log.paths, merges, version=entries[-1].version, by=by, skipped=lambda merge, error: None
        )
    )


def filled(**config: str) -> World:
    """Four objects of three records each."""
    world = world_of(3, **CONFIG, **config)
    world.start()
    world.add(range(12))
    assert world.sink.poll_and_commit()
    return world


def later(world: World, ms: int = MINUTE_MS) -> None:
    world.now += ms
    world.sink.rewrites.notice(str(world.now))
    assert world.sink.poll_and_commit()


def until_all_is_done(world: World) -> None:
    for _ in range(6):
        world.now += GRACE_MS // 2
        world.sink.rewrites.notice(str(world.now))
        world.sink.poll_and_commit()


def counted_records(world: World) -> list[int]:
    """The records of the objects that count, each of which is visible."""
    live = [one for one in live_objects(world.entries()).values() if one.file.role is Role.VALUE]
    objects = world.objects()
    return sorted(
        row["n"] for one in live for row in objects[one.file.key] if one.until is None or row["n"] < one.until
    )


def rewrites(world: World) -> list[CommitEntry]:
    return [entry for entry in world.entries() if entry.kind is EntryKind.REWRITE]


def assert_nothing_is_left(world: World) -> None:
    assert world.store.uploads == {}
    assert list(rewrite_requests(world.store, world.log().paths)) == []


def test_a_running_sink_puts_what_is_asked_for_into_its_log_and_is_not_fenced() -> None:
    world = filled()
    (request,) = ask(world)
    later(world)

    (entry,) = rewrites(world)
    assert (entry.commit_id, entry.epoch, entry.driver) == (request.commit_id, 1, "compact/1")
    (swap,) = entry.swaps
    assert (len(swap.keys), swap.records, len(swap.digest)) == (4, 12, 32)
    assert swap.by.startswith(MERGED)
    assert world.numbers()[swap.by] == list(range(12))
    assert counted_records(world) == list(range(12))
    assert_nothing_is_left(world)

    world.add(range(12, 15))
    later(world)
    assert counted_records(world) == list(range(15))
    assert world.log().load().totals.written == 15


def test_originals_are_deleted_once_their_grace_is_over_and_the_log_says_so() -> None:
    world = filled()
    ask(world)
    later(world)
    assert len(world.objects()) == 5
    later(world, GRACE_MS - MINUTE_MS)
    assert len(world.objects()) == 5
    later(world, MINUTE_MS)

    assert [key.startswith(MERGED) for key in world.objects()] == [True]
    made, deleted = rewrites(world)
    assert (deleted.deleted, deleted.files) == ((made.version,), ())
    assert world.log().load().replaced == {}
    assert counted_records(world) == list(range(12))


def test_the_next_start_deletes_what_the_last_driver_did_not() -> None:
    world = filled()
    ask(world)
    later(world)
    world.now += GRACE_MS
    world.start([strikes("delete", "0000000003.json", Moment.AFTER)])
    with pytest.raises(Died):
        world.sink.poll_and_commit()
    world.start()
    later(world)
    assert list(world.numbers().values()) == [list(range(12))]


def test_a_checkpoint_remembers_what_is_to_be_deleted() -> None:
    from kafka_s3.engine.log.fold import checkpoint_json

    world = filled()
    ask(world)
    later(world)
    log = world.log()
    log.load()
    assert log.last is not None
    content = checkpoint_json(log.state, log.last)
    assert json.loads(content)["format"] == 3
    assert read_checkpoint(content, key="c") == (log.state, log.last)
    assert list(log.state.replaced) == [log.state.version]


def test_where_the_bucket_lets_nobody_delete_the_sink_goes_on() -> None:
    world = filled()
    ask(world)
    later(world)
    refused = Fault(
        "delete", raising(StorageError("AccessDenied.")), nth=None, matches=lambda key: key.startswith("topics/")
    )
    world.start([refused])
    world.add(range(12, 15))
    later(world, GRACE_MS)
    assert counted_records(world) == list(range(15))
    assert len(rewrites(world)) == 1
    world.start()
    later(world, GRACE_MS)
    assert len(rewrites(world)) == 2


def test_originals_stay_as_long_as_what_replaces_them_cannot_be_seen() -> None:
    world = filled()
    ask(world)
    slow = Fault(
        "complete_upload",
        raising(StorageUnavailable("throttled")),
        nth=None,
        matches=lambda key: key.startswith(MERGED),
    )
    world.start([slow])
    world.sink.poll_and_commit()
    world.now += GRACE_MS
    world.sink.poll_and_commit()
    assert world.log().load().replaced
    assert len(world.objects()) == 4
    world.start()
    later(world)
    assert list(world.numbers().values()) == [list(range(12))]


def test_of_two_requests_for_the_same_objects_one_is_done() -> None:
    world = filled()
    first, second = ask(world), ask(world, by="compact/2")
    later(world)
    assert len(rewrites(world)) == 1
    assert rewrites(world)[0].commit_id in {first[0].commit_id, second[0].commit_id}
    assert_nothing_is_left(world)
    assert counted_records(world) == list(range(12))


def test_a_request_does_not_outlive_a_position_that_was_set_back() -> None:
    world = filled()
    ask(world)
    write_positions(world.log(), world.kafka, {ORDERS: 3})
    world.start()
    later(world)
    assert rewrites(world) == []
    assert counted_records(world) == list(range(12))
    assert_nothing_is_left(world)


def test_originals_are_left_alone_once_their_offsets_are_read_again_under_the_same_keys() -> None:
    world = filled()
    ask(world)
    later(world)
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    world.start()
    later(world, 2 * GRACE_MS)
    assert counted_records(world) == list(range(12))
    assert len(world.numbers()) == 5


def test_a_driver_that_was_held_up_and_overtaken_deletes_no_object_that_was_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_s3.engine.loop.rewrites.THREADS", 1)
    world = filled()
    ask(world)
    later(world)
    world.now += GRACE_MS

    def overtake(_: str) -> None:
        held_up = world.sink
        world.now += 10_000
        write_positions(world.log(), world.kafka, {ORDERS: 0})
        world.start()
        assert world.sink.poll_and_commit()
        world.sink = held_up

    world.start([Fault("delete", overtake, Moment.AFTER, 1, lambda key: key.endswith("0000000000.json"))])
    with pytest.raises(Fenced):
        world.sink.poll_and_commit()
    assert counted_records(world) == list(range(12))


def test_original_that_became_another_object_before_its_deletion_stays() -> None:
    world = filled()
    ask(world)
    later(world)
    world.now += GRACE_MS
    first, second = [key for key in sorted(world.objects()) if not key.startswith(MERGED)][:2]
    world.start([Fault("delete", lambda key: world.store.put(key, b"{}") and None, matches=lambda key: key == first)])
    assert world.sink.poll_and_commit()
    assert world.store.objects[first] == b"{}"
    assert second not in world.objects()
    assert world.log().load().replaced == {}


def test_entry_times_never_decrease_if_the_next_drivers_clock_is_behind() -> None:
    world = filled()
    world.now -= GRACE_MS
    world.start()
    world.add(range(12, 15))
    assert world.sink.poll_and_commit()
    world.now += 2 * GRACE_MS
    world.start()
    times = [entry.committed_at for entry in world.entries()]
    assert times == sorted(times)
    assert len(set(times)) == 2


@pytest.mark.parametrize("fast", ["driver", "store"])
def test_originals_stay_until_grace_is_over_by_the_drivers_and_the_stores_clock(fast: str) -> None:
    world = world_of(3, **CONFIG)
    ahead = {"driver": 0, "store": 0}
    world.store = MemoryStore(lambda: world.now + ahead["store"])
    world.start()
    world.add(range(12))
    assert world.sink.poll_and_commit()
    ask(world)
    later(world)
    ahead[fast] = 2 * GRACE_MS
    sink = world.sink
    sink.log.clock_ms = sink.rewrites.log.clock_ms = lambda: world.now + ahead["driver"]
    later(world)
    assert len(world.objects()) == 5
    ahead[fast] = 0
    later(world, GRACE_MS)
    assert len(world.objects()) == 1


def test_a_lost_upload_of_a_rewrite_is_made_again_from_the_originals() -> None:
    world = filled()
    ask(world)

    def lose(key: str) -> None:
        for upload_id, upload in world.store.uploads.items():
            world.store.abort_upload(upload.key, upload_id)

    world.start([Fault("put_new", lose, Moment.AFTER, matches=lambda key: key.endswith(ENTRY))])
    later(world)
    assert len(rewrites(world)) == 1
    assert counted_records(world) == list(range(12))
    assert_nothing_is_left(world)


def test_a_request_whose_uploads_are_gone_is_refused_before_it_counts() -> None:
    world = filled()
    ask(world)
    for upload_id, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, upload_id)
    later(world)
    assert rewrites(world) == []
    assert_nothing_is_left(world)


def test_a_request_about_another_log_is_refused() -> None:
    world = filled()
    (request,) = ask(world)
    paths = state_paths(world.settings)
    world.store.put(paths.rewrite_request(request.commit_id), replace(request, version=99).to_json())
    later(world)
    assert rewrites(world) == []
    assert_nothing_is_left(world)


def test_a_failed_tasks_leftovers_are_ended_without_those_of_a_request_in_the_making() -> None:
    world = filled()
    compactor = compactor_of(world.settings, world.store)
    (merge,) = plan_merges(live_objects(world.entries()).values(), CompactionRules(1 << 20, world.now + 1))
    (file,), _ = compactor.merged(merge, rewrite="0123abcd")
    world.start()  # suspects what the last driver left
    later(world)
    assert list(world.store.uploads) == [file.upload.id]


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("put_new", ENTRY), ("complete_upload", MERGED), ("put", "/published/"), ("delete", "/rewrites/"),
        ("delete", "0000000000.json"), ("delete", "0000000009.json"),
    ],
)  # fmt: skip
def test_a_death_anywhere_leaves_nothing_lost_nothing_twice_and_nothing_behind(
    verb: str, key: str, moment: Moment
) -> None:
    world = filled()
    ask(world)
    world.start([strikes(verb, key, moment)])
    with pytest.raises(Died):
        until_all_is_done(world)
    world.start()
    until_all_is_done(world)
    assert list(world.numbers().values()) == [list(range(12))]
    assert [len(entry.swaps) for entry in rewrites(world)] == [1, 0]
    assert_nothing_is_left(world)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("put_new", ENTRY),
        ("complete_upload", MERGED),
        ("delete", "/rewrites/"),
        ("delete", "topics/"),
        ("list", "/rewrites/"),
    ],
)
def test_a_refused_call_or_a_lost_answer_is_tried_again(verb: str, key: str, moment: Moment) -> None:
    world = filled()
    ask(world)
    once = Fault(verb, raising(StorageUnavailable("told to fail")), moment, 1, lambda at: key in at)
    world.start([once])
    until_all_is_done(world)
    assert list(world.numbers().values()) == [list(range(12))]
    assert_nothing_is_left(world)


def test_a_sink_that_nobody_asks_does_not_look() -> None:
    world = filled()
    world.sink.poll_and_commit()
    del world.calls[:]
    for _ in range(100):
        world.now += MINUTE_MS
        assert world.sink.poll_and_commit()
    assert world.calls == []
