"""Rotation by encoded size: our addition (`flush.bytes`), also what `s3.part.size` alone means."""

from __future__ import annotations

import json

import pytest

from kafka_s3.engine.task.rotation import SIZE_CHECK_EVERY
from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, World

LINE = json.dumps({"n": 10_000, "pad": "x" * 80}).encode()


def filled(batch_size: int, config: dict[str, str], count: int = 1000) -> World:
    world = World(config, batch_size=batch_size)
    for offset in range(count):
        world.kafka.add(ORDERS, MemoryRecord(offset, 0, None, LINE))
    world.start()
    world.sink.poll()
    world.sink.drain()
    return world


@pytest.mark.parametrize("batch_size", [7, 100, 10_000])
def test_files_close_at_the_first_check_beyond_the_size_however_data_was_batched(batch_size: int) -> None:
    limit = 30 * (len(LINE) + 1)
    world = filled(batch_size, {"flush.bytes": str(limit)})
    files = [file for entry in world.entries() for file in entry.files]
    assert {file.reason for file in files} == {Reason.FLUSH_BYTES}
    assert {file.records for file in files} == {SIZE_CHECK_EVERY}
    assert all(file.bytes >= limit for file in files)
    assert world.frontier() == 1000 // SIZE_CHECK_EVERY * SIZE_CHECK_EVERY


def test_a_size_that_is_not_reached_closes_nothing() -> None:
    assert filled(100, {"flush.bytes": "100000000"}).entries()[-1].files == ()


def test_the_part_size_alone_is_a_rotation_by_size() -> None:
    world = World({"s3.part.size": "5242880"})
    assert world.settings.number("flush.bytes") == 5242880
