"""A Delta table has the records that count, whatever became of a topic's offsets since it got its files; delta-rs is the judge."""

from __future__ import annotations

import json

import pytest

from kafka_s3.ops.positions import write_positions
from kafka_s3_testing.services.memory import MemoryRecord
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.delta_world import TableWorld
from tests.support.memory_world import ORDERS, START_MS


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    """Objects of three records each; each record has a number that is its offset."""
    world = TableWorld(objects, own_bucket, **{"flush.size": "3", "behavior.on.lost.offsets": "gap"})
    world.start()
    append(world, 0, *range(9))
    return world


def append(world: TableWorld, first: int, *numbers: int) -> None:
    for offset, number in enumerate(numbers, first):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps({"n": number}).encode()))
    for _ in range(2):  # a topic that was created again is read at the second look
        assert world.sink.poll_and_commit()


def numbers(world: TableWorld) -> list[int]:
    return [row["n"] for row in world.rows()]


def test_rows_that_are_read_again_leave_the_table_in_the_version_that_brings_them(world: TableWorld) -> None:
    write_positions(world.log(), world.kafka, {ORDERS: 4})
    world.configure(**{"flush.size": "2"})
    world.start()
    assert numbers(world) == list(range(9)), "as long as nothing has taken their place"
    version = world.table().version()
    append(world, 9)
    assert (numbers(world), world.table().version()) == (list(range(9)), version + 1)


def test_rows_of_a_log_that_was_cut_leave_the_table(world: TableWorld) -> None:
    world.kafka.cut(ORDERS, at=5)
    append(world, 5, 105, 106, 107, 108)
    assert numbers(world) == [0, 1, 2, 3, 4, 105, 106, 107, 108]


def test_rows_of_a_topic_leave_the_table_once_the_one_that_was_created_in_its_place_has_some(world: TableWorld) -> None:
    world.kafka.ids["orders"] = "another"
    world.kafka.records[ORDERS], world.kafka.begins[ORDERS] = [], 0
    append(world, 0, *range(100, 112))
    assert numbers(world) == list(range(100, 112))
