"""Which records does Kafka have in a range of offsets? For all who look outside of tasks: `verify`, `explain`, `simulate`, `restore`.

A consumer of confluent-kafka without Spark and without a consumer group; nothing is committed. It shares no code with the reader of the
tasks, which `verify` checks by it, and has a form for everything that Kafka holds: a time is a 64-bit number here, whatever it counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientTopicPartition

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.clients import CHECK, DAMAGED, TRANSIENT, damaged, lost, unanswered
from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.offsets import TopicPartition

GROUP: Final = "kafka-s3-plain-reader"
AT_ONCE: Final = {"fetch.queue.backoff.ms": "10"}
"""A full queue is looked at again so soon. librdkafka waits a second, in which it is empty again: 100,000 records a second at best."""
POLL_SECONDS: Final = 0.3
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 16 << 20
FIRST_ROWS: Final = 16
"""So many records are asked for before it is known how large they are."""
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
ENVELOPE: Final = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER)),
])  # fmt: skip
"""The columns of a batch; `timestamp` is epoch ms, null where the record has none."""


class PlainReader:
    """A real cluster; `properties` are the sink's own client properties by their Java names, so that it sees what the sink sees.

    Methods raise KafkaUnavailable where the brokers do not answer, SourceError where they refuse.
    """

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str]) -> None:
        self._brokers = KafkaBrokers(bootstrap_servers, properties=properties)
        # what the brokers know of the topics is asked here, too
        self.cluster_id = self._brokers.cluster_id
        self.describe = self._brokers.describe
        self.starts = self._brokers.starts
        self.heads = self._brokers.heads

    def compacted(self, names: Sequence[str]) -> set[str]:
        """The topics whose `cleanup.policy` names compaction. Where that may not be read: all of them, which is the milder check."""
        return {name for name in names if self._is_compacted(name)}

    def _is_compacted(self, name: str) -> bool:
        try:
            return "compact" in self._brokers.topic_settings(name).get("cleanup.policy", "")
        except KafkaUnavailable:
            raise
        except SourceError:
            return True

    def values(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[tuple[int, bytes | None]]:
        """Offset and value of the records with offsets in `[start, until)`, ascending; of open and aborted transactions only if the sink
        reads those. Raises as `batches` does.
        """
        for messages in self._messages(topic_partition, start, until=until):
            for message in messages:
                yield message.offset() or 0, message.value()

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The same records whole, in batches of about 16 MiB at most, or one record.

        Raises KafkaUnavailable where nothing comes for as long as a request may take, OffsetsLost where `start` is gone, UnreadableRecord
        where what the brokers hold are no records, SourceError where they refuse.
        """
        for messages in self._messages(topic_partition, start, until=until):
            yield pa.RecordBatch.from_pylist([_row(message) for message in messages], schema=ENVELOPE)

    def _messages(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[list[Message]]:
        """The records below `until`; the end of the partition ends them only if it lies there."""
        clients = self._brokers.clients
        consumer = clients.consumer(GROUP, AT_ONCE)
        try:
            consumer.assign([ClientTopicPartition(*topic_partition, start)])
            yield from _consumed(consumer, topic_partition, start, until=until, patience_s=clients.seconds)
        finally:
            consumer.close()


def _consumed(
    consumer: Consumer, topic_partition: TopicPartition, start: int, *, until: int, patience_s: float
) -> Iterator[list[Message]]:
    position, most, largest, quiet_since = start, FIRST_ROWS, 1, time.monotonic()
    while position < until:
        # returns full, or after this time with what there is: never asked for more than there can be, it mostly returns full
        found = consumer.consume(min(most, until - position), timeout=POLL_SECONDS)
        records, failure, is_over = list[Message](), None, False
        for message in found:
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                failure = error
            elif offset >= until:
                is_over = True
            elif error is None:
                records.append(message)
                position = offset + 1
        if records:
            yield records
            largest, quiet_since = max(largest, *map(len, records)), time.monotonic()
            most = max(1, min(BATCH_ROWS, BATCH_BYTES // largest))
        if failure is not None:
            raise _failure(failure, topic_partition, position)
        if is_over:
            return
        if time.monotonic() - quiet_since > patience_s:
            raise unanswered(f"Kafka sent no record of {topic_partition} for {patience_s:.0f} s.")


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
