"""Very many files are committed in several entries, and read by several tasks, in the same round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.loop.planner import FIRST_LIMIT, LEAST_LIMIT
from kafka_s3.engine.task.batches import TRUSTED
from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.faults import Fault, failure, raising
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import PARTITIONER
from tests.support.memory_world import ORDERS, World

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(3))


def with_files(world: World) -> list[CommitEntry]:
    return [entry for entry in world.entries() if entry.files]


def written(world: World) -> list[list[int]]:
    return sorted(world.numbers().values())


def test_a_task_stops_when_it_has_closed_so_many_files_and_the_round_goes_on() -> None:
    world = World({"flush.size": "3", "commit.max.files": "4"}, batch_size=6)
    world.add(range(100))
    world.start()
    assert world.sink.poll_and_commit()

    assert written(world) == [[n, n + 1, n + 2] for n in range(0, 99, 3)]
    assert max(len(entry.files) for entry in world.entries()) <= 4 + 1  # what a batch closes at once
    assert world.frontier() == 99
    totals = world.log().load().totals
    assert (totals.read, totals.written, totals.files) == (99, 99, 33)


def test_a_batch_of_which_each_record_closes_a_file_is_not_closed_in_one_go() -> None:
    world = World({"flush.size": "1", "commit.max.files": "20"}, batch_size=300)
    world.add(range(300))
    world.start()
    assert world.sink.poll_and_commit()

    assert written(world) == [[n] for n in range(300)]
    assert {len(entry.files) for entry in with_files(world)} == {20}


def test_a_batch_in_which_many_open_files_close_again_and_again_is_not_closed_in_one_go() -> None:
    """None of the first records closes a file: what is open then tells how many will."""
    by_field = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "d"}
    world = World({**by_field, "flush.size": "150", "commit.max.files": "100"}, batch_size=3000)
    for n in range(3000):
        world.kafka.add(ORDERS, MemoryRecord(n, world.now, None, b'{"n":%d,"d":%d}' % (n, n % 100)))
    world.start()
    assert world.sink.poll_and_commit()

    assert sorted(n for numbers in world.numbers().values() for n in numbers) == [*range(3000)]
    assert max(len(entry.files) for entry in with_files(world)) <= 100 + 100  # what closes at once


def test_where_files_become_many_all_at_once_a_task_does_not_trust_the_one_before_for_all_of_a_batch() -> None:
    by_field = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "d"}
    world = World({**by_field, "flush.size": "150", "commit.max.files": "100"}, batch_size=3000)
    for n in range(3600):
        world.kafka.add(ORDERS, MemoryRecord(n, world.now, None, b'{"n":%d,"d":%d}' % (n, max(0, n - 600))))
        if n == 599:
            world.start()
            assert world.sink.poll_and_commit()
            assert [len(entry.files) for entry in with_files(world)] == [4]
    assert world.sink.poll_and_commit()

    assert sorted(n for numbers in world.numbers().values() for n in numbers) == [*range(3600)]
    assert max(len(entry.files) for entry in with_files(world)) <= TRUSTED * 100


@given(
    flush=st.integers(1, 7),
    most=st.integers(1, 9),
    batch=st.integers(1, 40),
    polls=st.lists(st.integers(0, 30), min_size=1, max_size=4),
)
def test_however_few_files_a_task_may_close_the_objects_are_the_same(
    flush: int, most: int, batch: int, polls: list[int]
) -> None:
    world, added = World({"flush.size": str(flush), "commit.max.files": str(most)}, batch_size=batch), 0
    world.start()
    for more in polls:
        world.add(range(added, added + more))
        added += more
        assert world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert written(world) == [[*range(first, min(first + flush, added))] for first in range(0, added, flush)]
    assert world.frontier() == added


def test_a_task_that_stopped_closes_no_tail_before_its_time() -> None:
    world = World({"flush.size": "3", "commit.max.files": "2"}, batch_size=2)
    world.add(range(20))
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)

    assert written(world) == [[n, n + 1, n + 2] for n in range(0, 18, 3)] + [[18, 19]]


def test_a_full_task_reads_less_the_next_time_and_then_more_again() -> None:
    world = World({"flush.size": "1", "commit.max.files": "5"}, batch_size=2)
    world.add(range(10))
    world.start()
    world.sink.poll()
    world.sink.commit_due()
    assert world.sink.partition_states[ORDERS].limit == LEAST_LIMIT
    world.sink.commit_due()
    assert world.sink.partition_states[ORDERS].limit == 2 * LEAST_LIMIT
    assert world.frontier() == 10
    assert FIRST_LIMIT > 2 * LEAST_LIMIT


def test_the_reports_of_a_turn_are_committed_in_portions() -> None:
    world = World({"flush.size": "1", "commit.max.files": "5", "tasks.max": "3"}, topics=PARTITIONS)
    for tp in PARTITIONS:
        world.add(range(3), tp=tp)
    world.start()
    assert world.sink.poll_and_commit()

    assert [len(entry.files) for entry in with_files(world)] == [3, 3, 3]
    assert {tp: world.frontier(tp) for tp in PARTITIONS} == dict.fromkeys(PARTITIONS, 3)


@pytest.mark.parametrize("known", [True, False])
def test_a_portion_that_does_not_get_through_leaves_the_next_ones_to_another_read(known: bool) -> None:
    world = World({"flush.size": "1", "commit.max.files": "3", "tasks.max": "3"}, topics=PARTITIONS)
    for tp in PARTITIONS:
        world.add(range(3), tp=tp)
    entries = [
        Fault("put_new", raising(StorageUnavailable("away")), nth=n, matches=lambda key: "/commits/" in key)
        for n in (3, 4, 5)
    ]
    world.start([failure("complete_upload", 1)] if known else entries)
    assert world.sink.poll_and_commit() is known  # one file that is not visible yet holds no other portion
    left = len(world.store.uploads)
    world.now += 60_000
    assert world.sink.poll_and_commit()

    assert left <= 3  # of nine files; those of the other portions are aborted
    assert len(written(world)) == 9
    assert world.store.uploads == {}
    assert world.log().load().totals.written == 9
