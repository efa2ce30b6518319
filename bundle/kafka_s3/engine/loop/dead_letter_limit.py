"""Are so many records of a turn dead letters that something else is wrong? What the tasks found, and the sum over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_s3.engine.task.dead_letters import LIMIT_FROM, excess
from kafka_s3.model.errors import RecordError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import TaskReport

LIMIT_REMEDY: Final = (
    "Nothing of their batch was committed. Correct the configuration or the producers; to go on as it is, raise "
    "errors.deadletter.max.ratio (1 is no limit)."
)


def stops_above_limit(reports: Sequence[TaskReport], *, sink: str, ratio: float) -> dict[TopicPartition, RecordError]:
    """The topic-partitions that stop at the limit, with the commonest reason: those whose own share of bad records is above it.

    A task stops by itself where its own are too many; many small ones are counted together here.
    """
    stops = {
        one.topic_partition: f"{one.excess} Most often: {one.commonest}" for one in reports if one.excess is not None
    }
    others = [one for one in reports if one.excess is None]
    read, dead = sum(one.read for one in others), sum(len(one.dead) for one in others)
    if read >= LIMIT_FROM and dead > ratio * read:
        worst = max(others, key=lambda report: len(report.dead))
        text = f"{excess(dead, read, ratio=ratio)} Most often, in {worst.topic_partition}: {worst.commonest}"
        stops |= {one.topic_partition: text for one in others if len(one.dead) > ratio * one.read}
    return {
        tp: RecordError(f"Sink {sink} has too many bad records: {text} {LIMIT_REMEDY}") for tp, text in stops.items()
    }
