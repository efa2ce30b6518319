"""Topic-partitions as the driver's tests know them, and rules of rotation for them."""

from __future__ import annotations

from datetime import UTC

from kafka_s3.engine.loop.planner import PartitionState, Readiness
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Delivery, Tail, TaskReport

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
