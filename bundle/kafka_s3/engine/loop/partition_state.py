"""Where does one topic-partition stand, and how do looks and commits move it? Pure functions from state to state.

*Deliveries*: each look at the heads is a delivery in Connect's words, `(now, head)`; a record's wall-clock time is that of the first
delivery past it. Those that no rule can tell apart are one; of very many, neighbours become one as if the sink had looked less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import gcd
from typing import Final

from kafka_s3.engine.loop.behaviour import FIRST_LIMIT, Readiness
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.offsets import LogEnd, OffsetSet, TopicPartition
from kafka_s3.model.tasks import Delivery, OpenState, Tail, TaskReport

LEAST_LIMIT: Final = 1000
MANY_DELIVERIES: Final = 1000
QUARTER_MS: Final = 900_000


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One topic-partition as the driver knows it.

    `examined` is the offset up to which the tail was read, at `examined_ms` (None: never); `tail` what was pending then; `more` whether
    the task's limit left records unread; `grown_ms` when the head last moved; `limit` the records of the next task at most, `least_limit`
    what that is at first; `waiting_ms` when the first of the records arrived that no task has looked at (None: there are none).
    `open_state` is where the files of the tail are kept open, `record_bytes` the size of a record as last seen. `leader_epoch` is
    that of the log when it reached to the head and to the dead letters that are `recorded`, `open_epoch` when it reached to the end of the
    open files (None: not known). The two differ from a start to its first look.
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

    @property
    def head(self) -> int:
        """The newest known head."""
        return self.deliveries[-1].until if self.deliveries else self.frontier

    @property
    def seen(self) -> int:
        """The highest offset that is known to have been there, by a look or by what the last driver's tasks read."""
        return max(self.head, self.recorded.until, self.first_unread)

    @property
    def known(self) -> tuple[LogEnd, ...]:
        """What proves that the log is still the same: offsets that it reached, each with the leader epoch that it had then."""
        if self.open_state is None or self.open_epoch == self.leader_epoch:
            return (LogEnd(self.seen, self.leader_epoch),)
        log = LogEnd(max(self.head, self.recorded.until), self.leader_epoch)
        return log, LogEnd(self.first_unread, self.open_epoch)

    @property
    def unexamined(self) -> int:
        """Offsets of the tail that no task has read yet."""
        return max(self.head - max(self.examined, self.frontier), 0)

    @property
    def first_unread(self) -> int:
        """Where the next task begins to read: where the last one stopped if its files are kept open, else at the frontier."""
        return self.frontier if self.open_state is None else self.open_state.examined


def delivered(partition_state: PartitionState, now_ms: int, head: int, readiness: Readiness) -> PartitionState:
    """The partition_state after a look at the head; the same one where the look showed nothing new."""
    before = _not_ahead(partition_state, now_ms, readiness.rules)
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
    """The deliveries with the one of this look. Those that no rule can tell apart are merged."""
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
    """Fewer deliveries, as if the sink had looked less often: never across a mark of the schedule or a change of directory.

    Where `rotate.interval.ms` acts, a time is off by a thousandth of it at most.
    """
    rules = readiness.rules
    directory = gcd(readiness.directory_ms, QUARTER_MS)  # zones differ by quarters of an hour
    step = max(rules.interval_ms // 1000, 1) if rules.interval_ms > 0 else directory

    def slot(delivery: Delivery) -> tuple[int | None, int, int]:
        return rules.next_rotation(delivery.now_ms), delivery.now_ms // directory, delivery.now_ms // step

    return tuple(list(group)[-1] for _, group in groupby(deliveries, key=slot))


def cut_off(partition_state: PartitionState, head: int) -> PartitionState:
    """The partition_state after the log was truncated at `head`, above the frontier: what was known beyond is forgotten."""
    short = [replace(delivery, until=min(delivery.until, head)) for delivery in partition_state.deliveries]
    state = replace(
        partition_state,
        deliveries=tuple(next(group) for _, group in groupby(short, key=lambda delivery: delivery.until)),
        recorded=partition_state.recorded.before(head),
        more=False,
    )
    if state.examined <= head:
        return state
    return replace(state, examined=state.frontier, examined_ms=None, tail=Tail(), open_state=None)


def committed(partition_state: PartitionState, report: TaskReport, now_ms: int) -> PartitionState:
    """The partition_state after a report was committed."""
    if report.dropped:  # nothing was done: the tail is read at once, from the frontier
        return replace(partition_state, open_state=None, examined=partition_state.frontier, more=True)
    more = report.until < partition_state.head
    asked = min(partition_state.head, partition_state.first_unread + partition_state.limit)
    kept = tuple(d for d in partition_state.deliveries if d.until > report.frontier)
    return replace(
        partition_state,
        frontier=report.frontier,
        rotation_ms=report.next_rotation_ms,
        recorded=partition_state.recorded.plus(report.dead).since(report.frontier),
        deliveries=kept or partition_state.deliveries[-1:],
        examined=report.until,
        examined_ms=now_ms,
        tail=report.tail,
        limit=_next_limit(partition_state, report, more=more, full=report.until < asked),
        more=more,
        waiting_ms=now_ms if more else None,
        open_state=report.state,
        open_epoch=partition_state.leader_epoch,
        record_bytes=report.read_bytes / report.read if report.read else partition_state.record_bytes,
    )


def _next_limit(partition_state: PartitionState, report: TaskReport, *, more: bool, full: bool) -> int:
    """How many records the next task reads: no more than became as many files as one task closes, then more again."""
    if full:
        return max(report.until - partition_state.first_unread, LEAST_LIMIT)
    grown = partition_state.limit * 2
    stuck = more and report.frontier == partition_state.frontier and report.state is None
    return grown if stuck else min(grown, partition_state.least_limit)


def _not_ahead(partition_state: PartitionState, now_ms: int, rules: RotationRules) -> PartitionState:
    """The partition_state with no time later than now: where the clock was set back, nothing waits until it is there again."""
    mark, times = rules.next_rotation(now_ms), [delivery.now_ms for delivery in partition_state.deliveries]
    jumped = max(partition_state.grown_ms, partition_state.examined_ms or 0, *times[-1:]) > now_ms
    if not jumped and (mark is None or partition_state.rotation_ms is None or partition_state.rotation_ms <= mark):
        return partition_state
    return replace(
        partition_state,
        rotation_ms=mark,
        deliveries=tuple(Delivery(min(d.now_ms, now_ms), d.until) for d in partition_state.deliveries),
        examined_ms=None if partition_state.examined_ms is None else min(partition_state.examined_ms, now_ms),
        grown_ms=min(partition_state.grown_ms, now_ms),
        waiting_ms=None if partition_state.waiting_ms is None else min(partition_state.waiting_ms, now_ms),
    )
