"""What can close a file now, and which offsets must be read for it? Pure decisions of the driver; nothing due, no job.

A topic-partition is read when a file can close: by count, by the schedule's clock, by idle time; by record time when the
brokers' time index says so, the backlog has doubled or a quarter of the interval has passed; and at the latest after
`tail.check.interval.ms`, so that bad records in the tail come to light; where open files are kept, also when what is unread
is worth a task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Final

from kafka_s3.engine.loop.behaviour import Readiness
from kafka_s3.engine.loop.partition_state import PartitionState
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment

_log = logging.getLogger(__name__)
QUIET_OFFSETS: Final = 10_000
"""A range of fewer is quiet: starting a task of its own for it costs more than its records."""
RANGES_IN_A_TASK: Final = 32
"""So many quiet ranges share a task at most."""
CLOCK_PARTS: Final = 4


class ReadReason(StrEnum):
    """Why a topic-partition is read now."""

    BACKLOG = "records were left by the last task"
    SCHEDULE = "a mark of the schedule has passed"
    COUNT = "flush.size may be reached"
    MUCH = "what is waiting is worth a task"
    CHECK = "tail.check.interval.ms has passed"
    GROWTH = "the tail has doubled, or a part of the interval has passed"
    INTERVAL = "the time index shows a record past the interval"
    IDLE = "flush.idle.ms has passed"


def plan(
    partition_state: PartitionState, now_ms: int, readiness: Readiness, *, interval_reached: bool = False
) -> Assignment | None:
    """The range to read now, None where nothing can close. `interval_reached`: the time index shows a record past the interval."""
    reason = reason_to_read(partition_state, now_ms, readiness, interval_reached=interval_reached)
    if reason is None:
        return None
    planned = assignment(partition_state, close=Reason.FLUSH_IDLE if reason is ReadReason.IDLE else None)
    facts = {
        "partition": str(planned.topic_partition),
        "start": planned.start,
        "until": planned.until,
        "reason": str(reason),
    }
    _log.debug("planned", extra={"facts": facts})
    return planned


def reason_to_read(
    partition_state: PartitionState, now_ms: int, readiness: Readiness, *, interval_reached: bool = False
) -> ReadReason | None:
    """Why the topic-partition is read now, None where nothing can close."""
    if partition_state.head <= partition_state.frontier:
        return None
    if _idle(partition_state, now_ms, readiness.rules):
        return ReadReason.IDLE
    if interval_reached:
        return ReadReason.INTERVAL
    return _due(partition_state, now_ms, readiness)


def assignment(partition_state: PartitionState, *, close: Reason | None = None) -> Assignment:
    """Everything that is unread up to the head, or the limit; `close` closes the tail if the range reaches the head."""
    until = min(partition_state.head, partition_state.first_unread + partition_state.limit)
    deliveries = []
    for delivery in partition_state.deliveries:
        deliveries.append(delivery)
        if delivery.until >= until and until < partition_state.head:
            break
    return Assignment(
        partition_state.topic_partition,
        partition_state.frontier,
        until,
        tuple(deliveries),
        partition_state.rotation_ms,
        partition_state.recorded,
        close if until == partition_state.head else None,
        state=partition_state.open_state,
    )


def closing_held(wanted: Assignment) -> Assignment:
    """The same without what is unread: its open files are closed with what they hold, because what follows is lost."""
    held = wanted.first_unread
    deliveries = tuple(delivery for delivery in wanted.deliveries if delivery.until <= held)
    return replace(wanted, until=held, deliveries=deliveries or wanted.deliveries[:1], close=Reason.LOST_OFFSETS)


def in_turns(assignments: Iterable[Assignment], tasks: int) -> list[list[Assignment]]:
    """The assignments in groups that at most `tasks` (`tasks.max`) can work off, the largest backlogs together.

    With two tasks, of ranges long long quiet quiet the first two are one turn, and the others the next, as one task takes both.
    """
    turns: list[list[Assignment]] = []
    room = 0
    for wanted in sorted(assignments, key=lambda a: a.first_unread - a.until):
        share = 1 if is_quiet(wanted) else RANGES_IN_A_TASK
        if share > room:
            turns.append([])
            room = tasks * RANGES_IN_A_TASK
        turns[-1].append(wanted)
        room -= share
    return turns


def is_quiet(wanted: Assignment) -> bool:
    """Whether a range is so short that it shares a task with others."""
    return wanted.until - wanted.first_unread < QUIET_OFFSETS


def _due(partition_state: PartitionState, now_ms: int, readiness: Readiness) -> ReadReason | None:
    rules = readiness.rules
    since = partition_state.examined_ms
    # a mark between this look and now is acted on by the next look, not by reading in vain
    arrived_ms = partition_state.deliveries[-1].now_ms
    if partition_state.more:
        return ReadReason.BACKLOG
    if partition_state.rotation_ms is not None and arrived_ms >= partition_state.rotation_ms:
        return ReadReason.SCHEDULE
    if not partition_state.unexamined:
        return None
    count = (partition_state.tail.records if since is not None else 0) + partition_state.unexamined
    if 0 <= rules.flush_size <= count:
        return ReadReason.COUNT
    if partition_state.unexamined >= partition_state.least_limit or _worth_a_task(partition_state, readiness):
        return ReadReason.MUCH
    waited = now_ms - (since if since is not None else _first_seen(partition_state))
    if waited >= readiness.check_ms:
        return ReadReason.CHECK
    return ReadReason.GROWTH if _by_growth(partition_state, waited, readiness) else None


def _first_seen(partition_state: PartitionState) -> int:
    """When the first of the records arrived that no task has looked at."""
    waiting = partition_state.waiting_ms
    return partition_state.deliveries[0].now_ms if waiting is None else waiting


def _worth_a_task(partition_state: PartitionState, readiness: Readiness) -> bool:
    """Whether what is unread is enough for a task of its own, which reads nothing else."""
    if partition_state.open_state is None and partition_state.examined > partition_state.frontier:
        return False
    unread = partition_state.unexamined
    by_records = 0 < readiness.worth_records <= unread
    return by_records or 0 < readiness.worth_bytes <= unread * partition_state.record_bytes


def _by_growth(partition_state: PartitionState, waited: int, readiness: Readiness) -> bool:
    """For rules that cannot be judged from outside: read when never read, when the tail has doubled, or after a part of the interval."""
    rules = readiness.rules
    if not (readiness.by_record_time or rules.flush_bytes > 0):
        return False
    examined = max(partition_state.examined - partition_state.frontier, 0)
    doubled = partition_state.unexamined >= examined
    return doubled or (readiness.by_record_time and waited >= rules.interval_ms / CLOCK_PARTS)


def _idle(partition_state: PartitionState, now_ms: int, rules: RotationRules) -> bool:
    return rules.idle_ms > 0 and now_ms - partition_state.grown_ms >= rules.idle_ms
