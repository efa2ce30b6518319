"""What can close a file now, and which offsets must be read for it? Pure decisions of the driver; nothing due, no job.

*Deliveries*: each look at the heads is a delivery in Connect's words, `(now, head)`; a record's wall-clock time is that of the first
delivery past it.
*Readiness*: the open tail is never stored, it is read again from the frontier, so a topic-partition is read only when a file can close:
by count, by the schedule's clock, by idle time; by record time when the brokers' time index says so, the backlog has doubled or a
quarter of the interval has passed; and at the latest after `tail.check.interval.ms`, so that bad records in the tail come to light.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kafka_s3.model import Reason, TopicPartition
from kafka_s3.offset_ranges import OffsetSet
from kafka_s3.rotation import RotationRules
from kafka_s3.tasks import Assignment, Delivery, Tail, TaskReport

FIRST_LIMIT = 1_000_000
CLOCK_PARTS = 4


@dataclass(frozen=True, slots=True)
class Readiness:
    """How eagerly to read.

    `wall_clock`: the extractor looks at the time of delivery. `check_ms`: `tail.check.interval.ms`, 0 is at once.
    """

    rules: RotationRules
    by_record_time: bool
    wall_clock: bool
    check_ms: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One topic-partition as the driver knows it.

    `examined` is the offset up to which the tail was read, at `examined_ms` (None: never); `tail` what was pending then; `more` whether
    the task's limit left records unread; `grown_ms` when the head last moved; `limit` the records of one task at most.
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
    more: bool = False

    @property
    def head(self) -> int:
        """The newest known head."""
        return self.deliveries[-1].until if self.deliveries else self.frontier

    @property
    def unexamined(self) -> int:
        """Offsets of the tail that no task has read yet."""
        return max(self.head - max(self.examined, self.frontier), 0)


def delivered(standing: Standing, now_ms: int, head: int, readiness: Readiness) -> Standing:
    """The standing after a look at the head. Deliveries that no rule can tell apart are merged."""
    standing = _not_ahead(standing, now_ms, readiness.rules)
    head = max(head, standing.head)
    if head <= standing.frontier and standing.rotation_ms is not None and now_ms >= standing.rotation_ms:
        standing = replace(
            standing, rotation_ms=readiness.rules.next_rotation(now_ms)
        )  # nothing pending: the timer just moves
    arrival = Delivery(now_ms, head)
    grown = now_ms if head > standing.head or not standing.deliveries else standing.grown_ms
    if not standing.deliveries:
        return replace(standing, deliveries=(arrival,), grown_ms=grown)
    last = standing.deliveries[-1]
    same_mark = readiness.rules.next_rotation(last.now_ms) == readiness.rules.next_rotation(now_ms)
    if same_mark and (head == last.until or not readiness.wall_clock):
        merged = last if head == last.until else arrival
        return replace(standing, deliveries=(*standing.deliveries[:-1], merged), grown_ms=grown)
    return replace(standing, deliveries=(*standing.deliveries, arrival), grown_ms=grown)


def plan(standing: Standing, now_ms: int, readiness: Readiness, *, interval_reached: bool = False) -> Assignment | None:
    """The range to read now, None where nothing can close. `interval_reached`: the time index shows a record past the interval."""
    if standing.head <= standing.frontier:
        return None
    idle = _idle(standing, now_ms, readiness.rules)
    if idle or interval_reached or _due(standing, now_ms, readiness):
        return assignment(standing, close=Reason.FLUSH_IDLE if idle else None)
    return None


def assignment(standing: Standing, *, close: Reason | None = None) -> Assignment:
    """Everything from the frontier to the head, up to the limit; `close` closes the tail if the range reaches the head."""
    until = min(standing.head, standing.frontier + standing.limit)
    deliveries = []
    for delivery in standing.deliveries:
        deliveries.append(delivery)
        if delivery.until >= until and until < standing.head:
            break
    return Assignment(
        standing.topic_partition,
        standing.frontier,
        until,
        tuple(deliveries),
        standing.rotation_ms,
        standing.recorded,
        close if until == standing.head else None,
    )


def committed(standing: Standing, report: TaskReport, now_ms: int) -> Standing:
    """The standing after a report was committed."""
    more = report.until < standing.head
    kept = tuple(d for d in standing.deliveries if d.until > report.frontier)
    return replace(
        standing,
        frontier=report.frontier,
        rotation_ms=report.next_rotation_ms,
        recorded=standing.recorded.plus(report.dead).since(report.frontier),
        deliveries=kept or standing.deliveries[-1:],
        examined=report.until,
        examined_ms=now_ms,
        tail=report.tail,
        limit=standing.limit * 2 if more and report.frontier == standing.frontier else FIRST_LIMIT,
        more=more,
    )


def in_turns(assignments: Iterable[Assignment], tasks: int) -> list[list[Assignment]]:
    """The assignments in groups of at most `tasks` (`tasks.max`), the largest backlogs together."""
    ordered = sorted(assignments, key=lambda a: a.start - a.until)
    return [ordered[at : at + tasks] for at in range(0, len(ordered), tasks)]


def _not_ahead(standing: Standing, now_ms: int, rules: RotationRules) -> Standing:
    """The standing with no time later than now: where the clock was set back, nothing waits until it is there again."""
    mark, times = rules.next_rotation(now_ms), [delivery.now_ms for delivery in standing.deliveries]
    jumped = max(standing.grown_ms, standing.examined_ms or 0, *times[-1:]) > now_ms
    if not jumped and (mark is None or standing.rotation_ms is None or standing.rotation_ms <= mark):
        return standing
    return replace(
        standing,
        rotation_ms=mark,
        deliveries=tuple(Delivery(min(d.now_ms, now_ms), d.until) for d in standing.deliveries),
        examined_ms=None if standing.examined_ms is None else min(standing.examined_ms, now_ms),
        grown_ms=min(standing.grown_ms, now_ms),
    )


def _due(standing: Standing, now_ms: int, readiness: Readiness) -> bool:
    rules = readiness.rules
    since = standing.examined_ms
    # a mark between this look and now is acted on by the next look, not by reading in vain
    arrived_ms = standing.deliveries[-1].now_ms
    if standing.more or (standing.rotation_ms is not None and arrived_ms >= standing.rotation_ms):
        return True
    if not standing.unexamined:
        return False
    count = (standing.tail.records if since is not None else 0) + standing.unexamined
    if 0 <= rules.flush_size <= count or standing.unexamined >= FIRST_LIMIT:
        return True
    waited = now_ms - (since if since is not None else standing.deliveries[0].now_ms)
    if waited >= readiness.check_ms:
        return True
    return _by_growth(standing, waited, readiness)


def _by_growth(standing: Standing, waited: int, readiness: Readiness) -> bool:
    """For rules that cannot be judged from outside: read when never read, when the tail has doubled, or after a part of the interval."""
    rules = readiness.rules
    if not (readiness.by_record_time or rules.flush_bytes > 0):
        return False
    examined = max(standing.examined - standing.frontier, 0)
    doubled = standing.unexamined >= examined
    return doubled or (readiness.by_record_time and waited >= rules.interval_ms / CLOCK_PARTS)


def _idle(standing: Standing, now_ms: int, rules: RotationRules) -> bool:
    return rules.idle_ms > 0 and now_ms - standing.grown_ms >= rules.idle_ms
