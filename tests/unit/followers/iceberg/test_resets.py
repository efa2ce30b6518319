"""A table has the records that count, whatever became of a topic's offsets since it got its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_s3.engine.log.incarnations import Incarnations
from kafka_s3.followers.delta.findings import DifferenceKind
from kafka_s3.followers.iceberg.maintain import check_table, rebuild
from kafka_s3.ops.positions import write_positions
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.iceberg_world import IcebergWorld
from tests.support.memory_world import ORDERS, START_MS

GAP = {"behavior__on__lost__offsets": "gap"}


def filled(folder: Path, records: int = 9, **config: str) -> IcebergWorld:
    """Objects of three records each; each record has a number that is its offset."""
    world = IcebergWorld(folder, flush__size="3", **config)
    world.start()
    append(world, 0, *range(records))
    return world


def append(world: IcebergWorld, first: int, *numbers: int) -> None:
    for offset, number in enumerate(numbers, first):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps({"n": number}).encode()))
    for _ in range(2):  # a topic that was created again is read at the second look
        assert world.sink.poll_and_commit()


def numbers(world: IcebergWorld) -> list[int]:
    return [row["n"] for row in world.rows()]


def difference_kinds(world: IcebergWorld) -> list[DifferenceKind]:
    table = iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")
    planner = iceberg_planner(world.settings, world.store)
    return [one.kind for one in check_table(world.log(), planner, table, topic="orders").findings]


def test_rows_that_are_read_again_leave_the_table_in_the_version_that_brings_them(tmp_path: Path) -> None:
    world = filled(tmp_path)
    write_positions(world.log(), world.kafka, {ORDERS: 4})
    world.start()
    assert numbers(world) == list(range(9)), "as long as nothing has taken their place"
    before = len(world.table().metadata.snapshots)
    append(world, 9)
    assert numbers(world) == list(range(9))
    assert len(world.table().metadata.snapshots) == before + 1
    assert difference_kinds(world) == []


def test_rows_of_a_log_that_was_cut_leave_the_table(tmp_path: Path) -> None:
    world = filled(tmp_path, **GAP)
    world.kafka.cut(ORDERS, at=5)
    append(world, 5, 105, 106, 107, 108)
    assert numbers(world) == [0, 1, 2, 3, 4, 105, 106, 107, 108]


def test_rows_of_a_topic_leave_the_table_once_the_one_that_was_created_in_its_place_has_some(tmp_path: Path) -> None:
    world = filled(tmp_path, **GAP)
    world.kafka.ids["orders"] = "another"
    world.kafka.records[ORDERS], world.kafka.begins[ORDERS] = [], 0
    append(world, 0, *range(100, 112))
    assert numbers(world) == list(range(100, 112))


def test_check_names_objects_that_do_not_count_and_rebuild_takes_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled(tmp_path)
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(Incarnations, "latest_of", lambda self, topic: -1)
        write_positions(world.log(), world.kafka, {ORDERS: 3})
        world.configure(flush__size="2")
        world.start()
        append(world, 9)
    assert numbers(world) == [0, 1, 2, 3, 3, 4, 4, 5, 6, 6, 7, 7, 8, 8]
    assert difference_kinds(world) == [DifferenceKind.SUPERSEDED, DifferenceKind.WRONG_SIZE]
    planner = iceberg_planner(world.settings, world.store)
    table = iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")
    rebuild(world.log(), planner, table, topic="orders", clock_ms=lambda: world.now)
    assert numbers(world) == list(range(9))
