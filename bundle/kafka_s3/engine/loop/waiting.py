"""What of each topic is not in objects yet, and since when? For whoever watches the sink."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_s3.engine.loop.partition_state import PartitionState
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Waiting


@dataclass
class Waits:
    """Remembers, of each topic-partition with open files, at which frontier and since when (epoch ms) they have been seen open."""

    _open: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def by_topic(self, partition_states: Iterable[PartitionState], now_ms: int) -> dict[str, Waiting]:
        """What waits of each topic now, over its topic-partitions."""
        found: dict[str, Waiting] = {}
        before, self._open = self._open, {}
        for one in partition_states:
            tp = one.topic_partition
            open_ms = None
            if one.tail.records and one.head > one.frontier:
                frontier, since_ms = before.get(tp, (one.frontier, now_ms))
                open_ms = since_ms if frontier == one.frontier else now_ms
                self._open[tp] = one.frontier, open_ms
            here = Waiting(max(one.head - one.frontier, 0), one.waiting_ms, open_ms)
            found[tp.topic] = _together(found.get(tp.topic, Waiting(0)), here)
        return found


def _together(left: Waiting, right: Waiting) -> Waiting:
    return Waiting(
        left.records + right.records,
        _earlier(left.unread_since_ms, right.unread_since_ms),
        _earlier(left.open_since_ms, right.open_since_ms),
    )


def _earlier(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
