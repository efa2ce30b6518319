"""What a sink holds above its frontier is believed while Kafka's log is the one it was read from, and counts though Kafka has it no more."""

from __future__ import annotations

import pytest

from kafka_s3.commit.entry import Progress
from kafka_s3.local.memory import MemoryRecord
from kafka_s3.model.errors import OffsetsLost
from kafka_s3.model.files import Reason
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import Gap
from tests.support.configurations import STATE, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.observers import Warnings
from tests.support.open_files import CONFIG, states

GAP = {"behavior.on.lost.offsets": "gap"}


def numbers(world: World) -> list[int]:
    return sorted(number for found in world.numbers().values() for number in found)


def regrow(world: World, *, at: int, until: int) -> None:
    """A leader without the records from `at` on takes over, and others come up to `until`: 100 more than the offset."""
    world.kafka.cut(ORDERS, at=at)
    for offset in range(at, until):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d}' % (100 + offset)))


def holding(records: int = 10, **config: str) -> World:
    """A sink whose open file holds that many records, and whose log has no entry of data yet."""
    world = World({**CONFIG, **config})
    world.start()
    world.add(range(records))
    world.sink.cycle()
    assert world.sink.partition_states[ORDERS].first_unread == records
    return world


def flushed(world: World) -> None:
    world.sink.cycle()
    world.sink.drain(close=Reason.FLUSH_NOW)


# ------------------------------------------------------------ a log that was cut and has grown again


@pytest.mark.parametrize("restarts", [True, False])
def test_open_files_of_a_log_that_was_cut_and_has_grown_again_are_dropped_with_a_warning_and_read_again(
    restarts: bool,
) -> None:
    world, told = holding(), Warnings()
    regrow(world, at=4, until=14)
    if restarts:
        world.start(observer=told)
    else:
        world.sink.topics.observer = told
    flushed(world)

    assert numbers(world) == [*range(4), *range(104, 114)]
    assert told.texts == [
        "orders-0 was truncated at 4, after it had reached to 10, and ends at 14 now: the open files and the dead letters that were "
        "recorded from 4 on are of records that are gone. They are dropped, and orders-0 is read again from 0."
    ]
    assert (states(world), world.store.uploads) == ([], {})
