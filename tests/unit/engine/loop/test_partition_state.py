"""Looks at Kafka and commits move a topic-partition's state; deliveries that no rule can tell apart are one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kafka_s3.engine.loop.planner import MANY_DELIVERIES, PartitionState, Readiness, committed, cut_off, delivered
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.offsets import OffsetSet
from kafka_s3.model.tasks import Delivery, Tail
from tests.support.partition_states import COUNT, HOUR, NO_TAIL, SCHEDULE, TP, partition_state, ready, report


def test_deliveries_are_distinguished_only_where_a_rule_can() -> None:
    def looks(readiness: Readiness) -> list[Delivery]:
        state = PartitionState(TP, 0, readiness.rules.next_rotation(0))
        for now, head in [(1, 1), (2, 2), (3, 2), (HOUR + 1, 2), (HOUR + 2, 5)]:
            state = delivered(state, now, head, readiness)
        return list(state.deliveries)

    assert looks(COUNT) == [Delivery(HOUR + 2, 5)]
    assert looks(SCHEDULE) == [Delivery(2, 2), Delivery(HOUR + 2, 5)]
    wall_clock = ready(RotationRules(flush_size=10), wall_clock=True)
    assert looks(wall_clock) == [Delivery(1, 1), Delivery(2, 2), Delivery(HOUR + 2, 5)]


LOOKS = 4 * MANY_DELIVERIES


def wall_clock_looks(readiness: Readiness, looks: int, *, every_ms: int = 1000) -> PartitionState:
    state = PartitionState(TP, 0, readiness.rules.next_rotation(0))
    for number in range(looks):
        state = delivered(state, number * every_ms, number + 1, readiness)
    return state


@pytest.mark.parametrize(
    "rules",
    [
        RotationRules(flush_size=10**6),
        RotationRules(interval_ms=24 * HOUR),
        pytest.param(SCHEDULE.rules, marks=pytest.mark.nightly),
    ],
)
def test_a_tail_that_is_open_for_long_keeps_few_deliveries_under_the_wall_clock(rules: RotationRules) -> None:
    readiness = replace(ready(rules, wall_clock=True), directory_ms=HOUR)
    state = wall_clock_looks(readiness, LOOKS)

    assert len(state.deliveries) < 2 * MANY_DELIVERIES
    assert state.deliveries[-1] == Delivery((LOOKS - 1) * 1000, LOOKS)
    assert [d.until for d in state.deliveries] == sorted({d.until for d in state.deliveries})


@pytest.mark.parametrize("directory_ms", [HOUR, 60_000, pytest.param(7_000, marks=pytest.mark.nightly)])
def test_merged_deliveries_leave_each_record_in_its_directory(directory_ms: int) -> None:
    readiness = replace(ready(RotationRules(flush_size=10**6), wall_clock=True), directory_ms=directory_ms)
    state = wall_clock_looks(readiness, LOOKS)

    hours = {}
    for delivery in reversed(state.deliveries):
        hours.update(dict.fromkeys([delivery.until - 1], delivery.now_ms // directory_ms))
    assert all(hours[offset] == offset * 1000 // directory_ms for offset in hours)
    boundaries = {n for n in range(1, LOOKS) if n * 1000 // directory_ms != (n - 1) * 1000 // directory_ms}
    assert boundaries <= {d.until for d in state.deliveries}


def test_merged_deliveries_move_the_interval_by_a_thousandth_at_most() -> None:
    readiness = replace(ready(RotationRules(interval_ms=10 * HOUR), wall_clock=True), directory_ms=24 * HOUR)
    deliveries = wall_clock_looks(readiness, LOOKS).deliveries

    for before, now in itertools.pairwise(deliveries):
        assert now.now_ms - before.now_ms <= 2 * 36_000
        assert (before.until) * 1000 >= now.now_ms - 36_000  # the earliest record of this delivery


def test_a_truncated_log_is_forgotten_beyond_its_end() -> None:
    state = replace(
        partition_state(0, examined=9, examined_ms=5, tail=Tail(records=9)),
        deliveries=(Delivery(1, 4), Delivery(2, 8), Delivery(3, 9)),
        recorded=OffsetSet.of([2, 6]),
        more=True,
    )
    cut = cut_off(state, 5)

    assert (cut.head, cut.deliveries) == (5, (Delivery(1, 4), Delivery(2, 5)))
    assert (cut.recorded, cut.more) == (OffsetSet.of([2]), False)
    assert (cut.examined, cut.examined_ms, cut.tail) == (0, None, NO_TAIL)
    assert cut_off(replace(state, examined=4), 5).examined == 4


def test_a_commit_keeps_the_deliveries_of_what_is_still_open() -> None:
    state = replace(partition_state(0), deliveries=(Delivery(1, 4), Delivery(2, 8), Delivery(3, 9)))

    assert committed(state, report(0, 9, 4), 5).deliveries == (Delivery(2, 8), Delivery(3, 9))
    assert committed(state, report(0, 9, 9), 5).deliveries == (Delivery(3, 9),)
