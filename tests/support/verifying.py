"""The audit of a sink in memory: the brokers as it asks them, its report, and damage that it has to find."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.deflate import GZIP_MAGIC
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.verify.audit import Audit
from kafka_s3.ops.verify.findings import FindingKind, Report
from kafka_s3.ops.verify.form import form_of
from kafka_s3.run.wiring.pipeline import make_pipeline, object_names, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.memory_world import START_MS, World


class MemoryCluster:
    """Kafka in memory as the audit sees it; `compact` names topics under compaction."""

    def __init__(self, kafka: MemoryKafka, compact: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.kafka, self.compact = kafka, compact
        self.cluster_id, self.describe, self.starts, self.heads = (
            kafka.cluster_id,
            kafka.describe,
            kafka.starts,
            kafka.heads,
        )

    def compacted(self, names: Sequence[str]) -> set[str]:
        return self.compact & set(names)

    def values(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[tuple[int, bytes | None]]:
        assert start >= self.kafka.begins[topic_partition]
        yield from ((r.offset, r.value) for r in self.kafka.records[topic_partition] if start <= r.offset < until)

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        assert start >= self.kafka.begins[topic_partition]
        yield from self.kafka.batches(topic_partition, start, until=until)


def report_of(
    settings: Settings, store: ObjectStore, kafka: MemoryKafka | None, compact: tuple[str, ...] = (), **more: Any
) -> Report:
    """What the audit of a sink of these settings says; without `kafka` of log and objects alone."""
    cluster = MemoryCluster(kafka, set(compact)) if kafka is not None else None
    return Audit(store, state_paths(settings), object_names(settings), form_of(settings), cluster, **more).run()


def audited(
    world: World, *, kafka: bool = True, compact: tuple[str, ...] = (), store: ObjectStore | None = None, **more: Any
) -> Report:
    """The same of a sink's world."""
    return report_of(world.settings, store or world.store, world.kafka if kafka else None, compact, **more)


def kinds(report: Report) -> list[FindingKind]:
    """The kinds of findings, each once."""
    return sorted({finding.kind for finding in report.findings})


def worked_off(settings: Settings, store: ObjectStore, values: Mapping[str, Sequence[bytes | None]]) -> MemoryKafka:
    """A cluster with these values by topic, after a sink of the settings has worked them off into the bucket."""
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    for topic, own in values.items():
        for offset, value in enumerate(own):
            key = json.dumps({"n": offset}).encode()
            record = MemoryRecord(offset, START_MS + offset, key, value, (("h", b"1"),))
            kafka.add(TopicPartition(topic, 0), record)
    sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
    sink.open()
    sink.poll()
    sink.drain(close=Reason.FLUSH_NOW)
    return kafka


# ------------------------------------------------------------ damage


def values_of(settings: Settings, store: ObjectStore) -> list[DataFile]:
    """The objects with values that the log claims, in the order of the log."""
    log = CommitLog(store, state_paths(settings), clock_ms=lambda: 0)
    return [file for entry in log.entries() for file in entry.files if file.role is Role.VALUE]


def changed(content: bytes) -> bytes:
    """The content of an object with another value, as another program might have put it."""
    if content.startswith(GZIP_MAGIC):
        return gzip.compress(changed(gzip.decompress(content)), mtime=0)
    first, end, rest = content.partition(b"\n")
    try:
        return json.dumps(another(json.loads(first))).encode() + end + rest
    except ValueError:  # no JSON
        return content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]


def another(value: Any) -> Any:
    """A JSON value that is another one in one place."""
    match value:
        case dict() if value:
            name = next(iter(value))
            return {**value, name: another(value[name])}
        case list() if value:
            return [another(value[0]), *value[1:]]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case _:
            return "x"


def without_a_line(content: bytes) -> bytes:
    """The content of an object without its last line, or its last byte where it has one line only."""
    if content.startswith(GZIP_MAGIC):
        return gzip.compress(without_a_line(gzip.decompress(content)), mtime=0)
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:-1]) if len(lines) > 1 else content[:-1]


def clean_and_not_when_damaged(settings: Settings, store: ObjectStore, kafka: MemoryKafka) -> Report:
    """Asserts that a healthy bucket is clean, and that it is not with one value, one line or one object less or otherwise.

    Where values are compared a changed one is found as such. Gives the report of the healthy bucket.
    """
    report = report_of(settings, store, kafka)
    assert report.findings == ()
    files = values_of(settings, store)
    if not files:
        return report
    key, compared = files[0].key, report.tallies and sum(tally.compared for tally in report.tallies)
    content = store.get(key)
    for damage in (changed, without_a_line):
        store.put(key, damage(content))
        found = set(kinds(report_of(settings, store, kafka)))
        assert found, f"{damage.__name__} is not found"
        if compared:
            assert found & {FindingKind.WRONG_CONTENT, FindingKind.NOT_ACCOUNTED, FindingKind.UNREADABLE}, (
                damage.__name__
            )
    store.delete(key)
    assert FindingKind.MISSING_OBJECT in kinds(report_of(settings, store, kafka))
    store.put(key, content)
    return report
