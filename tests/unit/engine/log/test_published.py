"""What was published once is the bucket's: no start touches it again, whatever became of it since."""

from __future__ import annotations

import json

import pytest

from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.model.errors import Fenced, LogDamaged, OffsetsLost, StorageUnavailable
from kafka_s3.model.files import Upload
from kafka_s3.model.offsets import Gap
from kafka_s3_testing.faults import Fault, Moment, failure, raising
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TOLERANT
from tests.support.memory_world import ORDERS, World, world_of

EVERY = 20
"""Entries to a checkpoint, here."""
FIRST = "topics/orders/partition=0/orders+0+0000000000.json"
SECOND = "topics/orders/partition=0/orders+0+0000000003.json"


def world_with_an_object(**config: str) -> World:
    world = world_of(3, **config)
    world.start()
    world.add(range(3))
    world.sink.poll_and_commit()
    return world


def is_marker(key: str) -> bool:
    return "/published/" in key


def rewrite_in_place(world: World, key: str, content: bytes) -> None:
    upload = world.store.create_upload(key)
    part = world.store.upload_part(key, upload, 1, content)
    world.store.complete_upload(Upload(key, upload, (part,), len(content)))


def abort_all(world: World) -> None:
    for upload_id, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, upload_id)


@pytest.mark.parametrize("lost", ["fail", "gap"])
@pytest.mark.parametrize("kept", [True, False])
def test_an_object_that_was_deleted_since_stays_away(lost: str, kept: bool) -> None:
    world = world_with_an_object(**{"behavior.on.lost.offsets": lost})
    world.store.delete(FIRST)
    if not kept:
        world.kafka.trim(ORDERS, start=3)  # retention: every start failed
    world.start()
    world.add(range(3, 6))
    assert world.sink.poll_and_commit()

    assert world.numbers() == {SECOND: [3, 4, 5]}
    assert not [gap for entry in world.entries() for gap in entry.gaps]


def test_an_object_that_was_rewritten_in_place_keeps_its_new_content() -> None:
    world = world_with_an_object()
    rewrite_in_place(world, FIRST, b'{"n":"compacted"}\n')
    world.start()

    assert world.store.get(FIRST) == b'{"n":"compacted"}\n'


def test_a_start_asks_for_nothing_of_a_published_entry_but_its_marker() -> None:
    world = world_with_an_object()
    world.start()

    touched = [(verb, key) for verb, key in world.calls if key == FIRST or is_marker(key)]
    assert touched == [("get", f"{STATE}orders/published/{1:020d}.json")]


@pytest.mark.parametrize("verb", ["complete_upload", "put"])
def test_a_driver_that_dies_before_the_marker_leaves_the_rest_to_the_next(verb: str) -> None:
    world = World({"flush.size": "3"})
    matches = is_marker if verb == "put" else (lambda key: True)
    world.start([failure(verb, None, matches=matches)])
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    assert not any(map(is_marker, world.store.objects))
    world.start()

    assert world.numbers() == {FIRST: [0, 1, 2]}
    assert any(map(is_marker, world.store.objects))


def test_where_only_the_marker_failed_the_objects_are_not_touched_again() -> None:
    world = World({"flush.size": "3"})
    world.start([failure("put", 1, matches=is_marker)])
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    world.store.delete(FIRST)
    assert world.sink.poll_and_commit()

    assert world.numbers() == {}
    assert any(map(is_marker, world.store.objects))


def test_a_marker_of_a_log_that_was_deleted_says_nothing() -> None:
    world = world_with_an_object()
    for key in [key for key in world.store.objects if "/commits/" in key or key == FIRST]:
        world.store.delete(key)
    world.start([failure("complete_upload", None)])
    assert not world.sink.poll_and_commit()  # entry 2 of epoch 1 once more
    world.start()

    assert world.numbers() == {FIRST: [0, 1, 2]}


def test_a_damaged_marker_is_named_with_what_deleting_it_means() -> None:
    world = world_with_an_object()
    world.store.put(key := f"{STATE}orders/published/{1:020d}.json", b"[")

    with pytest.raises(LogDamaged, match=rf"{key}.*Delete it"):
        world.start()


def test_a_driver_that_was_replaced_takes_no_marker_back() -> None:
    world = world_with_an_object()
    first = world.sink
    world.add(range(3, 6))
    world.sink.poll()

    def replaced(key: str) -> None:
        world.start()
        world.add(range(6, 9))
        world.sink.poll_and_commit()

    first.log.store = FaultyAt(world, replaced)  # type: ignore[assignment]
    with pytest.raises(Fenced):
        first.poll_and_commit()
    world.store.delete(f"{FIRST[:-15]}0000000006.json")
    world.start()

    assert sorted(world.numbers()) == [FIRST, SECOND]


class FaultyAt:
    """The world's store, where something happens before the marker is put."""

    def __init__(self, world: World, strike: object) -> None:
        self.inner, self.strike = world.store, strike

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def put(self, key: str, data: bytes) -> str:
        if is_marker(key):
            self.strike(key)  # type: ignore[operator]
        return self.inner.put(key, data)


# ------------------------------------------------------------ what is lost for good


def lost_for_good(**config: str) -> World:
    """The last entry's upload is gone, and so are its records."""
    world = World({"flush.size": "3", **config})
    world.start([failure("complete_upload", None)])
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    abort_all(world)
    world.kafka.trim(ORDERS, start=3)
    return world


def test_records_that_are_nowhere_any_more_stop_the_sink_with_two_ways_out() -> None:
    expected = r"offsets 0 to 2.*behavior\.on\.lost\.offsets=gap.*kafka-s3 position set"
    with pytest.raises(OffsetsLost, match=expected):
        lost_for_good().start()


def test_under_gap_the_next_start_records_them_and_goes_on() -> None:
    world = lost_for_good(**{"behavior.on.lost.offsets": "gap"})
    world.start()
    world.add(range(3, 6))
    assert world.sink.poll_and_commit()
    world.start()

    gaps = [(entry.kind, gap) for entry in world.entries() for gap in entry.gaps]
    assert gaps == [(EntryKind.EPOCH, Gap("orders", 0, 0, 2, "unpublished"))]
    assert world.numbers() == {SECOND: [3, 4, 5]}


def test_under_gap_a_running_sink_records_them_and_goes_on() -> None:
    world = World({"flush.size": "3", "behavior.on.lost.offsets": "gap"})

    def lose(key: str) -> None:
        abort_all(world)
        world.kafka.trim(ORDERS, start=3)

    world.start([Fault("put_new", lose, Moment.AFTER, 3)])
    world.add(range(6))
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()

    gaps = [(entry.kind, gap) for entry in world.entries() for gap in entry.gaps]
    assert gaps == [(EntryKind.POSITION, Gap("orders", 0, 0, 2, "unpublished"))]
    assert world.numbers() == {SECOND: [3, 4, 5]}


def test_a_topic_that_is_gone_with_its_last_upload_is_a_gap_too() -> None:
    world = lost_for_good(**{"behavior.on.lost.offsets": "gap"})
    del world.kafka.records[ORDERS], world.kafka.begins[ORDERS]
    world.start()

    assert [gap for entry in world.entries() for gap in entry.gaps] == [Gap("orders", 0, 0, 2, "unpublished")]


# ------------------------------------------------------------ uploads of those who lost, checkpoints


def test_a_driver_that_lost_the_sink_takes_its_uploads_with_it() -> None:
    world = world_with_an_object()
    first = world.sink
    world.start()
    world.add(range(3, 6))
    with pytest.raises(Fenced):
        first.poll_and_commit()

    assert world.store.uploads == {}


@pytest.mark.parametrize("commits", [0, 1])
def test_starts_alone_write_checkpoints_too(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.log.CHECKPOINT_EVERY", EVERY)
    world = World({"flush.size": "1"})
    for offset in range((EVERY + 4) // (1 + commits)):
        world.start()
        if commits:
            world.add([offset])
            world.sink.poll_and_commit()
    found = sorted(key for key in world.store.objects if "/checkpoints/" in key)
    world.start()
    entries = [key for verb, key in world.calls if verb == "get" and "/commits/" in key]

    assert len(found) == 1
    assert len(set(entries)) < EVERY
    assert world.sink.log.state.version == EVERY + 5


def test_a_checkpoint_that_fails_is_made_good_by_the_next_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.log.CHECKPOINT_EVERY", EVERY)
    world = World({"flush.size": "1"})
    world.start(
        [Fault("put", raising(StorageUnavailable("told to")), nth=1, matches=lambda key: "/checkpoints/" in key)]
    )
    for offset in range(EVERY):
        world.add([offset])
        assert world.sink.poll_and_commit()

    assert [key[-10:] for key in world.store.objects if "/checkpoints/" in key] == [f"{EVERY:05d}.json"]


def test_the_marker_of_dead_letters_alone_is_written_too() -> None:
    world = World({"flush.size": "100", **TOLERANT, "tail.check.interval.ms": "0"})
    world.start()
    world.kafka.add(ORDERS, MemoryRecord(0, world.now, None, b"{"))
    world.sink.poll_and_commit()

    (marker,) = [data for key, data in world.store.objects.items() if is_marker(key)]
    assert json.loads(marker)["version"] == 2
