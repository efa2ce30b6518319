"""What does a Delta table cost the sink? CPU per record with and without one, and the time of a commit as the table grows. One run each.

KAFKA_S3_BENCH_RECORDS (4,000,000), KAFKA_S3_BENCH_ROUNDS (3) and KAFKA_S3_BENCH_TABLE_FILES (10000) size it. Nothing here asserts a time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil
import pytest
from deltalake import DeltaTable

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.followers.delta.planner import Commit, TableFile
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.delta import delta_tables
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.benchmarks.measuring import cost_of, spread
from tests.benchmarks.paths import CONFLUENT, CONNECT, OURS, SINK
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import BUCKET, PARTITIONS, RECORDS, ROUNDS, new_topic, running_broker, running_objects
from tests.benchmarks.topics import CONNECT_SCHEMA, JSON, produce_json
from tests.support.configurations import BASE

if TYPE_CHECKING:
    from kafka_s3.engine.loop.sink import Sink
    from kafka_s3_testing.services.s3 import EmbeddedS3

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

TABLE_FILES = int(os.environ.get("KAFKA_S3_BENCH_TABLE_FILES", "10000"))
STEPS = [files for files in (10, 100, 1_000, 10_000) if files <= TABLE_FILES]
COMMITS = 5
OPTIONS = {"without": {"delta.enable": "false"}, "with": {"delta.enable": "true"}}


@pytest.fixture(scope="module")
def objects() -> Iterator[EmbeddedS3]:
    with running_objects() as server:
        yield server


def tables(objects: EmbeddedS3, folder: str) -> DeltaTable:
    options = {
        "aws_endpoint_url": objects.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
    }  # fmt: skip
    return DeltaTable(f"s3://{BUCKET}/{folder}", storage_options=options)


def test_the_followers_share_of_a_record(objects: EmbeddedS3, tmp_path: Path) -> None:
    """The same sink on one process, with and without tables in turns; eight files per round."""
    costs: dict[str, list[float]] = {name: [] for name in OPTIONS}
    with running_broker() as broker, Side(OURS, tmp_path / "side.log") as side:
        new_topic(broker, JSON, PARTITIONS)
        topic = produce_json(broker.bootstrap_servers, records=RECORDS - RECORDS % PARTITIONS, partitions=PARTITIONS)
        each = topic.records // PARTITIONS
        to_parquet = {
            "flush.size": str(each), "format.class": f"{CONFLUENT}s3.format.parquet.ParquetFormat", "parquet.codec": "zstd",
            "value.converter": f"{CONNECT}json.JsonConverter", "value.converter.schemas.enable": "false",
            "value.schema": CONNECT_SCHEMA,
        }  # fmt: skip
        place = f"{objects.endpoint_url}/{BUCKET}"
        for turn in range(-1, ROUNDS):  # the first warms up
            for name, options in OPTIONS.items():
                request = Request(
                    SINK, topic.name, (each,) * PARTITIONS, f"{name}-{turn + 1}", broker.bootstrap_servers, place,
                    to_parquet | options,
                )  # fmt: skip
                cost = side.run(request)
                if turn >= 0:
                    costs[name].append(cost.cpu_seconds)
                if name == "with":
                    table = tables(objects, f"{request.name}/{topic.name}")
                    assert sum(table.get_add_actions(flatten=True)["num_records"].to_pylist()) == topic.records
    print(
        f"\n{topic.records:,} JSON records to Parquet, {PARTITIONS} files, {ROUNDS} rounds in turns; CPU-seconds, min / median / max"
    )
    for name, runs in costs.items():
        print(f"{name + ' tables':16}{spread(runs):>27}")
    base = median(costs["without"])
    print(
        f"a table costs {(median(costs['with']) - base) / base:+.1%} ({(median(costs['with']) - base) * 1000:,.0f} CPU-ms a run)"
    )


def test_the_time_of_a_commit_as_the_table_grows(objects: EmbeddedS3) -> None:
    """One file a commit, measured around the follower alone, at so many files in the table."""
    grown = Growing(objects)
    print(
        f"\none file a commit; follower alone, {COMMITS} commits each, min / median / max; objects in {objects.engine}"
    )
    print(f"{'files in the table':>20}{'wall, s':>24}{'CPU, s':>24}{'memory, MiB':>14}")
    for files in STEPS:
        grown.grow(files)
        costs = [cost_of(grown.follow) for _ in range(COMMITS) if grown.add(1)]
        memory = psutil.Process().memory_info().rss >> 20
        walls, cpus = ([getattr(cost, name) for cost in costs] for name in ("wall_seconds", "cpu_seconds"))
        print(f"{files:>20,}{spread(walls):>24}{spread(cpus):>24}{memory:>14,}")
    table = tables(objects, "growing/topics/orders")
    held = table.get_add_actions(flatten=True)["num_records"].to_pylist()
    assert table.version() + 1 == grown.commits
    assert sum(held) == len(held) == grown.files
    assert STEPS[-1] < grown.files <= STEPS[-1] + COMMITS


class Growing:
    """A sink without its follower, and the follower, which is called when it is measured.

    Most of the table's files are another writer's, added by the follower's own table a thousand at a time: their objects are never read.
    """

    def __init__(self, objects: EmbeddedS3) -> None:
        from kafka_s3.followers.delta.table import Table
        from kafka_s3.run.wiring.bucket import store_options
        from kafka_s3.store.s3 import RustOptions, S3Store

        config = {
            **BASE, "name": "growing", "topics": "orders", "topics.dir": "growing/topics", "s3.bucket.name": BUCKET,
            "store.url": objects.endpoint_url, "kafka.bootstrap.servers": "memory:9092", "flush.size": "1",
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema": CONNECT_SCHEMA,
            "delta.enable": "true",
        }  # fmt: skip
        self.settings = resolved(validate(config).usable())
        options = store_options(self.settings)
        self.store = S3Store(options)
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        self.tp, self.made, self.files, self.commits = TopicPartition("orders", 0), 0, 0, 0
        self.kafka.create(self.tp)
        self.sink = self._sink()
        self.follower = delta_tables(self.settings, self.store, clock_ms=now_ms, warn=pytest.fail)
        address, folder = f"s3://{BUCKET}/growing/topics/orders", "growing/topics/orders/"
        self.others = Table(address, app="another", options=RustOptions(options), store=self.store, folder=folder)

    def _sink(self) -> Sink:
        from kafka_s3.run.wiring.sink import build_sink

        sink = build_sink(self.settings, self.kafka, source=self.kafka, store=self.store, clock_ms=now_ms)
        sink.followers.all = []
        sink.open()
        return sink

    def add(self, records: int) -> bool:
        """Puts so many files of one record each into the log."""
        for offset in range(self.made, self.made + records):
            value = (
                b'{"id":%d,"customer":"c1","product":"mug","country":"DE","quantity":1,"price":1.5,"created_at":"2025"}'
                % offset
            )
            self.kafka.add(self.tp, MemoryRecord(offset, 0, None, value))
        self.made += records
        self.files += records
        return self.sink.poll_and_commit()

    def follow(self) -> None:
        """Lets the table catch up, by one commit."""
        self.follower.catch_up(self.sink.log)
        self.commits += 1

    def grow(self, files: int) -> None:
        """Brings the table to so many files."""
        if not self.made:
            assert self.add(1)
            self.follow()
        while self.files < files:
            count = min(1_000, files - self.files)
            self.others.state()
            self.others.append(Commit(self.files, [self._file(self.files + n) for n in range(count)], at_ms=now_ms()))
            self.files += count
            self.commits += 1

    def _file(self, number: int) -> TableFile:
        """As one of the sink's, with statistics of its size."""
        low, high = (
            {"id": number, "country": "DE", "created_at": "2025", "customer": "c1", "price": 1.5} for _ in "ab"
        )
        stats = json.dumps({"numRecords": 1, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)})
        return TableFile(f"partition=0/other+0+{number:010d}.parquet", 2_000, {"partition": "0"}, stats, now_ms())


def now_ms() -> int:
    return time.time_ns() // 1_000_000
