"""Sinks with Delta tables: records in memory, the product's real loop, an S3 server, and delta-rs as the judge of the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3_testing.faults import Fault, FaultyStore
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.clocked_s3 import ClockedS3
from tests.support.memory_world import ORDERS, START_MS, settings_of
from tests.support.observers import Warnings

if TYPE_CHECKING:
    from kafka_s3.run.wiring.delta import Spark

PARQUET = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.schema.inference": "true",
    "delta.enable": "true",
    "flush.size": "2",
    "s3.region": REGION,
}


class TableWorld:
    """`start` makes a driver, as after a crash; `table` is what delta-rs reads."""

    def __init__(self, s3: EmbeddedS3, bucket: str, *, spark: Spark | None = None, **config: str) -> None:
        self.now = START_MS
        self.bucket, self.s3, self.spark = bucket, s3, spark
        self.config: dict[str, str] = {}
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), None)  # type: ignore[arg-type]  # set by configure
        self.kafka.create(ORDERS)
        self.warnings = Warnings()
        self.configure(**config)
        self.kafka.store = self.store = ClockedS3(store_options(self.settings), lambda: self.now)

    def configure(self, **config: str) -> None:
        self.config |= config
        places = {"s3.bucket.name": self.bucket, "store.url": self.s3.endpoint_url}
        self.settings = settings_of({**PARQUET, **places, **self.config})

    def start(self, plan: Sequence[Fault] = ()) -> Sink:
        store = FaultyStore(self.store, plan)
        self.kafka.store = store
        self.warnings = Warnings()
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=store, clock_ms=lambda: self.now, observer=self.warnings,
            spark=self.spark,
        )  # fmt: skip
        self.sink.open()
        return self.sink

    def run(self, plan: Sequence[Fault] = ()) -> Sink:
        sink = self.start(plan)
        assert sink.poll_and_commit()
        return sink

    def add(self, *values: dict[str, Any], tp: TopicPartition = ORDERS) -> None:
        self.kafka.create(tp)
        for value in values:
            offset = len(self.kafka.records[tp])
            self.kafka.add(tp, MemoryRecord(offset, START_MS, None, json.dumps(value).encode()))

    def log(self) -> CommitLog:
        return CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now)

    def frontier(self) -> int:
        return self.log().load().frontier[ORDERS]

    def storage_options(self) -> dict[str, str]:
        return {
            "aws_endpoint_url": self.s3.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
            "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
        }  # fmt: skip

    def address(self, topic: str = "orders") -> str:
        return f"s3://{self.bucket}/topics/{topic}"

    def table(self, topic: str = "orders") -> DeltaTable:
        return DeltaTable(self.address(topic), storage_options=self.storage_options())

    def rows(self, topic: str = "orders", *, by: str = "n") -> list[dict[str, Any]]:
        found = pa.table(self.table(topic).scan()).to_pylist()
        return sorted(found, key=lambda row: row[by])

    def actions(self, version: int, topic: str = "orders") -> list[dict[str, Any]]:
        """The lines of one version of the table's log."""
        text = self.store.get(f"topics/{topic}/_delta_log/{version:020d}.json").decode()
        return [json.loads(line) for line in text.splitlines()]
