"""Sinks with Iceberg tables: records, bucket and clock in memory, a catalog in a file of SQLite, pyiceberg as the judge of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.iceberg import catalog_of
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.faults import Fault, FaultyStore
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.support.memory_world import ORDERS, START_MS, settings_of
from tests.support.observers import Warnings

PARQUET = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.schema.inference": "true",
    "iceberg.enable": "true",
    "iceberg.catalog.type": "sql",
    "flush.size": "2",
}


def bucket_settings(endpoint: str, bucket: str) -> dict[str, str]:
    """Where the bucket is, on a server."""
    return {
        "s3.bucket.name": bucket, "store.url": endpoint, "s3.region": REGION, "aws.access.key.id": ACCESS_KEY,
        "aws.secret.access.key": SECRET_KEY,
    }  # fmt: skip


class IcebergWorld:
    """`start` makes a driver, as after a crash; `table` is what pyiceberg reads."""

    def __init__(self, folder: Path, *, store: ObjectStore | None = None, **config: str) -> None:
        self.now = START_MS
        self.folder = folder
        self.store: ObjectStore = store or MemoryStore(lambda: self.now)
        self.config: dict[str, str] = {}
        self.configure(**config)
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        self.kafka.create(ORDERS)
        self.warnings = Warnings()

    def configure(self, **config: str) -> None:
        self.config |= {key.replace("__", "."): value for key, value in config.items()}
        catalog = {"iceberg.catalog.uri": f"sqlite:///{self.folder}/catalog.db"}
        self.settings = settings_of({**PARQUET, **catalog, **self.config})

    def start(self, plan: Sequence[Fault] = ()) -> Sink:
        store = FaultyStore(self.store, plan)
        self.kafka.store = store
        self.warnings = Warnings()
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=store, clock_ms=lambda: self.now, observer=self.warnings
        )
        self.sink.open()
        return self.sink

    def run(self, plan: Sequence[Fault] = ()) -> Sink:
        sink = self.start(plan)
        assert sink.poll_and_commit()
        return sink

    def add(self, *values: Mapping[str, Any], tp: TopicPartition = ORDERS, timestamp: int = START_MS) -> None:
        self.kafka.create(tp)
        for value in values:
            offset = len(self.kafka.records[tp])
            self.kafka.add(tp, MemoryRecord(offset, timestamp, None, json.dumps(value).encode()))

    def log(self) -> CommitLog:
        return CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now)

    def catalog(self) -> Catalog:
        return catalog_of(self.settings, self.store)

    def table(self, topic: str = "orders") -> Table:
        return self.catalog().load_table(f"kafka.{topic}")

    def rows(self, topic: str = "orders", *, by: str = "n", **scan: Any) -> list[dict[str, Any]]:
        found = self.table(topic).scan(**scan).to_arrow().to_pylist()
        return sorted(found, key=lambda row: row[by])
