"""A table that is held is read on from where it was; one that was deleted and made again meanwhile is not taken for it."""

from __future__ import annotations

import pytest

from kafka_s3.run.wiring.delta import tables_of
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.delta_world import TableWorld


@pytest.fixture
def world(objects: EmbeddedS3, own_bucket: str) -> TableWorld:
    world = TableWorld(objects, own_bucket)
    world.add({"n": 0}, {"n": 1})
    world.run()
    return world


def test_what_others_committed_is_seen(world: TableWorld) -> None:
    table = tables_of(world.settings, world.store)("orders")
    assert table.state() is not None
    world.add({"n": 2, "more": 1}, {"n": 3, "more": 2})
    assert world.sink.poll_and_commit()
    state = table.state()
    assert state is not None
    assert (state.version, list(state.columns.fields)) == (2, ["n", "partition", "more"])
    assert state.position == world.sink.log.state.version
    assert len(table.paths()) == 2


def test_a_table_that_was_made_again_is_another_one(world: TableWorld) -> None:
    table = tables_of(world.settings, world.store)("orders")
    before = table.state()
    for info in list(world.store.list("topics/orders/_delta_log/")):
        world.store.delete(info.key)
    world.add({"n": 2, "more": 1}, {"n": 3, "more": 2})
    world.run()  # makes it anew, at the same version
    after = table.state()
    assert before is not None
    assert after is not None
    assert (before.version, after.version) == (0, 0)
    assert list(after.columns.fields) != list(before.columns.fields)
