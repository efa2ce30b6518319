"""Topics whose logs have everything that a log can have: a seed says what is produced, and how it is cut into batches and transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_s3.connect.converters.converter import VALUE_SCHEMA

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
NAMES: Final = ("a", "b", "größe", "", VALUE_SCHEMA)
COMPACTED: Final = {
    "cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0",
}  # fmt: skip
TIME: Final = 1_736_935_200_000


@dataclass(frozen=True)
class Seen:
    """A record as a plain consumer sees it."""

    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class Scene:
    """One topic, and who produces to it. `keyed`: every record has one of few keys, as compaction wants it."""

    servers: str
    topic: str
    partitions: int
    draw: random.Random
    keyed: bool = False

    @contextmanager
    def produced(self, acts: int) -> Iterator[None]:
        """Some acts of producers, one after the other; a last transaction may be open as long as the block lasts."""
        for _ in range(acts):
            if self.draw.random() < 0.5 or self.keyed:
                producer = self._producer()
                self._send(producer)
            else:
                end = self.draw.choice(["commit", "abort"])
                getattr(self._transaction(), f"{end}_transaction")(30)
        left = self._transaction() if self.draw.random() < 0.3 and not self.keyed else None
        try:
            yield
        finally:
            if left is not None:
                left.abort_transaction(30)

    def _producer(self, **settings: Any) -> Producer:
        return Producer({
            "bootstrap.servers": self.servers, "compression.type": self.draw.choice(CODECS), "linger.ms": self.draw.choice([0, 5]),
            "batch.num.messages": self.draw.choice([1, 2, 7, 10_000]), "log_level": 0, **settings,
        })  # fmt: skip

    def _transaction(self) -> Producer:
        producer = self._producer(**{"transactional.id": f"{self.topic}-{self.draw.getrandbits(64)}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        self._send(producer)
        return producer

    def _send(self, producer: Producer) -> None:
        for _ in range(self.draw.choice([1, 3, 20, 60])):
            key = b"%d" % self.draw.randrange(3) if self.keyed else self._bytes()
            producer.produce(
                self.topic, self._bytes(), key, partition=self.draw.randrange(self.partitions), headers=self._headers(),
                timestamp=TIME + self.draw.randint(-5, 10**6),
            )  # fmt: skip
        assert producer.flush(30) == 0

    def _bytes(self) -> bytes | None:
        size = self.draw.choice([None, 0, 1, 7, 100, 100, 1000, 1000, 40_000])
        return None if size is None else self.draw.randbytes(size)

    def _headers(self) -> list[tuple[str, bytes | None]]:
        return [
            (self.draw.choice(NAMES), self.draw.choice([None, b"", b"x", b"\x00\xff"]))
            for _ in range(self.draw.choice([0, 0, 1, 2, 5]))
        ]

    def seen(self, partition: int, until: int, isolation: str) -> list[Seen]:
        """Every record below `until`, by a plain consumer."""
        consumer = Consumer({
            "bootstrap.servers": self.servers, "group.id": "judge", "enable.auto.commit": False, "isolation.level": isolation,
            "enable.partition.eof": True, "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        found: list[Seen] = []
        try:
            while (message := consumer.poll(30)) is not None and message.error() is None and message.offset() < until:
                kind, time_ms = message.timestamp()
                found.append(Seen(
                    message.offset(), time_ms, kind, message.key(), message.value(), tuple(message.headers() or ())
                ))  # fmt: skip
        finally:
            consumer.close()
        assert message is not None, "the judge waits in vain"
        return found
