"""Sinks with state tables: random records, a model that knows what a table has to hold, and tables in memory in Spark's place."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow.parquet as pq

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.log.committed import committed_files, entries_between, rewrites_behind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.state import Changes, StateRules, StateStretch, Transaction
from kafka_s3.model.offsets import TopicPartition

Place = tuple[bool, int, int, int]
"""What decides between two records of a key: whether there is a time, the time, offset, partition."""
Deletions = dict[str, tuple[Place, int]]
"""Of each key the place of its deletion, and when that was noted."""
MOST_HELD = 6
STATE = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.schema.inference": "true",
    "record.metadata.enable": "true",
    "state.enable": "true",
    "state.table": "main.${topic}",
    "state.delete.on": "tombstone",
    "state.run.on": "job",
    "transforms": "tombstones",
    "transforms.tombstones.type": "io.confluent.connect.transforms.TombstoneHandler",
    "transforms.tombstones.behavior": "rewrite",
}


@dataclass(frozen=True)
class KeyedRecord:
    """A record as its producer means it; One that is deleted is a tombstone, or has a time and a mark. `number` is the row's."""

    key: str
    partition: int
    number: int
    at: int | None
    deleted: bool

    def value(self) -> bytes | None:
        if self.deleted and self.at is None:
            return None
        times = {} if self.at is None else {"at": self.at}
        mark = {"__deleted": "true"} if self.deleted else {}
        more = {} if more_of(self.number) is None else {"more": more_of(self.number)}
        return json.dumps({"n": self.number, **times, **mark, **more}).encode()


def more_of(number: int) -> str | None:
    """The text that a record's value has beside its number: the schema changes after ten records, and back after ten more."""
    return f"m{number}" if number // 10 % 2 else None


def random_records(
    random: Random, *, count: int, numbers: Iterator[int], partitions: int, moving: bool
) -> list[KeyedRecord]:
    """Updates, deletes, re-inserts and late records of few keys; a producer's duplicates, too. Where keys move, times decide.

    Without it a key has one partition, as in Kafka, and no times.
    """
    found: list[KeyedRecord] = []
    for _ in range(count):
        key = random.randrange(8)
        partition = random.randrange(partitions) if moving else key % partitions
        at = random.randrange(30) if moving and random.random() < 0.9 else None
        found.append(KeyedRecord(f"k{key}", partition, next(numbers), at, random.random() < 0.3))
        if random.random() < 0.1:
            found.append(found[-1])
    return found


@dataclass
class StateModel:
    """Every record ever produced, and what a table has to hold of them."""

    by_time: bool
    records: list[tuple[KeyedRecord, int]] = field(default_factory=list)

    def add(self, record: KeyedRecord, offset: int) -> None:
        self.records.append((record, offset))

    def rows(self) -> dict[str, int]:
        """The number of the newest record of each key that is not deleted."""
        newest: dict[str, tuple[Place, KeyedRecord]] = {}
        for record, offset in self.records:
            at = record.at if self.by_time else None
            place = (at is not None, at or 0, offset, record.partition)
            if record.key not in newest or place > newest[record.key][0]:
                newest[record.key] = place, record
        return {key: record.number for key, (_, record) in newest.items() if not record.deleted}


@dataclass
class MemoryStateTable:
    """Live rows and deletions with their places; the transactions that the table has, and the one of the deletions."""

    id: str
    rows: dict[str, tuple[Place, dict[str, Any]]] = field(default_factory=dict)
    deleted: dict[str, tuple[Place, int]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)


_ids = itertools.count()


def _newest_of(*deletions: Deletions) -> Deletions:
    found: Deletions = {}
    for key, one in itertools.chain.from_iterable(some.items() for some in deletions):
        found[key] = max(found.get(key, one), one)
    return found


@dataclass
class MemoryStates:
    """The tables by name, and the deletions that one driver holds: from which offset on, those, and those of them that wait.

    `step` is called around each, with what is done, and may die or do something else in between.
    """

    log: Callable[[], CommitLog]
    step: Callable[[str], None] = lambda _: None
    tables: dict[str, MemoryStateTable] = field(default_factory=dict)
    held: dict[str, tuple[int, Deletions, Deletions]] = field(default_factory=dict)
    _changes: dict[Changes, dict[str, tuple[Place, bool, dict[str, Any]]]] = field(default_factory=dict)

    def beside(self) -> MemoryStates:
        """The same tables, as another driver has them."""
        return MemoryStates(self.log, lambda at: self.step(at), self.tables)

    def identity(self, name: TableName) -> str | None:
        found = self.tables.get(str(name))
        return None if found is None else found.id

    def is_empty(self, name: TableName) -> bool:
        return not self.tables[str(name)].rows

    def count(self, name: TableName) -> int:
        return len(self.tables[str(name)].rows)

    @contextmanager
    def read_changes(
        self, stretch: StateStretch, rules: StateRules, *, table: TableName | None = None, alone: bool = False
    ) -> Iterator[Changes]:
        newest: dict[str, tuple[Place, bool, dict[str, Any]]] = {}
        keyless = 0
        for row in self._rows(stretch):
            kafka, key = row["_kafka"], row["_kafka"]["key"]
            if key is None:
                keyless += 1
                continue
            at = row.get(rules.order_by[0]) if rules.order_by else None
            place = (at is not None, at or 0, kafka["offset"], kafka["partition"])
            if key not in newest or place > newest[key][0]:
                newest[key] = place, any(row.get(mark.path[0]) == mark.text for mark in rules.deletes), row
        oldest = stretch.earliest if rules.order_by is None else 0
        deleted = {} if table is None else self._noted(str(table), oldest, alone=alone)
        known = {key: one for key, one in deleted.items() if one[0][2] >= oldest}
        newest = {key: one for key, one in newest.items() if one[1] or key not in known or one[0] > known[key][0]}
        gone = sum(one[1] for one in newest.values())
        changes = Changes(stretch, len(newest), gone, keyless, "partition 0 offset 0" if keyless else "")
        self._changes[changes] = newest
        self.step("read")
        yield changes

    def _noted(self, name: str, oldest: int, *, alone: bool) -> dict[str, tuple[Place, int]]:
        first, held, waiting = self.held.pop(name, (oldest + 1, {}, {})) if alone else (oldest + 1, {}, {})
        if first > oldest:
            first, held = oldest, _newest_of(self.tables[name].deleted, waiting)
        self.held[name] = first, held, waiting
        return held

    def _rows(self, stretch: StateStretch) -> Iterator[dict[str, Any]]:
        log = self.log()
        log.load()
        entries, later = entries_between(log, stretch.first, stretch.last), rewrites_behind(log, stretch.last)
        for one in committed_files(entries, stretch.topic, later=later):
            assert one.values is not None
            rows = pq.read_table(io.BytesIO(log.store.get(one.values.key)), partitioning=None).to_pylist()
            yield from rows[: one.rows]

    def _deleted(self, changes: Changes, now_ms: int) -> Deletions:
        return {key: (place, now_ms) for key, (place, deleted, _) in self._changes[changes].items() if deleted}

    def hold_deletions(self, name: TableName, changes: Changes) -> bool:
        (first, held, waiting), new = self.held[str(name)], self._deleted(changes, 0)
        if len(waiting) + len(new) > MOST_HELD:
            return False
        self.held[str(name)] = first, _newest_of(held, new), _newest_of(waiting, new)
        self.step("deletions held")
        return True

    def remember_deletions(
        self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction, now_ms: int
    ) -> None:
        self.step("before deletions")
        table, (first, held, waiting) = self.tables[str(name)], self.held[str(name)]
        new = self._deleted(changes, now_ms)
        self.held[str(name)] = first, _newest_of(held, new), {}
        if table.noted.get(transaction.app, -1) >= transaction.version:
            return
        table.noted[transaction.app] = transaction.version
        table.deleted = _newest_of(table.deleted, {key: (place, now_ms) for key, (place, _) in waiting.items()}, new)
        kept = {key: one for key, one in table.deleted.items() if one[1] >= now_ms - rules.retention_ms}
        table.deleted = kept
        self.step("after deletions")

    def merge(self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction) -> int | None:
        self.step("before merge")
        table = self.tables[str(name)]
        before, grown = len(table.rows), None
        if table.versions.get(transaction.app, -1) < transaction.version:
            for key, (place, deleted, row) in self._changes[changes].items():
                if key in table.rows and place <= table.rows[key][0]:
                    continue
                if deleted:
                    table.rows.pop(key, None)
                else:
                    table.rows[key] = place, row
            table.versions[transaction.app] = transaction.version
            grown = len(table.rows) - before
        self.step("after merge")
        return grown

    def replace(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int, note: str) -> None:
        self.step("before replace")
        found = self.tables.setdefault(str(name), MemoryStateTable(f"table-{next(_ids)}"))
        content = self._changes[changes]
        found.deleted = {key: (place, now_ms) for key, (place, deleted, _) in content.items() if deleted}
        self.step("deletions replaced")
        found.rows = {key: (place, row) for key, (place, deleted, row) in content.items() if not deleted}
        self.step("after replace")

    def numbers(self, name: str) -> dict[str, int]:
        """The table's rows as the model has them."""
        rows = {key: row for key, (_, row) in self.tables[name].rows.items()}
        assert all(row.get("more") == more_of(row["n"]) for row in rows.values())
        return {key: row["n"] for key, row in rows.items()}


def partition_of(record: KeyedRecord, topic: str = "orders") -> TopicPartition:
    """Where it is produced to."""
    return TopicPartition(topic, record.partition)
