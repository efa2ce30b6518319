"""A sink of records in memory over an S3 server, whose state is kept on Spark: for tests of Delta's tables and of Iceberg's."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.state import Advance, Changes, StateRules, Transaction
from kafka_s3.model.errors import TableError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import state_merger
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.deaths import Died
from tests.support.memory_world import BASE, START_MS, settings_of
from tests.support.state_world import STATE, KeyedRecord, StateModel, more_of, partition_of, random_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.connect.naming.table_names import TableName
    from kafka_s3.state import SparkStates


PARTITIONS = [TopicPartition("orders", n) for n in range(3)]


class Stepwise:
    """Spark's tables, with a call around each of their steps."""

    def __init__(self, tables: SparkStates) -> None:
        self.tables = tables
        self.step: Callable[[str], None] = lambda _: None
        self.identity, self.is_empty, self.count = tables.identity, tables.is_empty, tables.count
        self.read_changes, self.hold_deletions = tables.read_changes, tables.hold_deletions

    def remember_deletions(
        self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction, now_ms: int
    ) -> None:
        self.tables.remember_deletions(name, changes, rules, transaction=transaction, now_ms=now_ms)
        self.step("after deletions")

    def merge(self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction) -> int | None:
        grown = self.tables.merge(name, changes, rules, transaction=transaction)
        self.step("after merge")
        return grown

    def replace(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int, note: str) -> None:
        self.tables.replace(name, changes, rules, now_ms=now_ms, note=note)


class SparkStateWorld:
    """A sink of records in memory whose state is kept on Spark."""

    def __init__(self, url: str, bucket: str, spark: SparkSession, schema: str, **config: str) -> None:
        from kafka_s3.state import states_on_spark

        self.now, self.spark, self.schema = START_MS, spark, schema
        self.config = {
            "s3.bucket.name": bucket, "store.url": url, "s3.region": "us-east-1", "flush.size": "3", **STATE,
            "state.table": f"{schema}.${{topic}}", **config,
        }  # fmt: skip
        self.settings = settings_of(self.config)
        self.store = S3Store(store_options(self.settings))
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        for tp in PARTITIONS:
            self.kafka.create(tp)
        self.drivers = [Stepwise(states_on_spark(self.settings, spark)) for _ in range(2)]
        self.mergers = [
            state_merger(self.settings, self.store, tables, clock_ms=lambda: self.now, warn=print)
            for tables in self.drivers
        ]
        self.use(0)
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=self.store, clock_ms=lambda: self.now
        )
        self.sink.open()
        self.model = StateModel(by_time=self.settings.text("state.order.by") == "at")

    def use(self, driver: int) -> None:
        """Who merges from now on."""
        self.tables, self.merger = self.drivers[driver], self.mergers[driver]

    def take(self, *records: KeyedRecord) -> None:
        for record in records:
            self.add(partition_of(record), record.key, record.value())
            self.model.add(record, len(self.kafka.records[partition_of(record)]) - 1)
        self.sink.poll_and_commit()

    def add(self, tp: TopicPartition, key: str | None, value: bytes | None) -> None:
        offset = len(self.kafka.records[tp])
        self.kafka.add(tp, MemoryRecord(offset, START_MS, None if key is None else key.encode(), value))

    def values(self, *values: dict[str, Any]) -> None:
        """Records of the first partition, each with its `id` as the key."""
        for value in values:
            self.add(PARTITIONS[0], str(value["id"]), json.dumps(value).encode())
        self.sink.poll_and_commit()

    def log(self) -> CommitLog:
        log = CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now)
        log.load()
        return log

    def advance(self) -> Advance:
        return self.merger.advance("orders", self.log())

    def rebuild(self) -> Advance:
        return self.merger.rebuild("orders", self.log())

    def committed(self) -> dict[str, int]:
        frontier = self.log().state.frontier
        known = [(one, offset) for one, offset in self.model.records if offset < frontier.get(partition_of(one), 0)]
        return StateModel(self.model.by_time, known).rows()

    def read(self) -> list[dict[str, Any]]:
        rows = [row.asDict(recursive=True) for row in self.spark.table(f"{self.schema}.orders").collect()]
        return sorted(rows, key=lambda row: str(row["_key"]))

    def rows(self) -> dict[str, int]:
        found = self.read()
        assert len({row["_key"] for row in found}) == len(found)
        assert all(row.get("more") == more_of(row["n"]) for row in found)
        return {row["_key"]: row["n"] for row in found}

    def file(self, folder: Path) -> str:
        path = folder / "sink.json"
        path.write_text(json.dumps({**BASE, **self.config}))
        return str(path)


def run_at_random(world_of: Callable[..., SparkStateWorld], seed: int) -> SparkStateWorld:
    """Random records in merges by two drivers, who die in some of them; `rows` must then be what is `committed`.

    With half of the seeds keys move between partitions, and with half of these times decide, else offsets alone. With every other four
    seeds Spark's tasks read the records, as they do where these are many.
    """
    random, numbers = Random(seed), itertools.count()
    moving = seed % 2 == 0
    world = world_of(**({"state.order.by": "at"} if seed % 4 == 0 else {}))
    with pytest.MonkeyPatch.context() as patch:
        if seed % 8 > 3:
            patch.setattr("kafka_s3.spark.LOCAL_RECORDS", 0)
        patch.setattr("kafka_s3.followers.state.NOTE_EVERY", random.choice((2, 10)))
        for left in reversed(range(4)):
            world.take(*random_records(random, count=12, numbers=numbers, partitions=3, moving=moving))
            world.use(int(random.random() < 0.3))
            places = ("after deletions", "after merge", "nowhere", "nowhere")
            world.tables.step = dying(random.choice(places) if left else "nowhere")
            with suppress(Died, TableError) if left else nullcontext():
                world.advance()
    return world


PLACEHOLDER = "__debezium_unavailable_value"


def fill_at_random(
    world_of: Callable[..., SparkStateWorld], seed: int
) -> tuple[SparkStateWorld, dict[str, tuple[int, str | None]]]:
    """Random records, some with a placeholder for their text, in merges by two drivers; and what each key's row must then be.

    Keys move between partitions with half of the seeds, and times decide with half of these; with every other four Spark's tasks read.
    """
    random = Random(seed)
    moving, by_time = seed % 2 == 0, seed % 4 == 0
    world = world_of(**{"flush.size": "1", **({"state.order.by": "at"} if by_time else {})})
    events: dict[str, list[tuple[tuple[int, int, int], int, str | None, bool]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        if seed % 8 > 3:
            patch.setattr("kafka_s3.spark.LOCAL_RECORDS", 0)
        patch.setattr("kafka_s3.followers.state.NOTE_EVERY", random.choice((2, 10)))
        for number in range(60):
            key = random.randrange(6)
            tp = PARTITIONS[random.randrange(3) if moving else key % 3]
            at, deleted = random.randrange(40), random.random() < 0.2
            text = PLACEHOLDER if random.random() < 0.5 else f"text {number}"
            value = {"n": number, "at": at, "text": text, **({"__deleted": "true"} if deleted else {})}
            offset = len(world.kafka.records[tp])
            world.add(tp, f"k{key}", json.dumps(value).encode())
            place = (at if by_time else 0, offset, tp.partition)
            events.setdefault(f"k{key}", []).append((place, number, None if deleted else text, deleted))
            if number % 12 == 11:
                world.sink.poll_and_commit()
                world.use(int(random.random() < 0.3))
                world.advance()
    return world, dict(filter(None, map(_expected_row, *zip(*events.items(), strict=True))))


def _expected_row(
    key: str, events: list[tuple[tuple[int, int, int], int, str | None, bool]]
) -> tuple[str, tuple[int, str | None]] | None:
    newest_first = sorted(events, reverse=True)
    _, number, _, deleted = newest_first[0]
    if deleted:
        return None
    return key, (number, next((text for _, _, text, _ in newest_first if text != PLACEHOLDER), None))


def dying(where: str) -> Callable[[str], None]:
    """A step at which the driver dies."""

    def step(at: str) -> None:
        if at == where:
            raise Died

    return step
