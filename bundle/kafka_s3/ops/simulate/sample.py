"""Which traffic does a topic have? Its newest records, and how fast they came; or records that are made, at a rate that is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, REGISTRY_CONVERTERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka.plain_reader import ENVELOPE
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.simulate.traffic import Stream, as_it_came, made_sample, steady

SAMPLE_BYTES: Final = 64 << 20
"""What is kept of the sample of one topic-partition at most, keys and values together."""


@dataclass(frozen=True, slots=True)
class Load:
    """Traffic to simulate: streams by topic-partition, when it begins (epoch ms), and what is to be known of it."""

    streams: dict[TopicPartition, Stream]
    begun_ms: int
    notes: tuple[str, ...] = ()


def made_load(settings: Settings, *, rate: float, record_bytes: int, partitions: int, begun_ms: int) -> Load:
    """Records that are made, `rate` a second in all, spread evenly, from `begun_ms` (epoch ms) on.

    Raises ConfigError where the configuration needs real ones.
    """
    topics = settings.names("topics") or ("topic",)
    converter = settings.text("value.converter")
    needs = (
        "values of a schema registry" if converter in REGISTRY_CONVERTERS
        else "fields" if settings.text("partitioner.class") in FIELD_PARTITIONERS or settings.text("timestamp.extractor") == "RecordField"
        else "transforms of its fields" if settings.names("transforms") else ""
    )  # fmt: skip
    if needs:
        rule = f"makes records without {needs}, and this configuration needs them."
        raise ConfigError(
            [Problem("--record-bytes", str(record_bytes), rule, "Leave it out: the topic is sampled then.")]
        )
    places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    stream = steady(made_sample(record_bytes), rate / len(places))
    return Load(
        dict.fromkeys(places, stream),
        begun_ms,
        ("Records are made of words and ids: sizes hold as far as yours compress like that.",),
    )


def sampled_load(
    settings: Settings, kafka: KafkaRecords, *, records: int, rate: float | None, otherwise_ms: int
) -> Load:
    """The newest records of the sink's topics, about so many, as they came, from the time of the first on.

    `rate` (a second, in all) is put over their own. Where no record has a time the traffic begins at `otherwise_ms`, epoch ms.
    Raises ConfigError where the topics are not there, or hold nothing to sample.
    """
    topics = settings.names("topics")
    if not topics:
        raise ConfigError(
            [Problem("topics", None, "names no topic to sample.", "Give --set topics=... with topics.regex.")]
        )
    found = kafka.describe(list(topics))
    if gone := [name for name in topics if name not in found]:
        rule = f"names topics that are not in Kafka, or may not be described: {', '.join(gone)}."
        remedy = "Correct it, create them, or leave them out: --set topics=..."
        raise ConfigError([Problem("topics", ",".join(topics), rule, remedy)])
    places = [TopicPartition(name, number) for name, topic in sorted(found.items()) for number in topic.partitions]
    starts, heads = kafka.starts(places), kafka.heads(places)
    filled = [tp for tp in places if tp in starts and heads.get(tp, 0) > starts[tp]]
    if not filled:
        rule = f"({', '.join(topics)}) hold no records to sample."
        raise ConfigError([Problem("topics", ",".join(topics), rule, "Give --rate and --record-bytes.")])
    each = max(records // len(filled), 1)
    samples = {tp: _newest(kafka, tp, max(starts[tp], heads[tp] - each), heads[tp]) for tp in filled}
    firsts = [pc.min(sample.column("timestamp")).as_py() for sample in samples.values()]
    begun_ms = min((first for first in firsts if first is not None), default=otherwise_ms)
    streams = {tp: as_it_came(sample, begun_ms=begun_ms) for tp, sample in samples.items() if len(sample)}
    return Load(_at_rate(streams, rate), begun_ms, _notes(settings, streams))


def _newest(kafka: KafkaRecords, tp: TopicPartition, start: int, until: int) -> pa.RecordBatch:
    taken, size = [], 0
    for batch in kafka.batches(tp, start, until=until):
        taken.append(pa.RecordBatch.from_arrays([batch.column(name) for name in ENVELOPE.names], schema=ENVELOPE))
        size += batch.nbytes
        if size > SAMPLE_BYTES:
            break
    return (
        pa.Table.from_batches(taken, schema=ENVELOPE).combine_chunks().to_batches()[0]
        if taken
        else pa.RecordBatch.from_pylist([], ENVELOPE)
    )


def _at_rate(streams: dict[TopicPartition, Stream], rate: float | None) -> dict[TopicPartition, Stream]:
    if rate is None:
        return streams
    whole = sum(stream.per_second for stream in streams.values())
    return {tp: stream.at(stream.per_second * rate / whole) for tp, stream in streams.items()}


def _notes(settings: Settings, streams: dict[TopicPartition, Stream]) -> tuple[str, ...]:
    found = [
        f"Sampled {sum(len(one.sample) for one in streams.values()):,} records of {len(streams)} topic-partitions."
    ]
    if settings.text("timestamp.extractor") == "RecordField":
        found.append(
            "Times in the values are those of the sample: directories and intervals by them come of the sample alone."
        )
    return tuple(found)
