"""The audit of a sink in memory: the brokers as it asks them, and its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from kafka_s3.config.settings import Settings
from kafka_s3.local.memory import MemoryKafka
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tools.verify.audit import Audit
from kafka_s3.tools.verify.findings import FindingKind, Report
from kafka_s3.tools.verify.form import form_of
from kafka_s3.tools.verify.layout import object_layout
from kafka_s3.wiring.pipeline import state_paths
from tests.support.memory_world import World


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
    return Audit(store, state_paths(settings), object_layout(settings), form_of(settings), cluster, **more).run()


def audited(
    world: World, *, kafka: bool = True, compact: tuple[str, ...] = (), store: ObjectStore | None = None, **more: Any
) -> Report:
    """The same of a sink's world."""
    return report_of(world.settings, store or world.store, world.kafka if kafka else None, compact, **more)


def kinds(report: Report) -> list[FindingKind]:
    """The kinds of findings, each once."""
    return sorted({finding.kind for finding in report.findings})
