"""Measure the traffic of topic-partitions for a forecast: from a sample of their newest records, or from a rate and a size.

A sample passes through the sink's own pipeline once, into a store in memory.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, REGISTRY_CONVERTERS, TIME_PARTITIONERS
from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.loop.sink import stop_errors
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import DataFile, Reason, counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport
from kafka_s3.ops.forecast import PartitionPace, period_ms
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore

WORDS: Final = (
    "order", "item", "price", "client", "street", "city", "note", "ready", "paid", "sent", "open", "return", "gift", "code", "blue",
    "green", "small", "large", "fast",
)  # fmt: skip
MADE_RECORDS: Final = 10_000
SAMPLE_BYTES: Final = 64 << 20
"""What is kept of the sample of one topic-partition at most, keys and values together."""
LEAST_CLOSINGS: Final = 3
"""Fewer files closed by a rule may be chance: an hour that ended in the sample."""
WITHOUT_TABLES: Final[dict[str, Value]] = {"delta.enable": False, "iceberg.enable": False, "glue.database.name": ""}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The paces of topic-partitions, and what the user should know of how they were measured."""

    paces: tuple[PartitionPace, ...]
    notes: tuple[str, ...]


def made_traffic(settings: Settings, *, rate: float, record_bytes: int, partitions: int) -> Traffic:
    """Return the pace of records that are made, `rate` a second in all, spread evenly over the partitions of each topic.

    Raises ConfigError if the configuration needs real records.
    """
    topics = settings.names("topics") or ("topic",)
    needs = (
        "values of a schema registry" if settings.text("value.converter") in REGISTRY_CONVERTERS
        else "fields" if settings.text("partitioner.class") in FIELD_PARTITIONERS or settings.text("timestamp.extractor") == "RecordField"
        else "transforms of its fields" if settings.names("transforms") else ""
    )  # fmt: skip
    if needs:
        rule = f"makes records without {needs}, and this configuration needs them."
        raise ConfigError(
            [Problem("--record-bytes", str(record_bytes), rule, "Leave it out: the topic is sampled then.")]
        )
    per_second = rate / (len(topics) * partitions)
    sample = _at_rate(made_sample(record_bytes), per_second)
    pace = _measure(settings, _pipeline(settings), TopicPartition(topics[0], 0), sample, per_second)
    paces = tuple(replace(pace, topic=topic) for topic in topics for _ in range(partitions))
    return Traffic(paces, ("Records are made of words and ids: sizes hold as far as yours compress like that.",))


def sampled_traffic(settings: Settings, kafka: KafkaRecords, *, records: int, rate: float | None) -> Traffic:
    """Return the paces of the sink's topics by about `records` of their newest records; with `rate` (a second, in all) at that rate.

    Raises ConfigError if a topic does not exist or none holds a record, RecordError if a record would stop the sink.
    """
    topics = settings.names("topics")
    if not topics:
        raise ConfigError(
            [Problem("topics", None, "names no topic to sample.", "Give --set topics=... with topics.regex.")]
        )
    described = kafka.describe(list(topics))
    if missing := [name for name in topics if name not in described]:
        rule = f"names topics that are not in Kafka, or may not be described: {', '.join(missing)}."
        remedy = "Correct it, create them, or leave them out: --set topics=..."
        raise ConfigError([Problem("topics", ",".join(topics), rule, remedy)])
    topic_partitions = [
        TopicPartition(name, number) for name, topic in sorted(described.items()) for number in topic.partitions
    ]
    starts, heads = kafka.starts(topic_partitions), kafka.heads(topic_partitions)
    filled = [tp for tp in topic_partitions if tp in starts and heads.get(tp, 0) > starts[tp]]
    each = max(records // max(len(filled), 1), 1)
    samples = {tp: _newest(kafka, tp, max(starts[tp], heads[tp] - each), heads[tp]) for tp in filled}
    rates = {tp: _rate(sample) for tp, sample in samples.items() if len(sample)}
    if not rates:
        rule = f"({', '.join(topics)}) hold no records to sample."
        raise ConfigError([Problem("topics", ",".join(topics), rule, "Give --rate and --record-bytes.")])
    notes = [f"Sampled {sum(map(len, samples.values())):,} records of {len(rates)} topic-partitions."]
    whole = sum(rates.values())
    if rate is None:
        notes.append(f"They came at {whole:,.1f} records a second; --rate forecasts another pace.")
    if settings.text("timestamp.extractor") == "RecordField":
        notes.append(
            "Times in the values are those of the sample: directories and intervals by them do not follow --rate."
        )
    pipeline, factor = _pipeline(settings), (rate or whole) / whole
    paces = [
        _measure(settings, pipeline, tp, _at_rate(samples[tp], own * factor, own), own * factor)
        for tp, own in rates.items()
    ]
    return Traffic(tuple(paces), tuple(notes))


def _newest(kafka: KafkaRecords, tp: TopicPartition, start: int, until: int) -> pa.RecordBatch:
    batches, size = [], 0
    for batch in kafka.batches(tp, start, until=until):
        batches.append(pa.RecordBatch.from_arrays([batch.column(name) for name in ENVELOPE.names], schema=ENVELOPE))
        size += batch.nbytes
        if size > SAMPLE_BYTES:
            break
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], ENVELOPE)


def _rate(sample: pa.RecordBatch) -> float:
    """Return the sample's own records a second; 1 if their times do not say it."""
    times = sample.column("timestamp")
    if times.null_count or len(times) < 2:
        return 1.0
    span_ms = int(np.ptp(times.to_numpy()))
    return (len(times) - 1) * 1000 / span_ms if span_ms else 1.0


def _at_rate(sample: pa.RecordBatch, rate: float, own: float | None = None) -> pa.RecordBatch:
    """Return the sample with its times at another pace; evenly, if it has no rate of its `own`."""
    times = sample.column("timestamp")
    if own is None or times.null_count:
        scaled = np.arange(len(times)) * 1000 / rate
    else:
        values = times.to_numpy()
        scaled = values.min() + (values - values.min()) * (own / rate)
    return sample.set_column(1, "timestamp", pa.array(scaled.astype(np.int64)))


def _pipeline(settings: Settings) -> Pipeline:
    return make_pipeline(replace(settings, values={**settings.values, **WITHOUT_TABLES}))


def _measure(
    settings: Settings, pipeline: Pipeline, tp: TopicPartition, sample: pa.RecordBatch, per_second: float
) -> PartitionPace:
    offsets, times = sample.column("offset"), sample.column("timestamp")
    start, until = offsets[0].as_py(), offsets[-1].as_py() + 1
    arrived = (Delivery(int(np.max(times.to_numpy())), until),)
    report = pipeline.process(Assignment(tp, start, until, arrived, close=Reason.FLUSH_NOW), [sample], MemoryStore())
    for error in stop_errors([report], sink=settings.name).values():
        raise error
    return _pace_of(settings, report, per_second)


def _pace_of(settings: Settings, report: TaskReport, per_second: float) -> PartitionPace:
    files = counted(report.files)
    if not files:
        dead = len(report.dead) / report.read
        return PartitionPace(report.topic_partition.topic, per_second, 0, written_share=0, dead_share=dead)
    written = sum(file.records for file in files)
    directories, share = _directories(settings, files)
    return PartitionPace(
        report.topic_partition.topic,
        per_second,
        sum(file.bytes for file in files) / written,
        directories,
        share,
        _closings(files),
        written / report.read,
        len(report.dead) / report.read,
        len(report.files) / len(files),
        sum(file.bytes for file in report.files) / written,
    )


def _directories(settings: Settings, files: Sequence[DataFile]) -> tuple[int, float]:
    """Return how many directories get records at the same time, and which part of them the one with the most gets."""
    by_directory = Counter[str]()
    for file in files:
        by_directory[file.encoded_partition] += file.records
    periods = 1
    if settings.text("partitioner.class") in TIME_PARTITIONERS:
        if settings.text("partitioner.class") not in FIELD_PARTITIONERS:
            return 1, 1.0
        length_ms = period_ms(settings.values)
        periods = len({(file.min_timestamp or 0) // length_ms for file in files})
    largest = max(by_directory.values()) * periods / by_directory.total()
    return -(-len(by_directory) // periods), min(largest, 1.0)


def _closings(files: Sequence[DataFile]) -> dict[Reason, float]:
    """Return how many files each rule closed, per record; without those that the end of the sample closed."""
    closed = [file for file in files if file.reason is not Reason.FLUSH_NOW]
    records = sum(file.records for file in closed)
    counts = Counter(file.reason for file in closed)
    return {reason: count / records for reason, count in counts.items() if count >= LEAST_CLOSINGS}


def made_sample(record_bytes: int) -> pa.RecordBatch:
    """Return JSON documents of that size in bytes, each with a number, an id and a text; they compress as texts with ids do."""
    chance, rows = random.Random(0), []
    for number in range(MADE_RECORDS):
        head = {"number": number, "id": f"{chance.getrandbits(64):016x}"}
        left = max(record_bytes - len(json.dumps(head, separators=(",", ":"))) - len(',"text":""'), 0)
        text = " ".join(chance.choices(WORDS, k=left // 4 + 1))[:left]
        value = json.dumps({**head, "text": text}, separators=(",", ":")).encode()
        rows.append({"offset": number, "timestamp": 0, "key": str(head["id"]).encode(), "value": value, "headers": []})
    return pa.RecordBatch.from_pylist(rows, schema=ENVELOPE)
