"""Are so many records of a turn dead letters that something else is wrong? What the tasks found, and the sum over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_s3.model.errors import RecordError
from kafka_s3.model.tasks import TaskReport
from kafka_s3.task.dead_letters.limit import LIMIT_FROM, excess

LIMIT_REMEDY: Final = (
    "Nothing of this batch was committed. Correct the configuration or the producers; to go on as it is, raise "
    "errors.deadletter.max.ratio (1 is no limit)."
)


def stop_above_limit(reports: Sequence[TaskReport], *, sink: str, ratio: float) -> RecordError | None:
    """The error with which a sink stops at the limit, with the commonest reason; None below it."""
    exceeded = above_limit(reports, ratio=ratio)
    return None if exceeded is None else RecordError(f"Sink {sink} stops: {exceeded} {LIMIT_REMEDY}")


def above_limit(reports: Sequence[TaskReport], *, ratio: float) -> str | None:
    """A sentence with the numbers and the commonest reason, where more of a turn's records became dead letters than the ratio allows.

    A task stops by itself where its own are too many; many small ones are counted together here.
    """
    for report in reports:
        if report.excess is not None:
            return f"{report.excess} Most often: {report.commonest}"
    read, dead = sum(report.read for report in reports), sum(len(report.dead) for report in reports)
    if read < LIMIT_FROM or dead <= ratio * read:
        return None
    worst = max(reports, key=lambda report: len(report.dead))
    return f"{excess(dead, read, ratio=ratio)} Most often, in {worst.topic_partition}: {worst.commonest}"
