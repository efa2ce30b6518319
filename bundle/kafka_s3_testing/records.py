"""Which records does a test give to a sink?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be read by a sink. `timestamp_ms` is epoch ms (None: the time of the run); None as `value` is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0


Records: TypeAlias = Mapping[str, Iterable[Record | bytes | None]]
"""Records by topic, in the order of their offsets; a bare value is a record of partition 0 with nothing but that value."""


def by_partition(records: Records) -> dict[TopicPartition, list[Record]]:
    """The records of each topic-partition in order; partition 0 of every topic is there, if need be empty."""
    found: dict[TopicPartition, list[Record]] = {}
    for topic, given in records.items():
        found[TopicPartition(topic, 0)] = []
        for one in given:
            record = one if isinstance(one, Record) else Record(one)
            found.setdefault(TopicPartition(topic, record.partition), []).append(record)
    return found
