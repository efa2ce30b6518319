"""Which pending uploads does a sweep abort, and which must it never touch?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.engine.open_files.states import HintUnusable
from kafka_s3.model.errors import ConfigError, LogDamaged, StorageError, StorageUnavailable
from kafka_s3.ops.sweep import (
    JudgedUpload,
    Sweeper,
    UploadState,
    age_text,
    duration_ms,
    judge,
    summary,
    sweeper_of,
)
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ListedUpload, ObjectStore
from kafka_s3_testing.faults import Fault, FaultyStore, Verb, failure
from tests.support.memory_world import START_MS, World, settings_of
from tests.support.pending_uploads import DAY_MS, OldUploads


def sweeper(config: dict[str, str], store: ObjectStore) -> Sweeper:
    return sweeper_of(settings_of(config), OldUploads(store), clock_ms=lambda: START_MS)


CONFIG = {"flush.size": "2"}


def test_what_crashed_tasks_left_below_data_and_state_is_aborted() -> None:
    bucket = MemoryStore()
    for key in (
        "topics/orders/partition=0/orders+0+0000000004.json",
        "topics/orders/d=a/b=c/orders+12+0000000004.keys.avro",
        "_kafka_s3/orders/dead-letters/orders/orders+0+0000000007.jsonl.gz",
    ):
        bucket.create_upload(key)
    swept = sweeper(CONFIG, bucket)
    judged = swept.judged(older_than_ms=DAY_MS)
    assert [one.verdict for one in judged] == [UploadState.ABANDONED] * 3
    assert swept.abort(judged) == 3
    assert bucket.uploads == {}


@pytest.mark.parametrize(
    "key",
    [
        "topics/payments/partition=0/payments+0+0000000004.json",  # another sink's topic
        "topics/orders-eu/partition=0/orders-eu+0+0000000004.json",
        "topics/orders/partition=0/payments+0+0000000004.json",
        "topics/orders/report.csv",
        "topics/orders/orders+0+0000000004.json/export.bin",
        "elsewhere/orders/partition=0/orders+0+0000000004.json",
        "_kafka_s3/orders2/dead-letters/x",  # another sink's state
        "_kafka_s3/payments/commits/00000000000000000001.json",
    ],
)
def test_uploads_that_are_not_this_sinks_are_neither_shown_nor_aborted(key: str) -> None:
    bucket = MemoryStore()
    bucket.create_upload(key)
    swept = sweeper(CONFIG, bucket)
    judged = swept.judged(older_than_ms=DAY_MS)
    assert judged == []
    swept.abort(judged)
    assert len(bucket.uploads) == 1


def test_a_topic_that_only_the_log_knows_is_this_sinks_too() -> None:
    world = World(CONFIG)
    world.start()
    world.store.create_upload("topics/orders/partition=0/orders+0+0000000009.json")
    later = {**CONFIG, "topics": "nothing-any-more"}
    judged = sweeper(later, world.store).judged(older_than_ms=DAY_MS)
    assert [one.verdict for one in judged] == [UploadState.ABANDONED]


def test_young_uploads_stay_for_a_running_sink_may_commit_them() -> None:
    bucket = MemoryStore()
    listed = OldUploads(bucket)
    old = bucket.create_upload("topics/orders/partition=0/orders+0+0000000004.json")
    young = bucket.create_upload("topics/orders/partition=0/orders+0+0000000008.json")
    listed.starts = {young: START_MS - DAY_MS + 1, old: START_MS - DAY_MS}
    swept = sweeper_of(settings_of(CONFIG), listed, clock_ms=lambda: START_MS)
    judged = swept.judged(older_than_ms=DAY_MS)
    assert {one.upload.id: one.verdict for one in judged} == {old: UploadState.ABANDONED, young: UploadState.YOUNG}
    swept.abort(judged)
    assert list(bucket.uploads) == [young]


def crashed_before_completing(world: World) -> list[str]:
    """Runs a sink that dies between commit and publication; gives the uploads that wait."""
    sink = world.start([failure(Verb.COMPLETE_UPLOAD, nth=None)])
    world.add(range(2))
    sink.poll()
    with pytest.raises(StorageUnavailable):
        sink.commit_due()
    return list(world.store.uploads)


def test_the_uploads_of_the_last_commit_entry_stay_however_old() -> None:
    world = World(CONFIG)
    waiting = crashed_before_completing(world)
    assert len(waiting) == 1
    world.store.create_upload("topics/orders/partition=0/orders+0+0000000900.json")
    swept = sweeper(CONFIG, world.store)
    judged = swept.judged(older_than_ms=DAY_MS)
    assert {one.upload.id for one in judged if one.verdict is UploadState.COMMITTED} == set(waiting)
    swept.abort(judged)
    assert list(world.store.uploads) == waiting
    world.start()
    assert world.store.uploads == {}
    assert world.numbers() == {"topics/orders/partition=0/orders+0+0000000000.json": [0, 1]}


def test_an_upload_that_is_committed_while_the_sweep_lists_stays() -> None:
    world = World(CONFIG)

    def commit(key: str) -> None:
        crashed_before_completing(world)

    meanwhile = Fault(Verb.PENDING, commit, matches=lambda key: key.startswith("topics/"))
    judged = sweeper(CONFIG, FaultyStore(world.store, [meanwhile])).judged(older_than_ms=DAY_MS)
    assert [one.verdict for one in judged] == [UploadState.COMMITTED]


def test_another_upload_of_a_committed_key_is_abandoned() -> None:
    world = World(CONFIG)
    (waiting,) = crashed_before_completing(world)
    key = world.store.uploads[waiting].key
    twin = world.store.create_upload(key)
    judged = sweeper(CONFIG, world.store).judged(older_than_ms=DAY_MS)
    assert {one.upload.id: one.verdict for one in judged} == {
        waiting: UploadState.COMMITTED,
        twin: UploadState.ABANDONED,
    }


def test_without_a_log_only_age_keeps_an_upload() -> None:
    upload = ListedUpload("k", "u", START_MS - 10)
    (kept,) = judge([upload], None, younger_than_ms=11, now_ms=START_MS)
    (abandoned,) = judge([upload], None, younger_than_ms=10, now_ms=START_MS)
    assert (kept.verdict, abandoned.verdict) == (UploadState.YOUNG, UploadState.ABANDONED)


def test_without_the_right_to_list_the_error_names_it_and_nothing_is_aborted() -> None:
    error = StorageError("ListMultipartUploads on s3://bucket/ failed with AccessDenied (403).")
    refusing = FaultyStore(MemoryStore(), [failure(Verb.PENDING, error=error)])
    with pytest.raises(StorageError, match="s3:ListBucketMultipartUploads on the bucket itself"):
        sweeper(CONFIG, refusing).judged(older_than_ms=DAY_MS)


def test_a_damaged_log_stops_the_sweep() -> None:
    bucket = MemoryStore()
    bucket.put(f"_kafka_s3/orders/commits/{0:020d}.json", b"{")
    bucket.create_upload("topics/orders/partition=0/orders+0+0000000004.json")
    with pytest.raises(LogDamaged):
        sweeper(CONFIG, bucket).judged(older_than_ms=DAY_MS)
    assert len(bucket.uploads) == 1


def test_a_refused_abort_is_an_error() -> None:
    bucket = MemoryStore()
    bucket.create_upload("topics/orders/partition=0/orders+0+0000000004.json")
    refusing = FaultyStore(bucket, [failure(Verb.ABORT_UPLOAD, error=StorageError("Grant s3:AbortMultipartUpload"))])
    swept = sweeper(CONFIG, refusing)
    with pytest.raises(StorageError, match="s3:AbortMultipartUpload"):
        swept.abort(swept.judged(older_than_ms=DAY_MS))


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("30m", 1_800_000), ("24h", DAY_MS), ("7d", 7 * DAY_MS)])
def test_ages_have_a_unit(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    assert duration_ms(age_text(ms)) == ms or text in ("90s",)


@pytest.mark.parametrize("text", ["24", "h", "-1h", "0h", "1w", "1.5h", ""])
def test_an_age_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--older-than"):
        duration_ms(text)


def test_the_totals_say_what_was_and_what_would_be_aborted() -> None:
    judged = [JudgedUpload(ListedUpload("k", str(n), 0), verdict) for n, verdict in enumerate(UploadState)]
    kept = "1 young and kept, 1 committed and kept, 1 of open files and kept"
    assert summary(judged, 1) == f"4 pending uploads of this sink: 1 aborted, {kept}"
    assert "1 would be aborted (--dry-run)" in summary(judged, 0)


KEEPING = {
    "rotate.schedule.interval.ms": "864000000",
    "timezone": "UTC",
    "tail.state.enable": "true",
    "tail.read.records": "1",
}


def world_with_a_state_that_could_not_be_deleted() -> World:
    """Two states with one upload: the first was overtaken by the second, which the sink goes on with."""
    world = World(KEEPING)
    world.kafka.pipeline = lambda: replace(make_pipeline(world.settings), part_size=30)
    world.start([failure(Verb.DELETE, None, matches=lambda key: "/open/" in key)])
    for first in (0, 10):
        world.add(range(first, first + 10))
        world.sink.poll_and_commit()
    assert len([key for key in world.store.objects if "/open/" in key]) == 2
    assert len(world.store.uploads) == 1
    return world


def test_a_state_that_was_overtaken_goes_and_its_upload_stays_with_its_successor() -> None:
    world = world_with_a_state_that_could_not_be_deleted()
    later = sweeper_of(world.settings, OldUploads(world.store), clock_ms=lambda: world.now + 2 * DAY_MS)
    assert [one.verdict for one in later.judged(older_than_ms=DAY_MS)] == [UploadState.OPEN]
    before = later.preview(older_than_ms=DAY_MS)
    done = later.sweep(older_than_ms=DAY_MS)
    assert [(one.states, one.lines()[1]) for one in (before, done)] == [
        (1, "1 states of open files that nobody goes on with: would be removed (--dry-run)"),
        (1, "1 states of open files that nobody goes on with: removed"),
    ]
    assert len([key for key in world.store.objects if "/open/" in key]) == len(world.store.uploads) == 1
    assert later.sweep(older_than_ms=DAY_MS).states == 0


def test_a_note_of_open_files_that_cannot_be_read_keeps_the_sweep_from_removing_any() -> None:
    world = world_with_a_state_that_could_not_be_deleted()
    world.store.put(state_paths(world.settings).open_files(), b"[]")
    before = dict(world.store.objects)
    later = sweeper_of(world.settings, OldUploads(world.store), clock_ms=lambda: world.now + 2 * DAY_MS)
    with pytest.raises(HintUnusable, match="A start of the sink drops it"):
        later.sweep(older_than_ms=DAY_MS)
    assert (dict(world.store.objects), len(world.store.uploads)) == (before, 1)


def test_a_start_removes_a_state_that_was_overtaken_and_goes_on_with_the_upload() -> None:
    world = world_with_a_state_that_could_not_be_deleted()
    world.start()
    assert len([key for key in world.store.objects if "/open/" in key]) == 1
    assert len(world.store.uploads) == 1
