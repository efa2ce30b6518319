"""What does the driver know of a topic-partition, what can close a file now, and which offsets are read for that? Pure decisions.

Nothing due, no job. A topic-partition is read when a file can close: by count, by the schedule's clock, by idle time; by record time when
the brokers' time index says so, the backlog has doubled or a quarter of the interval has passed; and at the latest after
`tail.check.interval.ms`, so that bad records in the tail come to light; where open files are kept, also when what is unread is worth a
task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count, groupby
from math import gcd
from typing import Final

from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import LogEnd, OffsetSet, TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, OpenState, Tail, TaskReport
from kafka_s3.model.timing import Backoff

FIRST_LIMIT: Final = 1_000_000
LEAST_LIMIT: Final = 1000
MANY_DELIVERIES: Final = 1000
QUARTER_MS: Final = 900_000
QUIET_OFFSETS: Final = 10_000
"""A range of fewer is quiet: starting a task of its own for it costs more than its records."""
RANGES_IN_A_TASK: Final = 32
"""So many quiet ranges share a task at most."""
CLOCK_PARTS: Final = 4
new_incarnation: Final = count().__next__
"""Draws a number that no other incarnation of offsets has in this process."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """How eagerly to read.

    `wall_clock`: the extractor looks at the time of delivery; `directory_ms` is then the time that a directory covers (1: unknown).
    `check_ms`: `tail.check.interval.ms`, 0 is at once. `worth_records` and `worth_bytes`: an unread tail of that size is read where that
    does not read anything twice; 0: it waits for a reason. `task_records`: what a task reads at most, unless it could close no file with
    that.
    """

    rules: RotationRules
    by_record_time: bool
    wall_clock: bool
    check_ms: int
    directory_ms: int = 1
    worth_records: int = 0
    worth_bytes: int = 0
    task_records: int = FIRST_LIMIT


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the loop itself needs of the configuration. `reset`: earliest, latest or none; `lost`: fail or gap.

    `retry_timeout_ms`: how long a schema registry may be away, -1 without limit. `dead_letter_ratio`: the share of a batch's records that
    may become dead letters; 1 is no limit. `max_files`: about how many files one task closes and one entry holds.
    `stop_scope`: sink or partition, how far it reaches that a topic-partition stops; `backoff`: the pauses of one that is tried again.
    `rewrite_grace_ms`: how long objects stay in the bucket that others have taken the place of.
    """

    sink: str
    topics: tuple[str, ...]
    topics_regex: str | None
    readiness: Readiness
    tasks_max: int
    reset: str
    lost: str
    refresh_ms: int
    record_timestamps: bool
    retry_timeout_ms: int = 0
    dead_letter_ratio: float = 1.0
    max_files: int = 5000
    stop_scope: str = "partition"
    rewrite_grace_ms: int = 86_400_000
    backoff: Backoff = field(default_factory=lambda: Backoff(0, 0))


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One topic-partition as the driver knows it.

    `examined` is the offset up to which the tail was read, at `examined_ms` (None: never); `tail` what was pending then; `more` whether
    the task's limit left records unread; `grown_ms` when the head last moved; `limit` the records of the next task at most, `least_limit`
    what that is at first; `waiting_ms` when the first of the records arrived that no task has read (None: there are none).
    `open_state` is where the files of the tail are kept open, `record_bytes` the size of a record as last seen. `leader_epoch` is
    that of the log when it reached to the head and to the dead letters that are `recorded`, `open_epoch` when it reached to the end of the
    open files (None: not known). The two differ from a start to its first poll. `incarnation` is another number when the offsets after the
    frontier may be those of other records, or are read anew: what was read before does not hold then.
    """

    topic_partition: TopicPartition
    frontier: int
    rotation_ms: int | None
    recorded: OffsetSet = field(default_factory=OffsetSet)
    deliveries: tuple[Delivery, ...] = ()
    examined: int = 0
    examined_ms: int | None = None
    tail: Tail = field(default_factory=Tail)
    grown_ms: int = 0
    limit: int = FIRST_LIMIT
    least_limit: int = FIRST_LIMIT
    more: bool = False
    waiting_ms: int | None = None
    open_state: OpenState | None = None
    record_bytes: float = 0.0
    leader_epoch: int | None = None
    open_epoch: int | None = None
    incarnation: int = field(default_factory=new_incarnation, compare=False)

    @property
    def head(self) -> int:
        """The newest known head."""
        return self.deliveries[-1].until if self.deliveries else self.frontier

    @property
    def seen(self) -> int:
        """The highest offset that is known to have been there, by a poll or by what the last driver's tasks read."""
        return max(self.head, self.recorded.until, self.first_unread)

    @property
    def known(self) -> tuple[LogEnd, ...]:
        """What proves that the log is still the same: offsets that it reached, each with the leader epoch that it had then."""
        if self.open_state is None or self.open_epoch == self.leader_epoch:
            return (LogEnd(self.seen, self.leader_epoch),)
        log = LogEnd(max(self.head, self.recorded.until), self.leader_epoch)
        return log, LogEnd(self.first_unread, self.open_epoch)

    @property
    def lag(self) -> int:
        """Records between the frontier and the newest known head."""
        return max(self.head - self.frontier, 0)

    @property
    def unexamined(self) -> int:
        """Offsets of the tail that no task has read yet."""
        return max(self.head - max(self.examined, self.frontier), 0)

    @property
    def first_unread(self) -> int:
        """Where the next task begins to read: where the last one stopped if its files are kept open, else at the frontier."""
        return self.frontier if self.open_state is None else self.open_state.examined


def delivered(state: PartitionState, now_ms: int, head: int, readiness: Readiness) -> PartitionState:
    """The state after a poll; the same one where the poll showed nothing new."""
    before = _not_ahead(state, now_ms, readiness.rules)
    head = max(head, before.head)
    rotation_ms, waiting_ms = before.rotation_ms, before.waiting_ms
    if head <= before.frontier and rotation_ms is not None and now_ms >= rotation_ms:
        rotation_ms = readiness.rules.next_rotation(now_ms)  # nothing pending: the timer just moves
    if head <= max(before.examined, before.frontier):
        waiting_ms = None
    elif waiting_ms is None:
        waiting_ms = now_ms
    deliveries = _with_arrival(before.deliveries, Delivery(now_ms, head), readiness)
    if deliveries is before.deliveries and (rotation_ms, waiting_ms) == (before.rotation_ms, before.waiting_ms):
        return before
    grown_ms = now_ms if head > before.head or not before.deliveries else before.grown_ms
    return replace(before, rotation_ms=rotation_ms, waiting_ms=waiting_ms, grown_ms=grown_ms, deliveries=deliveries)


def _with_arrival(deliveries: tuple[Delivery, ...], arrival: Delivery, readiness: Readiness) -> tuple[Delivery, ...]:
    """The deliveries with the one of this poll. Those that no rule can tell apart are merged."""
    if not deliveries:
        return (arrival,)
    last, rules = deliveries[-1], readiness.rules
    if rules.next_rotation(last.now_ms) == rules.next_rotation(arrival.now_ms):
        if arrival.until == last.until:
            return deliveries
        if not readiness.wall_clock:
            return (*deliveries[:-1], arrival)
    more = (*deliveries, arrival)
    return coarser(more, readiness) if len(more) % MANY_DELIVERIES == 0 else more


def coarser(deliveries: Sequence[Delivery], readiness: Readiness) -> tuple[Delivery, ...]:
    """Fewer deliveries, as if the sink had polled less often: never across a mark of the schedule or a change of directory.

    Where `rotate.interval.ms` acts, a time is off by a thousandth of it at most.
    """
    rules = readiness.rules
    directory = gcd(readiness.directory_ms, QUARTER_MS)  # zones differ by quarters of an hour
    step = max(rules.interval_ms // 1000, 1) if rules.interval_ms > 0 else directory

    def slot(delivery: Delivery) -> tuple[int | None, int, int]:
        return rules.next_rotation(delivery.now_ms), delivery.now_ms // directory, delivery.now_ms // step

    return tuple(list(group)[-1] for _, group in groupby(deliveries, key=slot))


def cut_off(state: PartitionState, head: int) -> PartitionState:
    """The state after the log was truncated at `head`, above the frontier: what was known beyond is forgotten."""
    short = [replace(delivery, until=min(delivery.until, head)) for delivery in state.deliveries]
    deliveries = tuple(next(group) for _, group in groupby(short, key=lambda delivery: delivery.until))
    recorded = state.recorded.before(head)
    left = replace(state, deliveries=deliveries, recorded=recorded, more=False, incarnation=new_incarnation())
    if left.examined <= head:
        return left
    return replace(left, examined=left.frontier, examined_ms=None, tail=Tail(), open_state=None)


def committed(state: PartitionState, report: TaskReport, now_ms: int) -> PartitionState:
    """The state after a report was committed."""
    if report.dropped:  # nothing was done: the tail is read at once, from the frontier
        return replace(state, open_state=None, examined=state.frontier, more=True)
    more = report.until < state.head
    asked = min(state.head, state.first_unread + state.limit)
    kept = tuple(d for d in state.deliveries if d.until > report.frontier)
    return replace(
        state,
        frontier=report.frontier,
        rotation_ms=report.next_rotation_ms,
        recorded=state.recorded.plus(report.dead).since(report.frontier),
        deliveries=kept or state.deliveries[-1:],
        examined=report.until,
        examined_ms=now_ms,
        tail=report.tail,
        limit=_next_limit(state, report, more=more, full=report.until < asked),
        more=more,
        waiting_ms=now_ms if more else None,
        open_state=report.state,
        open_epoch=state.leader_epoch,
        record_bytes=report.read_bytes / report.read if report.read else state.record_bytes,
    )


def _next_limit(state: PartitionState, report: TaskReport, *, more: bool, full: bool) -> int:
    """How many records the next task reads: no more than became as many files as one task closes, then more again."""
    if full:
        return max(report.until - state.first_unread, LEAST_LIMIT)
    grown = state.limit * 2
    stuck = more and report.frontier == state.frontier and report.state is None
    return grown if stuck else min(grown, state.least_limit)


def _not_ahead(state: PartitionState, now_ms: int, rules: RotationRules) -> PartitionState:
    """The state with no time later than now: where the clock was set back, nothing waits until it is there again."""
    mark, times = rules.next_rotation(now_ms), [delivery.now_ms for delivery in state.deliveries]
    jumped = max(state.grown_ms, state.examined_ms or 0, *times[-1:]) > now_ms
    if not jumped and (mark is None or state.rotation_ms is None or state.rotation_ms <= mark):
        return state
    return replace(
        state,
        rotation_ms=mark,
        deliveries=tuple(Delivery(min(d.now_ms, now_ms), d.until) for d in state.deliveries),
        examined_ms=None if state.examined_ms is None else min(state.examined_ms, now_ms),
        grown_ms=min(state.grown_ms, now_ms),
        waiting_ms=None if state.waiting_ms is None else min(state.waiting_ms, now_ms),
    )


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
    state: PartitionState, now_ms: int, readiness: Readiness, *, interval_reached: bool = False
) -> Assignment | None:
    """The range to read now, None where nothing can close. `interval_reached`: the time index shows a record past the interval."""
    reason = reason_to_read(state, now_ms, readiness, interval_reached=interval_reached)
    if reason is None:
        return None
    planned = assignment(state, close=Reason.FLUSH_IDLE if reason is ReadReason.IDLE else None)
    facts = {
        "partition": str(planned.topic_partition),
        "start": planned.start,
        "until": planned.until,
        "reason": str(reason),
    }
    _log.debug("planned", extra={"facts": facts})
    return planned


def reason_to_read(
    state: PartitionState, now_ms: int, readiness: Readiness, *, interval_reached: bool = False
) -> ReadReason | None:
    """Why the topic-partition is read now, None where nothing can close."""
    if state.head <= state.frontier:
        return None
    if 0 < readiness.rules.idle_ms <= now_ms - state.grown_ms:
        return ReadReason.IDLE
    if interval_reached:
        return ReadReason.INTERVAL
    return _due(state, now_ms, readiness)


def _due(state: PartitionState, now_ms: int, readiness: Readiness) -> ReadReason | None:
    rules = readiness.rules
    since = state.examined_ms
    # a mark between this poll and now is acted on by the next poll, not by reading in vain
    arrived_ms = state.deliveries[-1].now_ms
    if state.more:
        return ReadReason.BACKLOG
    if state.rotation_ms is not None and arrived_ms >= state.rotation_ms:
        return ReadReason.SCHEDULE
    if not state.unexamined:
        return None
    count = (state.tail.records if since is not None else 0) + state.unexamined
    if 0 <= rules.flush_size <= count:
        return ReadReason.COUNT
    if state.unexamined >= state.least_limit or _worth_a_task(state, readiness):
        return ReadReason.MUCH
    first_ms = state.deliveries[0].now_ms if state.waiting_ms is None else state.waiting_ms
    waited = now_ms - (first_ms if since is None else since)
    if waited >= readiness.check_ms:
        return ReadReason.CHECK
    return ReadReason.GROWTH if _by_growth(state, waited, readiness) else None


def _worth_a_task(state: PartitionState, readiness: Readiness) -> bool:
    """Whether what is unread is enough for a task of its own, which reads nothing else."""
    if state.open_state is None and state.examined > state.frontier:
        return False
    unread = state.unexamined
    by_records = 0 < readiness.worth_records <= unread
    return by_records or 0 < readiness.worth_bytes <= unread * state.record_bytes


def _by_growth(state: PartitionState, waited: int, readiness: Readiness) -> bool:
    """For rules that cannot be judged from outside: read when never read, when the tail has doubled, or after a part of the interval."""
    rules = readiness.rules
    if not (readiness.by_record_time or rules.flush_bytes > 0):
        return False
    examined = max(state.examined - state.frontier, 0)
    doubled = state.unexamined >= examined
    return doubled or (readiness.by_record_time and waited >= rules.interval_ms / CLOCK_PARTS)


def assignment(state: PartitionState, *, close: Reason | None = None) -> Assignment:
    """Everything that is unread up to the head, or the limit; `close` closes the tail if the range reaches the head."""
    until = min(state.head, state.first_unread + state.limit)
    deliveries = []
    for delivery in state.deliveries:
        deliveries.append(delivery)
        if delivery.until >= until and until < state.head:
            break
    return Assignment(
        state.topic_partition,
        state.frontier,
        until,
        tuple(deliveries),
        state.rotation_ms,
        state.recorded,
        close if until == state.head else None,
        state=state.open_state,
        incarnation=state.incarnation,
    )


def closing_held(wanted: Assignment) -> Assignment:
    """The same without what is unread: its open files are closed with what they hold, because what follows is lost."""
    held = wanted.first_unread
    deliveries = tuple(delivery for delivery in wanted.deliveries if delivery.until <= held)
    return replace(wanted, until=held, deliveries=deliveries or wanted.deliveries[:1], close=Reason.LOST_OFFSETS)


def waves(assignments: Iterable[Assignment], tasks: int) -> list[list[Assignment]]:
    """The assignments in groups that at most `tasks` (`tasks.max`) can process, the largest backlogs together.

    With two tasks, of ranges long long quiet quiet the first two are one wave, and the others the next, as one task takes both.
    """
    found: list[list[Assignment]] = []
    room = 0
    for wanted in sorted(assignments, key=lambda a: a.first_unread - a.until):
        share = 1 if is_quiet(wanted) else RANGES_IN_A_TASK
        if share > room:
            found.append([])
            room = tasks * RANGES_IN_A_TASK
        found[-1].append(wanted)
        room -= share
    return found


def is_quiet(wanted: Assignment) -> bool:
    """Whether a range is so short that it shares a task with others."""
    return wanted.until - wanted.first_unread < QUIET_OFFSETS
