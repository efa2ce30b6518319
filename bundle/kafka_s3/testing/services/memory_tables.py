"""What would Spark have in its tables? A catalog in memory, which leaves out repeated transactions as Delta does, for tests."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.delta.copying import Append, SparkState
from kafka_s3.model.errors import TableRefused, TableUnavailable
from kafka_s3.store.store import ObjectStore

_ids = itertools.count(1)


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
