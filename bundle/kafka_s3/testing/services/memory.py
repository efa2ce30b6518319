"""What takes the place of Kafka and Spark where neither is wanted? Records in memory, read through the product's own pipeline, and tables.

It ships with the package so that users and the conformance adapter can drive the real loop (planner, worker, commit) without a broker.
"""

from __future__ import annotations

import io
import itertools
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.followers.delta.copying import Append, SparkState
from kafka_s3.model.errors import TableRefused, TableUnavailable
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.protocols import MIRRORED, Message, Refusal, Topic
from kafka_s3.model.tasks import Assignment, TaskOutcome, damage_report
from kafka_s3.store.store import ObjectStore

_ids = itertools.count(1)
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER)),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record of a topic-partition; `timestamp` is epoch ms."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def takes_all(message: Message) -> str:
    """No reason against any message."""
    return ""


@dataclass
class MemoryKafka:
    """A cluster of topics in memory, and the engine that reads them. `batch_size` bounds the Arrow batches a task sees."""

    pipeline: Callable[[], Pipeline]
    store: ObjectStore
    batch_size: int = 10_000
    records: dict[TopicPartition, list[MemoryRecord]] = field(default_factory=dict)
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    produced: dict[str, list[Message]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    leaderless: set[TopicPartition] = field(default_factory=set)
    cuts: dict[TopicPartition, list[int]] = field(default_factory=dict)
    damaged: dict[TopicPartition, int] = field(default_factory=dict)
    refuses: Callable[[Message], str] = takes_all
    mirrored: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def create(self, topic_partition: TopicPartition, *, start: int = 0) -> None:
        """Makes an empty partition whose first record will have offset `start`."""
        self.records.setdefault(topic_partition, [])
        self.begins.setdefault(topic_partition, start)

    def add(self, topic_partition: TopicPartition, record: MemoryRecord) -> None:
        """Appends a record."""
        self.create(topic_partition, start=record.offset)
        self.records[topic_partition].append(record)

    def trim(self, topic_partition: TopicPartition, *, start: int) -> None:
        """Drops the records before `start`, as retention does."""
        self.begins[topic_partition] = start
        self.records[topic_partition] = [r for r in self.records[topic_partition] if r.offset >= start]

    def cluster_id(self) -> str:
        """A fixed id."""
        return "memory"

    def topic_names(self) -> list[str]:
        """The topics with a partition."""
        return sorted({tp.topic for tp in self.records})

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """Topics by name."""
        found = {}
        for name in names:
            partitions = tuple(sorted(tp.partition for tp in self.records if tp.topic == name))
            if partitions:
                found[name] = Topic(name, self.ids.get(name, f"id-{name}"), partitions)
        return found

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """One past the last record."""
        return {tp: end.offset for tp, end in self.ends(partitions).items()}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The same with the leader epoch: how often the log was cut."""
        found = {}
        for tp in self._led(partitions):
            head = self.records[tp][-1].offset + 1 if self.records[tp] else self.begins[tp]
            found[tp] = LogEnd(head, len(self.cuts.get(tp, ())))
        return found

    def cut(self, topic_partition: TopicPartition, *, at: int) -> None:
        """Drops the records from `at` on, as a leader does that never had them."""
        self.cuts.setdefault(topic_partition, []).append(at)
        self.records[topic_partition] = [r for r in self.records[topic_partition] if r.offset < at]

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        """The earliest cut since each epoch, where it is before the position."""
        cuts = {tp: min(self.cuts.get(tp, [])[end.epoch or 0 :], default=end.offset) for tp, end in positions.items()}
        return {tp: at for tp, at in cuts.items() if at < positions[tp].offset}

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start, which compaction does not move."""
        return {tp: self.begins[tp] for tp in self._led(partitions)}

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time."""
        return {
            tp: next((r.offset for r in self.records[tp] if r.timestamp is not None and r.timestamp >= ms), None)
            for tp, ms in times.items()
            if tp in self._led(times)
        }

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets noted."""
        noted = self.groups.get(group, {})
        return {tp: noted[tp] for tp in partitions if tp in noted}

    def group_progress(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The same, each with its metadata: blank if it was put into `groups`."""
        mirrored = self.mirrored.get(group, {})
        offsets = self.group_offsets(group, partitions)
        return {tp: (offset, MIRRORED if mirrored.get(tp) == offset else "") for tp, offset in offsets.items()}

    def group_members(self, group: str) -> list[str]:
        """The members that were put there."""
        return list(self.members.get(group, ()))

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Notes the offsets."""
        self.groups.setdefault(group, {}).update(offsets)
        self.mirrored.setdefault(group, {}).update(offsets)

    def produce(self, topic: str, messages: Iterable[Message], *, replication: int) -> list[Refusal]:
        """Notes the messages, but for those that `refuses` has a reason against."""
        given = list(messages)
        refused = [Refusal(message, reason) for message in given if (reason := self.refuses(message))]
        left = [refusal.message for refusal in refused]
        self.produced.setdefault(topic, []).extend(message for message in given if message not in left)
        return refused

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """Runs each assignment through the pipeline, one after the other."""
        return [self._outcome(wanted) for wanted in assignments]

    def _outcome(self, wanted: Assignment) -> TaskOutcome:
        at = self.damaged.get(wanted.topic_partition)
        if at is not None and wanted.first_unread <= at < wanted.until:
            return damage_report(wanted, at, f"{wanted.topic_partition} is damaged at {at}.")
        tp, start = wanted.topic_partition, wanted.first_unread
        return self.pipeline().outcome(wanted, self.batches(tp, start, until=wanted.until), self.store)

    def _led(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [tp for tp in partitions if tp in self.records and tp not in self.leaderless]

    def batches(self, topic_partition: TopicPartition, start: int, *, until: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in `[start, until)`, with everything that a task takes."""
        held = self.records[topic_partition]
        first, end = (bisect_left(held, offset, key=attrgetter("offset")) for offset in (start, until))
        for at in range(first, end, self.batch_size):
            yield _batch(held[at : min(at + self.batch_size, end)])


def _batch(records: Sequence[MemoryRecord]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in records] for name in SCHEMA.names}
    columns["headers"] = [[{"key": name, "value": value} for name, value in one.headers] for one in records]
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


@dataclass(slots=True)
class MemoryTable:
    """A table: its columns, rows, and the version of each application; `appends` are those that went in."""

    id: str
    columns: TableColumns
    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    appends: list[Append] = field(default_factory=list)


@dataclass(slots=True)
class MemoryTables:
    """Tables by name. `before` and `after` are called around each append and may raise; a table that refuses takes nothing."""

    store: ObjectStore
    tables: dict[str, MemoryTable] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    before: Callable[[Append], None] = lambda _: None
    after: Callable[[Append], None] = lambda _: None
    locations: dict[str, str] = field(default_factory=dict)

    def url(self, key: str) -> str:
        """A made-up address."""
        return f"memory://bucket/{key}"

    def location(self, name: TableName) -> str | None:
        """Where a registered table lies."""
        return self.locations.get(str(name))

    def register(self, name: TableName, location: str) -> None:
        """Registers a table, unless the name is taken."""
        self._check(name)
        self.locations.setdefault(str(name), location)

    def state(self, name: TableName) -> SparkState | None:
        """The table as it is."""
        found = self.tables.get(str(name))
        return None if found is None else SparkState(found.id, f"memory://tables/{found.id}", found.columns.fixed())

    def sinks(self, name: TableName) -> set[str]:
        """The sinks that have appended."""
        found = self.tables.get(str(name))
        return set() if found is None else {json.loads(append.note)["kafka-s3"] for append in found.appends}

    def create(self, name: TableName, columns: TableColumns, partition_by: Sequence[str]) -> None:
        """Makes an empty table, unless there is one."""
        self._check(name)
        self.tables.setdefault(str(name), MemoryTable(f"table-{next(_ids)}", columns))

    def append(self, name: TableName, append: Append) -> None:
        """Appends what the objects hold, unless the table has that version already."""
        self._check(name)
        self.before(append)
        table = self.tables.get(str(name))
        if table is None:
            raise TableUnavailable(f"{name} is gone.")
        if append.position > table.versions.get(append.app, -1):
            self._put(table, append)
        self.after(append)

    def _put(self, table: MemoryTable, append: Append) -> None:
        for values, keys in append.keys.items():
            for key in keys:
                rows = pq.read_table(io.BytesIO(self.store.get(key)), partitioning=None).to_pylist()
                table.rows += [{name: row.get(name) for name in append.columns.fields} | dict(values) for row in rows]
        if append.merge:
            table.columns = TableColumns({**append.columns.fields, **table.columns.fields})
        table.versions[append.app] = append.position
        table.appends.append(append)

    def _check(self, name: TableName) -> None:
        if str(name) in self.refuses:
            raise TableRefused(f"{name} refuses.")
