"""Two counts tell how many records lie below any frontier that a task or the next one can report, whatever the offsets are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.task.dead_letters import ReadCounter
from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.observers import Told

STEP = st.tuples(
    st.integers(1, 5), st.sampled_from(["left out", "left out", "written", "written", "closed", "closed before"])
)
"""How far the next offset is, and what becomes of its record: the files close behind it, or before it is written."""


@given(st.lists(st.lists(STEP, max_size=6), max_size=8), st.sets(st.integers(0, 7)))
def test_counts_below_a_frontier_are_those_of_all_offsets(
    batches: list[list[tuple[int, str]]], pauses: set[int]
) -> None:
    examined, all_offsets = ReadCounter(), list[int]()
    frontier, written, offset, since = 10, 9, 9, 10
    for number, batch in enumerate(batches):
        offsets = []
        for gap, fate in batch:
            offset += gap
            offsets.append(offset)
            frontier = written + 1 if fate == "closed before" and written >= frontier else frontier
            written = written if fate == "left out" else offset
            frontier = written + 1 if fate == "closed" else frontier
        all_offsets += offsets
        examined.add(np.array(offsets, np.int64), frontier=frontier, written=written)
        for possible in (frontier, written + 1, offset + 1):
            expected = sum(since <= one < possible for one in all_offsets)
            assert examined.below(possible) == expected
        if number in pauses:  # another task goes on from there
            paused = json.loads(json.dumps(examined.pause(frontier)))
            since = frontier
            examined = ReadCounter()
            examined.resume(paused)


FILTER = {
    "transforms": "f", "transforms.f.type": "org.apache.kafka.connect.transforms.Filter", "transforms.f.predicate": "null",
    "predicates": "null", "predicates.null.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("left_out", [{"behavior.on.null.values": "ignore"}, FILTER], ids=["null values", "filtered"])
def test_records_that_are_left_out_behind_an_open_file_add_nothing_to_its_state(
    left_out: dict[str, str], step: int
) -> None:
    world, reported = World({"flush.size": "3", "tail.read.records": "1", **left_out}), Told()
    world.start(observer=reported)
    world.add([0])
    sizes = []
    for round_ in range(1, 4):
        first = round_ * 100_000
        for offset in range(first, first + 2_000 * step, step):
            world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, None))
        world.sink.poll_and_commit()
        (state,) = [data for key, data in world.store.objects.items() if key.startswith(f"{STATE}orders/open/")]
        sizes.append(len(state))
    assert max(sizes) - min(sizes) < 20  # the digits of a few numbers

    world.add([500_000])
    world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    totals = world.log().load().totals
    assert (totals.read, totals.written, totals.skipped, reported.read, reported.texts) == (6_002, 2, 6_000, 6_002, [])
