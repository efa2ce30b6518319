"""Does the catalog get each topic's columns and directories, each once, whenever it was named and whatever failed?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.glue import PATIENCE_MS, GlueTables, merged_table
from kafka_s3.model.errors import ConfigError, TableRefused, TableUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.followers import table_in_bucket
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3_testing.faults import FaultyStore
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

HOUR = 3_600_000


@dataclass
class MemoryCatalog:
    """A database of a catalog in memory; `fails` times nothing answers."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[tuple[str, ...], str] = field(default_factory=dict)
    fails: int = 0
    updates: int = 0

    def table(self, name: str) -> dict[str, Any] | None:
        if self.fails:
            self.fails -= 1
            raise TableUnavailable("AWS Glue did not answer.")
        return self.tables.get(name)

    def create(self, table: Mapping[str, Any]) -> None:
        assert table["Name"] not in self.tables
        self.tables[table["Name"]] = dict(table)

    def update(self, table: Mapping[str, Any]) -> None:
        self.updates += 1
        self.tables[table["Name"]] = dict(table)

    def add_partitions(self, name: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        for one in partitions:
            self.partitions.setdefault(tuple(one["Values"]), one["StorageDescriptor"]["Location"])


def written(world: World, *rows: tuple[int, dict[str, Any]]) -> None:
    start = len(world.kafka.records[ORDERS])
    for number, (at_ms, value) in enumerate(rows):
        world.kafka.add(ORDERS, MemoryRecord(start + number, at_ms, None, json.dumps(value).encode()))
    if not world.entries():
        world.start()
    world.sink.poll()
    world.sink.drain()


def follower(world: World, catalog: MemoryCatalog, warned: list[str]) -> tuple[GlueTables, CommitLog]:
    log = world.log()
    log.load()
    settings, store = world.settings, world.store
    table_of = partial(table_in_bucket, settings, store, bucket="bucket")
    return GlueTables(catalog, table_of, lambda: world.now, warned.append), log


def columns(catalog: MemoryCatalog) -> dict[str, str]:
    return {one["Name"]: one["Type"] for one in catalog.tables["orders"]["StorageDescriptor"]["Columns"]}


def test_columns_and_directories_of_what_was_there_before_and_of_each_commit_after() -> None:
    world, catalog, warned = World({"flush.size": "1", **FIELD}), MemoryCatalog(), list[str]()
    written(world, (START_MS, {"d": "a", "n": 1}), (START_MS, {"d": "b", "n": 2}))
    one, log = follower(world, catalog, warned)
    one.catch_up(log)
    assert columns(catalog) == {"n": "bigint"}
    assert catalog.partitions == {(d,): f"s3://bucket/topics/orders/d={d}/" for d in "ab"}
    written(world, (START_MS, {"d": "c", "n": 3, "text": "new"}))
    one, log = follower(world, catalog, warned)
    one.catch_up(log)
    assert columns(catalog) == {"n": "bigint", "text": "string"}
    assert catalog.partitions.keys() == {("a",), ("b",), ("c",)}
    updates = catalog.updates
    one.catch_up(log)
    assert (catalog.updates, warned) == (updates, [])


def test_what_did_not_answer_is_taken_in_the_next_time() -> None:
    world, catalog = World({"flush.size": "1", **FIELD}), MemoryCatalog(fails=1)
    written(world, (START_MS, {"d": "a", "n": 1}))
    one, log = follower(world, catalog, [])
    with pytest.raises(TableUnavailable):
        one.catch_up(log)
    one.catch_up(log)
    assert catalog.partitions.keys() == {("a",)}


def test_ranges_of_times_grow_with_what_is_written_and_a_type_stays() -> None:
    by_year = {**TIME, "path.format": "'year'=YYYY/'month'=MM"}
    world, catalog, warned = World({"flush.size": "1", **by_year}), MemoryCatalog(), list[str]()
    written(world, (START_MS, {"n": 1}))
    one, log = follower(world, catalog, warned)
    one.catch_up(log)
    assert catalog.tables["orders"]["Parameters"]["projection.year.range"] == "2024,2034"
    written(world, (START_MS - 366 * 24 * HOUR, {"n": "text"}), (START_MS + 366 * 24 * HOUR, {"n": "text"}))
    one, log = follower(world, catalog, warned)
    one.catch_up(log)
    assert catalog.tables["orders"]["Parameters"]["projection.year.range"] == "2023,2035"
    assert (columns(catalog), len(warned)) == ({"n": "bigint"}, 1)
    assert "column n has another type now" in warned[0]


def test_a_table_of_other_objects_or_directories_is_not_touched() -> None:
    world, catalog = World({"flush.size": "1", **FIELD}), MemoryCatalog()
    written(world, (START_MS, {"d": "a", "n": 1}))
    one, log = follower(world, catalog, [])
    one.catch_up(log)
    known = catalog.tables["orders"]
    written(world, (START_MS, {"d": "b", "n": 1}))
    for changed, rule in (
        ({**known, "PartitionKeys": []}, "has the partition keys"),
        (
            {**known, "StorageDescriptor": {**known["StorageDescriptor"], "Location": "s3://other/"}},
            "lies at s3://other/",
        ),
    ):
        catalog.tables["orders"] = changed
        one, log = follower(world, catalog, [])
        with pytest.raises(TableRefused, match=rule):
            one.catch_up(log)
    catalog.tables["orders"] = known
    world.now += PATIENCE_MS
    one.catch_up(log)
    assert catalog.partitions.keys() == {("a",), ("b",)}


def test_a_refused_table_holds_up_no_other_topic_and_misses_nothing_once_it_is_mended() -> None:
    payments = TopicPartition("payments", 0)
    world, catalog = (
        World({"flush.size": "1", "topics": "orders,payments", **FIELD}, topics=(ORDERS, payments)),
        MemoryCatalog(),
    )
    world.start()
    for tp, directory in ((ORDERS, "a"), (payments, "p")):
        world.kafka.add(tp, MemoryRecord(0, START_MS, None, json.dumps({"d": directory, "n": 1}).encode()))
    assert world.sink.poll_and_commit()
    other = {"Name": "orders", "PartitionKeys": [], "StorageDescriptor": {"Location": "s3://other/"}}
    catalog.tables["orders"] = other
    one, log = follower(world, catalog, [])
    with pytest.raises(TableRefused, match="lies at s3://other/"):
        one.catch_up(log)
    assert catalog.partitions.keys() == {("p",)}
    del catalog.tables["orders"]
    assert not one.due
    world.now += PATIENCE_MS
    assert one.due
    one.catch_up(log)
    assert (catalog.partitions.keys(), one.due) == ({("p",), ("a",)}, False)


def test_a_refused_table_reads_no_entry_again_before_it_is_mended() -> None:
    world, catalog = World({"flush.size": "1", **FIELD}), MemoryCatalog()
    other = {"Name": "orders", "PartitionKeys": [], "StorageDescriptor": {"Location": "s3://other/"}}
    catalog.tables["orders"] = other
    for n in range(10):
        written(world, (START_MS, {"d": f"d{n}", "n": 1}))
    store = FaultyStore(world.store)

    def tried(one: GlueTables) -> int:
        """How many entries of the log a try reads."""
        del store.calls[:]
        log = CommitLog(store, state_paths(world.settings), clock_ms=lambda: world.now)
        log.load()
        loaded = len(store.calls)
        with suppress(TableRefused):
            one.catch_up(log)
        return sum(verb == "get" and "/commits/" in key for verb, key in store.calls[loaded:])

    one, _ = follower(world, catalog, [])
    assert tried(one) >= 10  # all of the log, once
    assert tried(one) == 0
    world.now += PATIENCE_MS
    assert tried(one) == 0
    one, _ = follower(world, catalog, [])
    assert tried(one) > 0  # the next driver, once
    world.now += PATIENCE_MS
    assert tried(one) == 0
    del catalog.tables["orders"]
    world.now += PATIENCE_MS
    assert tried(one) >= 10
    assert len(catalog.partitions) == 10
    assert tried(one) == 0


def test_objects_that_are_gone_since_do_not_hold_up_the_others() -> None:
    world, catalog, warned = World({"flush.size": "1", **FIELD}), MemoryCatalog(), list[str]()
    written(world, (START_MS, {"d": "a", "n": 1}))
    for key in world.store.objects:
        if key.startswith("topics/"):
            world.store.delete(key)
    one, log = follower(world, catalog, warned)
    one.catch_up(log)
    assert (len(warned), catalog.tables) == (1, {})


def test_merging_is_idempotent() -> None:
    table = {
        "Name": "t",
        "Parameters": {"a.range": "1,2"},
        "StorageDescriptor": {"Columns": [{"Name": "A", "Type": "int"}]},
    }
    assert merged_table(table, table) == (table, [])


def test_bytes_cannot_be_tables() -> None:
    with pytest.raises(ConfigError, match="needs objects with columns"):
        settings_of({
            "flush.size": "1", "glue.database.name": "lake", "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        })  # fmt: skip
