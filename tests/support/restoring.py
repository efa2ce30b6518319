"""A cluster in memory that records are written back to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from kafka_s3.kafka.producing import ProducerProgress, SendWithProgress
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.ops.restore.plan import ORIGIN
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.deaths import Died

NOW_MS = 1_800_000_000_000
"""The time of records that are written without one."""


@dataclass
class MemoryTarget:
    """Writes into a cluster in memory; dies once `lives` more records are written (None: never)."""

    kafka: MemoryKafka
    lives: int | None = None
    groups: dict[str, ProducerProgress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kafka = self.kafka
        self.describe, self.starts, self.heads, self.batches = kafka.describe, kafka.starts, kafka.heads, kafka.batches

    def create_topic(self, name: str, *, partitions: int) -> None:
        for partition in range(partitions):
            self.kafka.create(TopicPartition(name, partition))

    def progress(self, group: str, _: TopicPartition) -> ProducerProgress | None:
        return self.groups.get(group)

    @contextmanager
    def sending(self, _: TopicPartition, group: str) -> Iterator[SendWithProgress]:
        yield partial(self._send, group)

    def _send(
        self, group: str, topic: str, message: Message, *, partition: int = -1, progress: ProducerProgress | None = None
    ) -> None:
        if self.lives == 0:
            raise Died
        self.lives = None if self.lives is None else self.lives - 1
        tp = TopicPartition(topic, partition)
        offset = self.kafka.heads([tp])[tp]
        time = NOW_MS if message.timestamp is None else message.timestamp
        self.kafka.add(tp, MemoryRecord(offset, time, message.key, message.value, message.headers))
        if progress is not None:
            self.groups[group] = progress

    def found(self, topic: str, partition: int = 0) -> list[MemoryRecord]:
        """What the topic holds, without the headers that say where a record was in the bucket."""
        return [
            MemoryRecord(r.offset, r.timestamp, r.key, r.value, tuple(h for h in r.headers if h[0] != ORIGIN))
            for r in self.kafka.records[TopicPartition(topic, partition)]
        ]
