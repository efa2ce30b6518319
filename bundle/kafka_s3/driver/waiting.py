"""What of each topic is not in objects yet, and since when? For whoever watches the sink."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_s3.driver.planner import PartitionState
from kafka_s3.model.observer import Waiting


def waiting_by_topic(partition_states: Iterable[PartitionState]) -> dict[str, Waiting]:
    """What waits of each topic, over its topic-partitions."""
    found: dict[str, Waiting] = {}
    for one in partition_states:
        topic = one.topic_partition.topic
        found[topic] = _together(found.get(topic, Waiting(0)), _waiting(one))
    return found


def _waiting(one: PartitionState) -> Waiting:
    records = max(one.head - one.frontier, 0)
    if not records:
        return Waiting(0)
    return Waiting(records, one.deliveries[0].now_ms, one.tail.base_ms if one.tail.records else None)


def _together(left: Waiting, right: Waiting) -> Waiting:
    return Waiting(
        left.records + right.records,
        _earlier(left.since_ms, right.since_ms),
        _earlier(left.oldest_open_ms, right.oldest_open_ms),
    )


def _earlier(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
