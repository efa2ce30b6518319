"""Offsets get other meanings while a sink works: does every reader agree with a model that knows records by a number of their own?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kafka_s3.engine.log.committed import committed_files
from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState, letters, read_ledger
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.restore.files import logged_files
from kafka_s3_testing.faults import Moment, failure
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.deaths import Died, strikes
from tests.support.memory_world import ORDERS, START_MS, World, rows
from tests.support.reset_schedules import GRACE_MS, PARTITIONS, Schedule
from tests.support.rewriting import ask_for_compaction
from tests.support.verifying import MemoryCluster, audited

SOME, MANY, CHUNK = 200, 5_200, 100
GAP = {"behavior.on.lost.offsets": "gap"}


# ------------------------------------------------------------ one reset at a time


def world_of(records: int = 10, **config: str) -> World:
    """A sink that has written this many records, each with a number that is its offset."""
    world = World({"flush.size": "5", "rewrite.grace.ms": str(GRACE_MS), **config})
    world.add(range(records))
    world.start()
    written(world)
    return world


def written(world: World) -> None:
    """Polls, and writes all that is there, once what was asked for is done."""
    world.sink.rewrites.look()
    assert world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)


def append(world: World, first: int, *numbers: int) -> None:
    """Appends records with these numbers from an offset on."""
    for offset, number in enumerate(numbers, first):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps({"n": number}).encode()))


def cut(world: World, at: int, *numbers: int) -> None:
    """The log is cut there and grows again, by one record for each number."""
    world.kafka.cut(ORDERS, at=at)
    append(world, at, *numbers)


def recreate(world: World, *numbers: int) -> None:
    """The topic is deleted and created again, with these records."""
    world.kafka.ids["orders"] = "another"
    world.kafka.records[ORDERS], world.kafka.begins[ORDERS] = [], 0
    world.kafka.cuts.pop(ORDERS, None)
    append(world, 0, *numbers)


def forget(world: World, number: int) -> None:
    """Erases the record of a number beside the sink."""
    subjects, store = subjects_of(None, f"n = {number}", None), world.store
    work = Forgetting(world.settings, store, subjects, lambda: world.now, lambda text: None, MemoryCluster(world.kafka))
    for request in work.requests(work.search()):
        ask_for_rewrite(store, work.log.paths, request)
    written(world)


def counted(world: World) -> list[int]:
    """The numbers of the records that count, in order."""
    found = list[int]()
    for one in committed_files(world.entries(), "orders"):
        assert one.values is not None
        found += [row["n"] for row in rows(one.values.key, world.store.objects[one.values.key])[: one.rows]]
    return sorted(found)


def last_of(world: World, kind: EntryKind) -> CommitEntry:
    return next(entry for entry in reversed(world.entries()) if entry.kind is kind)


def test_a_new_record_at_an_erased_offset_is_written_once_its_log_was_cut() -> None:
    world = world_of(**GAP)
    forget(world, 7)
    cut(world, 6, 106, 107, 108)
    written(world)
    assert counted(world) == [0, 1, 2, 3, 4, 5, 106, 107, 108]
    assert world.log().load().erased == {}
    assert audited(world).findings == ()


def test_a_new_record_at_an_erased_offset_is_written_after_a_move_by_hand_to_where_the_log_was_cut() -> None:
    world = world_of()
    forget(world, 7)
    cut(world, 6, 106, 107, 108)
    entry = write_positions(world.log(), world.kafka, {ORDERS: 6})
    assert entry is not None
    assert (entry.cuts, entry.form) == ({ORDERS: 6}, 5)
    world.start()
    written(world)
    assert counted(world) == [0, 1, 2, 3, 4, 5, 106, 107, 108]


def test_an_erased_offset_above_the_position_is_read_once_the_log_was_cut_before_it() -> None:
    world = world_of(**GAP)
    forget(world, 7)
    write_positions(world.log(), world.kafka, {ORDERS: 3})
    cut(world, 6, 106, 107, 108)
    world.start()
    written(world)
    assert counted(world) == [0, 1, 2, 3, 4, 5, 106, 107, 108]


def test_an_erased_record_stays_out_when_a_position_is_set_back_in_the_same_log() -> None:
    world = world_of()
    forget(world, 7)
    write_positions(world.log(), world.kafka, {ORDERS: 3})
    world.start()
    written(world)
    assert counted(world) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert world.log().load().erased == {ORDERS: OffsetSet(((7, 7),))}


def test_erased_offsets_of_a_topic_say_nothing_of_the_one_that_was_created_in_its_place() -> None:
    world = world_of(**GAP)
    forget(world, 2)
    recreate(world, *range(100, 115))
    written(world)
    written(world)
    files = committed_files(world.entries(), "orders")
    assert [(one.first_offset, len(one.erased)) for one in files] == [(0, 0), (5, 0), (10, 0)]
    write_positions(world.log(), world.kafka, {ORDERS: 4})
    world.start()
    written(world)
    table, _ = logged_files(read_history(world.store, world.log().paths), lambda tp: True)
    assert [(file.first_offset, file.wanted) for file in table.of(ORDERS)] == [(0, 4), (4, 5), (9, 5), (14, 1)]
    assert counted(world) == list(range(100, 115))


def test_originals_are_deleted_though_records_behind_them_were_read_again() -> None:
    world = world_of()
    ask_for_compaction(world, world.store)
    written(world)
    (swap,) = last_of(world, EntryKind.REWRITE).swaps
    append(world, 10, *range(10, 15))
    written(world)
    write_positions(world.log(), world.kafka, {ORDERS: 12})
    world.start()
    written(world)
    world.now += 2 * GRACE_MS
    written(world)
    assert not set(swap.keys) & world.store.objects.keys()
    assert world.log().load().replaced == {}
    assert counted(world) == list(range(15))


def test_originals_whose_names_later_objects_have_got_stay() -> None:
    world = world_of()
    ask_for_compaction(world, world.store)
    written(world)
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    world.start()
    written(world)
    world.now += 2 * GRACE_MS
    written(world)
    assert counted(world) == list(range(10))
    assert world.log().load().replaced == {}


def test_an_upload_that_is_lost_is_not_made_again_from_a_topic_that_was_created_since() -> None:
    other = TopicPartition("others", 0)
    world = World({"flush.size": "5", "topics": "orders,others", **GAP}, topics=(ORDERS, other))
    world.add(range(5))
    world.start()
    lose_uploads(world)
    recreate(world, *range(100, 103))
    world.add(range(5), tp=other)
    world.start()
    written(world)
    assert counted(world) == list(range(100, 103))
    assert world.log().load().frontier == {ORDERS: 3, other: 5}
    assert not world.sink.log.waiting


def test_an_upload_that_is_lost_is_given_up_once_its_offsets_are_another_topics() -> None:
    world = World({"flush.size": "5", **GAP})
    world.add(range(5))
    world.start([failure("complete_upload", None)])
    world.sink.poll_and_commit()
    recreate(world, 100, 101, 102)
    world.sink.poll_and_commit()
    for upload_id, upload in list(world.store.uploads.items()):
        world.store.abort_upload(upload.key, upload_id)
    world.start()
    written(world)
    assert counted(world) == [100, 101, 102]


def lose_uploads(world: World) -> None:
    """A driver dies behind an entry, and somebody ends the uploads that this names."""
    world.start([strikes("complete_upload", "", Moment.BEFORE)])
    with pytest.raises(Died):
        world.sink.poll_and_commit()
    for upload_id, upload in list(world.store.uploads.items()):
        world.store.abort_upload(upload.key, upload_id)


def test_what_was_read_beside_the_loop_does_not_count_for_a_topic_that_was_created_since() -> None:
    schedule = Schedule(0, **GAP, **{"flush.size": "3", "tail.state.enable": "false"})
    schedule.add(ORDERS, 12)
    schedule.cycle()
    schedule.end_reads()
    schedule.recreate(5)
    schedule.cycle()
    schedule.end()
    schedule.judge()


def test_what_was_planned_before_a_topic_was_found_to_be_another_is_not_begun() -> None:
    schedule = Schedule(0, **GAP, **{"flush.size": "3", "tail.state.enable": "false"})
    schedule.add(PARTITIONS[0], 3)
    schedule.cycle()
    schedule.recreate(20)  # more than before: the poll finds nothing
    schedule.add(PARTITIONS[1], 3)
    for _ in range(3):
        schedule.cycle()
        schedule.end_reads()
    schedule.end()
    schedule.judge()


def test_an_erasure_settles_no_dead_letter_of_an_earlier_log() -> None:
    world = world_of(5, **GAP, **TOLERANT)
    world.kafka.add(ORDERS, MemoryRecord(5, START_MS, None, b"broken"))
    written(world)
    cut(world, 5, 105, 106, 107, 108, 109)
    written(world)
    forget(world, 105)
    paths = world.log().paths
    ledger = read_ledger(world.store, paths)
    (letter,) = letters(ledger, world.store, selection=LetterSelection(), missing=lambda file: None)
    assert (letter.state, letter.letter.value) == (LetterState.READ_AGAIN, b"broken")


def test_a_position_among_rows_whose_offsets_are_not_known_becomes_that_of_the_first_row() -> None:
    world = World({"flush.size": "4"})
    world.add([0, 1, 4, 5, 8, 9])
    world.start()
    written(world)
    ask_for_compaction(world, world.store)
    written(world)
    entry = write_positions(world.log(), world.kafka, {ORDERS: 5})
    assert entry is not None
    assert entry.progress[ORDERS].frontier == 0
    world.start()
    written(world)
    assert counted(world) == [0, 1, 4, 5, 8, 9]


# ------------------------------------------------------------ many resets


@pytest.mark.parametrize("seed", range(SOME))
def test_no_reset_of_offsets_loses_or_doubles_a_record(seed: int) -> None:
    Schedule(seed).play()


@pytest.mark.parametrize("seed", range(6))
def test_no_reset_of_offsets_leaves_a_row_in_a_table_that_does_not_count(seed: int, tmp_path: Path) -> None:
    Schedule(seed, tmp_path).play()


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_none_of_many_resets_of_offsets_loses_or_doubles_a_record(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        try:
            Schedule(seed, tmp_path if seed % 10 == 0 else None).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_schedules_do_reset() -> None:
    happened = Counter[str]()
    for seed in range(12):
        schedule = Schedule(seed)
        schedule.play()
        happened.update(schedule.happened)
        happened.update(
            {"erased": len(schedule.erased), "swaps": sum(len(one.swaps) for one in schedule.world.entries())}
        )
    assert min(happened[name] for name in ("cut", "recreate", "move", "die", "erased", "swaps")) > 3
