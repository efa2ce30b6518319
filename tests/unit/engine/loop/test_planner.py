"""A topic-partition is read when a file can close, and otherwise left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.engine.loop.planner import (
    FIRST_LIMIT,
    RANGES_IN_A_TASK,
    PartitionState,
    assignment,
    committed,
    delivered,
    plan,
    waves,
)
from kafka_s3.engine.task.rotation import OFF, RotationRules
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, Tail
from tests.support.partition_states import COUNT, HOUR, NEVER_MS, SCHEDULE, TIME, TP, partition_state, ready, report


def test_nothing_new_is_no_reason_to_read() -> None:
    assert plan(partition_state(0), NEVER_MS * 2, COUNT) is None
    assert plan(partition_state(5, frontier=5), NEVER_MS * 2, COUNT) is None


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (partition_state(9), False),
        (partition_state(10), True),
        (partition_state(109, frontier=100), False),
        (partition_state(12, examined=9, examined_ms=0, tail=Tail(records=6)), False),  # compacted: 6 of 9 were records
        (partition_state(13, examined=9, examined_ms=0, tail=Tail(records=6)), True),
        (partition_state(9, examined=9, examined_ms=0, tail=Tail(records=9)), False),
    ],
)
def test_a_count_that_can_be_complete_is_due(state: PartitionState, due: bool) -> None:
    assert (plan(state, 1, COUNT) is not None) is due


def test_an_open_tail_is_looked_at_after_the_check_interval() -> None:
    patient = replace(COUNT, check_ms=60_000)

    assert plan(partition_state(3), 59_999, patient) is None
    assert plan(partition_state(3), 60_000, patient) is not None
    assert plan(partition_state(3, examined=3, examined_ms=0), NEVER_MS, patient) is None
    assert plan(partition_state(3, examined=2, examined_ms=30_000), 89_999, patient) is None
    assert plan(partition_state(3, examined=2, examined_ms=30_000), 90_000, patient) is not None


def test_a_record_at_each_poll_postpones_no_look_at_the_tail() -> None:
    patient = replace(COUNT, check_ms=60_000, rules=RotationRules(flush_size=1_000_000))
    state = PartitionState(TP, 0, None)
    for second in range(60):
        state = delivered(state, second * 1000, second + 1, patient)
        assert plan(state, second * 1000, patient) is None
    assert (
        plan(delivered(state, 60_000, 61, patient), 60_000, patient) is not None
    )  # the first record has waited so long


def test_record_time_is_judged_by_growth_a_part_of_the_interval_and_the_time_index() -> None:
    assert plan(partition_state(1), 0, TIME) is not None  # never read
    grown = partition_state(15, examined=10, examined_ms=0)
    assert plan(grown, 1, TIME) is None
    assert plan(partition_state(20, examined=10, examined_ms=0), 1, TIME) is not None  # doubled
    assert plan(grown, HOUR // 4, TIME) is not None
    assert plan(grown, 1, TIME, interval_reached=True) is not None
    assert plan(partition_state(10, examined=10, examined_ms=0), HOUR, TIME) is None


def test_the_schedule_is_due_when_a_look_has_passed_its_mark() -> None:
    early = replace(partition_state(3, examined=3, examined_ms=0), rotation_ms=HOUR)
    assert plan(early, HOUR - 1, SCHEDULE) is None
    late = delivered(early, HOUR, 3, SCHEDULE)
    assert [d.now_ms for d in late.deliveries] == [0, HOUR]
    assert plan(late, HOUR, SCHEDULE) is not None


def test_a_mark_between_look_and_plan_is_left_to_the_next_look() -> None:
    early = replace(partition_state(3, examined=3, examined_ms=0), rotation_ms=HOUR)

    assert plan(early, HOUR + 1, SCHEDULE) is None  # reading now would close nothing, again and again


def test_a_mark_passes_without_reading_where_nothing_is_pending() -> None:
    state = delivered(replace(partition_state(3, frontier=3), rotation_ms=HOUR), HOUR + 5, 3, SCHEDULE)

    assert state.rotation_ms == 2 * HOUR
    assert plan(state, HOUR + 5, SCHEDULE) is None


def test_idle_files_are_closed_once_no_record_has_come_for_long() -> None:
    idle = ready(RotationRules(idle_ms=1000))
    state = delivered(PartitionState(TP, 0, None), 500, 3, idle)
    state = delivered(state, 1400, 3, idle)
    assert plan(state, 1499, idle) is None
    planned = plan(state, 1500, idle)
    assert planned is not None
    assert planned.close is Reason.FLUSH_IDLE
    assert plan(delivered(state, 1500, 4, idle), 1500, idle) is None


def test_a_task_reads_to_its_limit_and_doubles_it_where_nothing_could_close() -> None:
    big = partition_state(5 * FIRST_LIMIT)
    first = assignment(big, close=Reason.FLUSH_NOW)
    assert (first.start, first.until, first.close) == (0, FIRST_LIMIT, None)
    stuck = committed(big, report(0, FIRST_LIMIT, 0), 1)
    assert (stuck.more, assignment(stuck).until) == (True, 2 * FIRST_LIMIT)
    assert plan(stuck, 1, COUNT) is not None
    moved = committed(stuck, report(0, 2 * FIRST_LIMIT, FIRST_LIMIT), 2)
    assert (moved.more, assignment(moved).start, assignment(moved).until) == (True, FIRST_LIMIT, 2 * FIRST_LIMIT)
    last = assignment(replace(moved, limit=NEVER_MS), close=Reason.FLUSH_NOW)
    assert (last.until, last.close) == (5 * FIRST_LIMIT, Reason.FLUSH_NOW)


@pytest.mark.parametrize("tasks", [1, 2, 3, 100])
def test_turns_hold_at_most_so_many_tasks_the_largest_backlogs_together(tasks: int) -> None:
    sizes = [50_000, 900_000, 30_000, 70_000, 800_000]
    turns = waves([Assignment(TP._replace(partition=n), 0, size, ()) for n, size in enumerate(sizes)], tasks)

    assert all(len(turn) <= tasks for turn in turns)
    assert [a.until for turn in turns for a in turn] == sorted(sizes, reverse=True)
    assert len(turns) == -(-len(sizes) // tasks)


def test_quiet_ranges_share_tasks_and_so_fit_into_fewer_turns() -> None:
    sizes = [500_000, *[10] * 1000]
    turns = waves([Assignment(TP._replace(partition=n), 0, size, ()) for n, size in enumerate(sizes)], 4)

    assert [len(turn) for turn in turns] == [
        1 + 3 * RANGES_IN_A_TASK,
        *[4 * RANGES_IN_A_TASK] * 7,
        1000 - 31 * RANGES_IN_A_TASK,
    ]
    assert sorted(a.topic_partition.partition for turn in turns for a in turn) == list(range(1001))


def test_no_rule_no_count() -> None:
    assert plan(partition_state(10**5), 1, ready(RotationRules(flush_size=OFF))) is None
