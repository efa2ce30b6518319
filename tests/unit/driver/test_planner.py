"""A topic-partition is read when a file can close, and otherwise left alone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC

import pytest

from kafka_s3.driver.planner import (
    FIRST_LIMIT,
    MANY_DELIVERIES,
    RANGES_IN_A_TASK,
    PartitionState,
    Readiness,
    assignment,
    committed,
    cut_off,
    delivered,
    in_turns,
    plan,
)
from kafka_s3.model.files import Reason
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, Tail, TaskReport
from kafka_s3.task.rotation import OFF, RotationRules

TP = TopicPartition("orders", 0)
HOUR = 3_600_000
NO_TAIL = Tail()
NEVER_MS = 10**12


def ready(
    rules: RotationRules, *, by_record_time: bool = False, wall_clock: bool = False, check_ms: int = NEVER_MS
) -> Readiness:
    return Readiness(rules, by_record_time, wall_clock, check_ms)


COUNT = ready(RotationRules(flush_size=10))
TIME = ready(RotationRules(interval_ms=HOUR), by_record_time=True)
SCHEDULE = ready(RotationRules(schedule_ms=HOUR, zone=UTC))


def partition_state(
    head: int, *, frontier: int = 0, examined: int = 0, examined_ms: int | None = None, tail: Tail = NO_TAIL
) -> PartitionState:
    return PartitionState(
        TP, frontier, None, deliveries=(Delivery(0, head),), examined=examined, examined_ms=examined_ms, tail=tail
    )


def report(start: int, until: int, frontier: int, *, tail: Tail = NO_TAIL) -> TaskReport:
    return TaskReport(TP, start, until, frontier, tail=tail)


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


def test_deliveries_are_told_apart_only_where_a_rule_can() -> None:
    def looks(readiness: Readiness) -> list[Delivery]:
        state = PartitionState(TP, 0, readiness.rules.next_rotation(0))
        for now, head in [(1, 1), (2, 2), (3, 2), (HOUR + 1, 2), (HOUR + 2, 5)]:
            state = delivered(state, now, head, readiness)
        return list(state.deliveries)

    assert looks(COUNT) == [Delivery(HOUR + 2, 5)]
    assert looks(SCHEDULE) == [Delivery(2, 2), Delivery(HOUR + 2, 5)]
    wall_clock = ready(RotationRules(flush_size=10), wall_clock=True)
    assert looks(wall_clock) == [Delivery(1, 1), Delivery(2, 2), Delivery(HOUR + 2, 5)]


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
    state = wall_clock_looks(readiness, 20_000)

    assert len(state.deliveries) < 2 * MANY_DELIVERIES
    assert state.deliveries[-1] == Delivery(19_999_000, 20_000)
    assert [d.until for d in state.deliveries] == sorted({d.until for d in state.deliveries})


@pytest.mark.parametrize("directory_ms", [HOUR, 60_000, pytest.param(7_000, marks=pytest.mark.nightly)])
def test_merged_deliveries_leave_each_record_in_its_directory(directory_ms: int) -> None:
    readiness = replace(ready(RotationRules(flush_size=10**6), wall_clock=True), directory_ms=directory_ms)
    state = wall_clock_looks(readiness, 20_000)

    hours = {}
    for delivery in reversed(state.deliveries):
        hours.update(dict.fromkeys([delivery.until - 1], delivery.now_ms // directory_ms))
    assert all(hours[offset] == offset * 1000 // directory_ms for offset in hours)
    boundaries = {n for n in range(1, 20_000) if n * 1000 // directory_ms != (n - 1) * 1000 // directory_ms}
    assert boundaries <= {d.until for d in state.deliveries}


def test_merged_deliveries_move_the_interval_by_a_thousandth_at_most() -> None:
    readiness = replace(ready(RotationRules(interval_ms=10 * HOUR), wall_clock=True), directory_ms=24 * HOUR)
    deliveries = wall_clock_looks(readiness, 30_000).deliveries

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


def test_a_commit_keeps_the_deliveries_of_what_is_still_open() -> None:
    state = replace(partition_state(0), deliveries=(Delivery(1, 4), Delivery(2, 8), Delivery(3, 9)))

    assert committed(state, report(0, 9, 4), 5).deliveries == (Delivery(2, 8), Delivery(3, 9))
    assert committed(state, report(0, 9, 9), 5).deliveries == (Delivery(3, 9),)


@pytest.mark.parametrize("tasks", [1, 2, 3, 100])
def test_turns_hold_at_most_so_many_tasks_the_largest_backlogs_together(tasks: int) -> None:
    sizes = [50_000, 900_000, 30_000, 70_000, 800_000]
    turns = in_turns([Assignment(TP._replace(partition=n), 0, size, ()) for n, size in enumerate(sizes)], tasks)

    assert all(len(turn) <= tasks for turn in turns)
    assert [a.until for turn in turns for a in turn] == sorted(sizes, reverse=True)
    assert len(turns) == -(-len(sizes) // tasks)


def test_quiet_ranges_share_tasks_and_so_fit_into_fewer_turns() -> None:
    sizes = [500_000, *[10] * 1000]
    turns = in_turns([Assignment(TP._replace(partition=n), 0, size, ()) for n, size in enumerate(sizes)], 4)

    assert [len(turn) for turn in turns] == [
        1 + 3 * RANGES_IN_A_TASK,
        *[4 * RANGES_IN_A_TASK] * 7,
        1000 - 31 * RANGES_IN_A_TASK,
    ]
    assert sorted(a.topic_partition.partition for turn in turns for a in turn) == list(range(1001))


def test_no_rule_no_count() -> None:
    assert plan(partition_state(10**5), 1, ready(RotationRules(flush_size=OFF))) is None
