"""What does a record look like to the client in this process? Offset, time, key, value and headers; a range of records as Arrow batches.

This client has a form for everything that Kafka holds: a time is a 64-bit number here, whatever it counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Place

from kafka_s3.kafka.clients import CHECK, DAMAGED, REQUEST_SECONDS, TRANSIENT, Clients, damaged, lost, unanswered
from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import TopicPartition

GROUP: Final = "kafka-s3-envelopes"
POLL_SECONDS: Final = 0.5
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 16 << 20
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
ENVELOPE: Final = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER)),
])  # fmt: skip
"""The columns of a batch; `timestamp` is epoch ms, null where the record has none."""


def envelopes(clients: Clients, topic_partition: TopicPartition, *, start: int, until: int) -> Iterator[pa.RecordBatch]:
    """The records with offsets in `[start, until)`, ascending, in batches of at most 16 MiB and one record.

    Raises KafkaUnavailable where nothing comes for 30 seconds, OffsetsLost where `start` is gone, UnreadableRecord where what the brokers
    hold are no records, SourceError where they refuse.
    """
    consumer = clients.consumer(GROUP)
    try:
        consumer.assign([Place(*topic_partition, start)])
        for messages in _by_size(_messages(consumer, topic_partition, start, until=until)):
            yield pa.RecordBatch.from_pylist([_row(message) for message in messages], schema=ENVELOPE)
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[Message]:
    """The messages before `until`; the end of the partition ends them only if it lies there."""
    quiet_since = time.monotonic()
    while True:
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            if time.monotonic() - quiet_since > REQUEST_SECONDS:
                raise unanswered(f"Kafka sent no record of {topic_partition} for {REQUEST_SECONDS:.0f} s.")
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise _failure(error, topic_partition, start)
        offset = message.offset()
        if offset is not None and offset >= until:
            return
        if error is None:
            quiet_since = time.monotonic()
            yield message
            start = (offset or 0) + 1


def _by_size(messages: Iterable[Message]) -> Iterator[list[Message]]:
    batch, size = list[Message](), 0
    for message in messages:
        batch.append(message)
        size += len(message)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _row(message: Message) -> Mapping[str, Any]:
    kind, at = message.timestamp()
    named: Iterable[Any] = message.headers() or ()
    headers = [{"key": name, "value": value} for name, value in named]
    return {
        "offset": message.offset(), "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else at,
        "key": message.key(), "value": message.value(), "headers": headers,
    }  # fmt: skip


def _failure(error: KafkaError, topic_partition: TopicPartition, offset: int) -> SourceError:
    text = f"{error.str()} ({error.name()})"
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return lost(f"{topic_partition} does not have offset {offset} ({text}).")
    if error.code() in DAMAGED:
        return damaged(topic_partition, offset, text)
    if error.retriable() or error.code() in TRANSIENT:
        return unanswered(f"Kafka did not give the records of {topic_partition}: {text}.")
    return SourceError(f"Kafka did not give the records of {topic_partition}: {text}. {CHECK}")
