"""What is produced, and what is in Kafka? Read by a plain consumer, without the product's code, so as to judge it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

BATCH_HEAD = 12
"""A batch's first offset and its length, which counts what follows."""


@dataclass(frozen=True)
class Given:
    """A record to produce."""

    value: bytes | None
    partition: int = 0
    timestamp_ms: int = 1_736_935_200_000  # 2025-01-15T10:00:00Z
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def document(**fields: Any) -> bytes:
    """A JSON value as most producers write it."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def produce(servers: str, topic: str, records: Iterable[Given], **settings: str) -> None:
    """Sends the records, in order."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **settings})
    for record in records:
        producer.produce(
            topic, record.value, record.key, partition=record.partition, timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(30) == 0


def kafka_records(servers: str, topic: str, partitions: int) -> dict[tuple[int, int], bytes | None]:
    """Every record of a topic as Kafka has it, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False})
    found: dict[tuple[int, int], bytes | None] = {}
    for partition in range(partitions):
        low, head = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, low)])
        position = low
        while position < head:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found[partition, message.offset()] = message.value()
            position = message.offset() + 1
    consumer.close()
    return found


def committed_records(servers: str, topic: str, partition: int = 0) -> list[Given]:
    """The records of a partition that readers of committed records see, in order, without headers of the product's own."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Given] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        headers = tuple(one for one in message.headers() or () if not one[0].startswith("kafka_s3."))
        found.append(Given(message.value(), partition, message.timestamp()[1], message.key(), headers))
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    return found


def group_offsets(servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """What a consumer group has committed, by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    committed = consumer.committed([TopicPartition(topic, partition) for partition in range(partitions)], timeout=10)
    consumer.close()
    return {place.partition: place.offset for place in committed}


def cut_segment(folder: Path, offset: int) -> None:
    """Cuts a stopped broker's log before the batch that begins at this offset, as on a replica that never had the rest."""
    (segment,) = folder.glob("*.log")
    content, at = segment.read_bytes(), 0
    while (begins := struct.unpack_from(">qi", content, at))[0] < offset:
        at += BATCH_HEAD + begins[1]
    assert begins[0] == offset
    segment.write_bytes(content[:at])
    for other in folder.iterdir():  # the broker makes these again
        if other.suffix in (".index", ".timeindex", ".snapshot"):
            other.unlink()
