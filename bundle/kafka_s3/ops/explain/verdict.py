"""What does the configuration make of a record that Kafka still has? Its own pipeline says it, over that record alone, in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.ops.explain.answer import Fate
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.store.memory import MemoryStore


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pipeline makes of one record: an object of that key and directory, a dead letter, a skip, or a stop of the sink."""

    outcome: Fate
    text: str
    key: str = ""
    encoded_partition: str = ""
    schema: str = ""


def record_at(kafka: KafkaRecords, topic_partition: TopicPartition, offset: int) -> pa.RecordBatch | None:
    """The record of an offset that is between Kafka's log start and its head; None where Kafka has none of that offset."""
    batches = kafka.batches(topic_partition, offset, until=offset + 1)
    return next((batch for batch in batches if len(batch)), None)


def verdict_on(pipeline: Pipeline, topic_partition: TopicPartition, record: pa.RecordBatch, *, now_ms: int) -> Verdict:
    """What becomes of a record under this configuration, as if it arrived now (epoch ms). Raises RegistryError."""
    offset = record.column("offset")[0].as_py()
    alone = Assignment(topic_partition, offset, offset + 1, (Delivery(now_ms, offset + 1),), close=Reason.FLUSH_NOW)
    report = replace(pipeline, dead_letter_ratio=1.0).process(alone, [record], MemoryStore())
    if report.failure is not None:
        return Verdict(Fate.OPEN, f"the sink stops at it: {report.failure}. {report.remedy}")
    if len(report.dead):
        return Verdict(Fate.DEAD_LETTER, f"it is a dead letter: {report.commonest}")
    for file in report.files:
        if file.role in (Role.VALUE, Role.KEY):
            return Verdict(Fate.OBJECT, "", file.key, file.encoded_partition, file.schema)
    return Verdict(Fate.SKIPPED, why_skipped(pipeline, record))


def why_skipped(pipeline: Pipeline, record: pa.RecordBatch) -> str:
    """The rule that skips a record."""
    if record.column("value")[0].as_py() is None and pipeline.policy.nulls == "ignore":
        return "behavior.on.null.values=ignore: it has no value"
    return "a transform drops it"
