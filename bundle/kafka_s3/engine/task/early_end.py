"""What does a task report that ended early? Its offsets stay where they were, and why it ended."""

from __future__ import annotations

from kafka_s3.engine.task.dead_letters.bad_records import Stopped
from kafka_s3.engine.task.dead_letters.file import DeadLetterFile
from kafka_s3.engine.task.error_policy import ErrorPolicy
from kafka_s3.model.tasks import Assignment, TaskReport


def stopped(wanted: Assignment, stop: Stopped, *, policy: ErrorPolicy, read: int) -> TaskReport:
    """The report of a task that met a record at which the sink stops, after so many that it has read."""
    tp, start, failure, letter = wanted.topic_partition, wanted.start, stop.failure, stop.letter
    return TaskReport(
        tp,
        start,
        wanted.until,
        start,
        read=read,
        failure=str(letter),
        failed_at=(letter.stage, letter.offset),
        needs=stop.needs,
        remedy=policy.remedy(failure, tp, start=start, needs=stop.needs),
        letter=letter if policy.reports(failure) else None,
    )


def above_limit(wanted: Assignment, excess: str, letters: DeadLetterFile, *, read: int) -> TaskReport:
    """The report of a task whose dead letters are too many."""
    tp, start = wanted.topic_partition, wanted.start
    return TaskReport(tp, start, wanted.until, start, read=read, excess=excess, commonest=letters.commonest)


def dropped(wanted: Assignment, why: str) -> TaskReport:
    """The report of a task that could not go on with the files that were left open."""
    tp, start = wanted.topic_partition, wanted.start
    return TaskReport(tp, start, start, start, next_rotation_ms=wanted.next_rotation_ms, dropped=why)
