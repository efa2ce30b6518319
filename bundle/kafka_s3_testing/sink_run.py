"""What does a sink of production make of the records of a test? It runs as it is, but for the addresses and logins of its configuration.

What it made are objects as files, tables and DataFrames, dead letters, and the log. Parquet keeps its columns and types. JSON and Avro rows
are put together by name, with types that Arrow finds in the values; a JSON value that is not an object, and what is not a table (bytes,
Block-GZIP, formats of one's own), is in the column `value`: there one row per object.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Protocol

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.config.references import has_reference
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.log.dead_letters import LetterSelection, letters, read_ledger
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.deflate import GZIP_MAGIC
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.protocols import Message, Observer
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.running import run_until_drained
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.records import Records, by_partition
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka

LOGINS: Final = (
    *(f"consumer.override.{kind}." for kind in ("sasl", "security", "ssl")), "s3.credentials.provider.", "s3.proxy.",
)  # fmt: skip
"""What would not fit the broker and the bucket of a test, which take everybody."""
IN_MEMORY: Final = {
    "kafka.bootstrap.servers": "memory:9092", "delta.table.name": "", "delta.writer": "delta-rs",
}  # fmt: skip
"""Names and copies of Delta tables are Spark's, which is not there."""
REPLACED: Final = {
    "s3.bucket.name": "sink-run", "s3.bucket": "sink-run", "s3.region": REGION, "store.url": "http://localhost", "s3.endpoint": "http://localhost",
    "kafka.api.key": "key", "kafka.api.secret": "secret",
}  # fmt: skip
"""What replaces references to addresses and logins that a test has in any case."""
_numbers = itertools.count(1)


class RunSink(Protocol):
    """Runs the sink of a configuration over records. Raises what the sink raises: ConfigError, RecordError where a record stops it."""

    def __call__(self, config: Mapping[str, str], records: Records, *, observer: Observer | None = None) -> SinkRun:
        """What the sink has made of the records."""
        ...


@dataclass(frozen=True, slots=True)
class SinkRun:
    """A bucket after a sink has processed its records and closed its files.

    `objects` are the values' objects, by key, in the order in which they were committed; `bucket` is everything but the sink's state, so
    also objects of keys and headers, indexes, and the log of a Delta table. `entries` are the commit log's, the claim first.
    """

    objects: Mapping[str, bytes]
    dead_letters: tuple[DeadLetter, ...]
    entries: tuple[CommitEntry, ...]
    bucket: Mapping[str, bytes]

    def table(self, topic: str | None = None) -> pa.Table:
        """Return the rows of a topic's objects (None: of all), in that order. Raises ValueError for a column of mixed types."""
        return table_of([(file, self.objects[file.key]) for file in self._files(topic)])

    def dataframe(self, spark: SparkSession, topic: str | None = None) -> DataFrame:
        """The same as a DataFrame of Spark."""
        return spark.createDataFrame(self.table(topic))

    def save(self, folder: Path) -> Path:
        """Writes `bucket` below a folder, for readers of files and of Delta tables; gives that folder."""
        for key, content in self.bucket.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder

    def _files(self, topic: str | None) -> Iterator[DataFile]:
        files = (file for entry in self.entries for file in entry.files if file.role is Role.VALUE)
        return (file for file in files if topic in (None, file.topic))


def run_in_memory(
    config: Mapping[str, str], records: Records, *, server: Callable[[], EmbeddedS3], observer: Observer | None = None
) -> SinkRun:
    """The real loop and the real pipeline over records in memory, without broker and Spark.

    The bucket is in memory, too, but for Delta tables: delta-rs needs an S3 server, and only then `server` is asked for one.
    Raises why a topic-partition stops, though others go on, and what else a sink ends with.
    """
    own, now = _own(config, IN_MEMORY), now_ms()
    with (
        _memory(own) if not validate(own).usable().flag("delta.enable") else _bucket(own, server()) as (settings, store)
    ):
        kafka = MemoryKafka(lambda: make_pipeline(settings), store)
        for tp, given in by_partition(records).items():
            kafka.create(tp)
            for offset, one in enumerate(given):
                at = now if one.timestamp_ms is None else one.timestamp_ms
                kafka.add(tp, MemoryRecord(offset, at, one.key, one.value, one.headers))
        sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: now, observer=observer)
        sink.open()
        sink.poll()
        sink.drain(close=Reason.FLUSH_NOW)
        return result_of(store, state_paths(settings))


def run_on_spark(
    config: Mapping[str, str],
    records: Records,
    *,
    kafka: EmbeddedKafka,
    server: EmbeddedS3,
    spark: SparkSession,
    observer: Observer | None = None,
) -> SinkRun:
    """The same through a real broker, Spark and a bucket of an S3 server. Topics that are there keep their records, which are read, too."""
    from kafka_s3.run.spark.launch import sink_on_spark

    produce(kafka, records)
    with _bucket(_own(config, {"kafka.bootstrap.servers": kafka.bootstrap_servers}), server) as (settings, store):
        sink = sink_on_spark(settings, spark, observer=observer, store=store)
        run_until_drained(sink, settings, Event(), close=Reason.FLUSH_NOW)
        return result_of(store, state_paths(settings))


def produce(kafka: EmbeddedKafka, records: Records) -> None:
    """Puts the records into their topics, which are made with as many partitions as they need. Raises KafkaUnavailable."""
    given = by_partition(records)
    for topic in records:
        kafka.create_topic(topic, 1 + max(tp.partition for tp in given if tp.topic == topic))
    with sending(KafkaBrokers(kafka.bootstrap_servers).clients) as send:
        for tp, ones in given.items():
            for one in ones:
                message = Message(one.key, one.value, one.headers, one.timestamp_ms)
                send(tp.topic, message, partition=tp.partition)


def result_of(store: ObjectStore, paths: StatePaths) -> SinkRun:
    """What is in a bucket with one sink. Raises LogDamaged, StorageError."""
    entries = tuple(read_history(store, paths))
    filed = letters(read_ledger(store, paths), store, selection=LetterSelection(), missing=lambda _: None)
    bucket = {info.key: store.get(info.key) for info in store.list("") if not info.key.startswith(paths.root)}
    files = [file for entry in entries for file in entry.files if file.role is Role.VALUE]
    return SinkRun({file.key: bucket[file.key] for file in files}, tuple(one.letter for one in filed), entries, bucket)


def _own(config: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the addresses and logins of a test, so that it refers to none of its own."""
    kept = {key: value for key, value in config.items() if not key.startswith(LOGINS)}
    stand_ins = {key: text for key, text in REPLACED.items() if has_reference(config.get(key, ""))}
    return {**kept, **stand_ins, **addresses, "aws.access.key.id": ACCESS_KEY, "aws.secret.access.key": SECRET_KEY}


@contextmanager
def _memory(config: Mapping[str, str]) -> Iterator[tuple[Settings, ObjectStore]]:
    yield resolved(validate(config).usable()), MemoryStore()


@contextmanager
def _bucket(config: Mapping[str, str], server: EmbeddedS3) -> Iterator[tuple[Settings, ObjectStore]]:
    """A bucket of the run's own."""
    name = f"sink-run-{next(_numbers)}"
    server.create_bucket(name)
    addresses = {"s3.bucket.name": name, "store.url": server.endpoint_url, "s3.region": REGION}
    settings = resolved(validate({**config, **addresses}).usable())
    store = S3Store(store_options(settings))
    try:
        yield settings, store
    finally:
        store.close()


def table_of(files: Sequence[tuple[DataFile, bytes]]) -> pa.Table:
    """Return the rows of objects, without columns if there are none. Raises ValueError for a column of mixed types."""
    if files and all(file.format == "parquet" for file, _ in files):
        tables = [pq.read_table(io.BytesIO(content)) for _, content in files]
        with _mixed_types_named("A column", files):
            return pa.concat_tables(tables, promote_options="permissive")
    rows = [row for file, content in files for row in _rows(file.format, content)]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        with _mixed_types_named(f"Column {name!r}", files):
            columns[name] = pa.array([row.get(name) for row in rows])
    return pa.table(columns)


@contextmanager
def _mixed_types_named(column: str, files: Sequence[tuple[DataFile, bytes]]) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OverflowError) as error:
        topics = sorted({file.topic for file, _ in files})
        if len(topics) > 1:
            remedy = f"Take one topic at a time: made.table({topics[0]!r})."
        else:
            remedy = "Read made.objects instead: the bytes of each object, by key."
        raise ValueError(
            f"{column} of {', '.join(topics)} has values that do not go together in one Arrow table: {error}. {remedy}"
        ) from error


def _rows(name: str, content: bytes) -> Iterable[Mapping[str, Any]]:
    plain = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    match name:
        case "parquet":
            return list(pq.read_table(io.BytesIO(content)).to_pylist())
        case "avro":
            return [_row(value) for value in fastavro.reader(io.BytesIO(content))]
        case "json":
            return [_row(json.loads(line)) for line in plain.splitlines()]
    return [{"value": plain}]


def _row(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {"value": value}
