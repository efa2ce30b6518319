"""How do records get into a table that only Spark can write? It reads an entry's objects and appends what they hold: a copy.

Each append carries the sink's transaction with an entry as its version, and Delta leaves out one whose version the table already has. So
every driver must make the very same appends:

1. The entries that are there when the table is first seen go in by steps of about `BATCH` files. The first driver notes the steps, by the
   table's id, in an object that must not exist yet; all others keep to them.
2. Every later entry is an append of its own.

Whoever dies in between, or is overtaken, repeats appends that are left out. A table that is not there is made first, empty, with the
columns of the log's first files.

Objects that take the place of others hold what is in the table already. Where they did so before the table was first seen, they are read in
place of the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Protocol

from kafka_s3.connect.naming.table_names import TableName, TableNames, normal_location
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.task.table_guard.columns import RESCUED, Mode, TableColumns, read_columns
from kafka_s3.followers.delta.follower import (
    ChangeReporter,
    EntryFiles,
    batches,
    by_topic,
    note_of,
    without_replaced,
)
from kafka_s3.followers.delta.planner import APP, TablePlan, TablePlanner, TableState
from kafka_s3.model.errors import (
    ObjectMissing,
    PreconditionFailed,
    StorageError,
    TableError,
    TableRefused,
    TableUnavailable,
)
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore


@dataclass(slots=True)
class CachedColumns:
    """The columns of one table, as an object beside the log has them."""

    store: ObjectStore
    key: str
    name: TableName
    _cached: str = field(default="", init=False)

    @property
    def sql(self) -> str:
        """The table's name in SQL."""
        return self.name.sql

    def state(self) -> TableState | None:
        """The table with the columns last cached; None where none were. Raises TableUnavailable."""
        try:
            found = json.loads(self.store.get(self.key))
        except ObjectMissing:
            return None
        except StorageError as error:
            raise TableUnavailable(str(error)) from error
        if found["table"] != str(self.name):
            return None
        return TableState(-1, read_columns(found["columns"]), (), -1)

    def note(self, columns: TableColumns) -> None:
        """Notes the columns, where they are others than before. Raises StorageError."""
        text = json.dumps({"table": str(self.name), "columns": columns.schema_string()})
        if text != self._cached:
            self.store.put(self.key, text.encode())
            self._cached = text


TRIES: Final = 3
ANOTHER: Final = "Set another delta.table.name, or drop the table: it is then made from the whole log."
Values = tuple[tuple[str, str | None], ...]
"""What the directories of an object say of its records: column and value."""


@dataclass(frozen=True, slots=True)
class SparkState:
    """What the catalog says of a table: its id, which another table of that name has not, where it lies, and its columns."""

    id: str
    location: str
    columns: TableColumns


@dataclass(frozen=True, slots=True)
class Append:
    """What becomes one version of a table: the objects' own `columns`, and what their directories say for the `given` ones.

    `merge` lets the table get new columns; `note` is for its history.
    """

    app: str
    position: int
    columns: TableColumns
    given: TableColumns
    keys: Mapping[Values, Sequence[str]]
    merge: bool
    note: str


class SparkTables(Protocol):
    """What a Spark that knows Delta does. All raise TableError."""

    def state(self, name: TableName) -> SparkState | None:
        """The table as it is, None where there is none."""
        ...

    def sinks(self, name: TableName) -> set[str]:
        """The sinks that the table's history names."""
        ...

    def create(self, name: TableName, columns: TableColumns, partition_by: Sequence[str]) -> None:
        """Makes an empty table, unless there is one."""
        ...

    def append(self, name: TableName, append: Append) -> None:
        """Reads the objects and appends what they hold, unless the table has that version of the application, or a later one."""
        ...


@dataclass(slots=True)
class Copying:
    """Takes entries into tables of Spark.

    `own` gives the locations (see `table_names.normal_location`) of a topic's objects; `topics` are those that the sink has for certain:
    their tables may be there before a record.
    """

    table_planner: TablePlanner
    paths: StatePaths
    tables: SparkTables
    names: TableNames
    reporter: ChangeReporter
    noted: Callable[[str], CachedColumns]
    own: Callable[[str], set[str]]
    topics: Sequence[str] = ()
    _first: dict[str, int] = field(default_factory=dict)

    def begin(self, topics: Sequence[str]) -> None:
        """Notes the columns of tables, which others may have changed while the sink was away."""
        for topic in sorted({*topics, *self.topics}):
            try:
                self._state(topic)
            except TableError as error:
                self.reporter.warn(f"Delta tables: {error}")

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic; those of all earlier entries, too, where the table has none of the sink's yet."""
        state = self._state(topic) or self._made(topic, log)
        if state is None:
            return
        first = self._first.get(state.id)
        if first is None:
            first = self._first[state.id] = self._begun(topic, state, log)
        for one in entries:
            if one.version > first and not one.swaps:
                self._append(topic, [one], position=one.version)

    def _made(self, topic: str, log: CommitLog) -> SparkState | None:
        """The table, made empty from the columns of the first files; None where none of them is left."""
        for batch in batches(log.entries(), log.state.version):
            plan = self._plan(None, by_topic(batch).get(topic, []))
            if plan.files:
                marks = {name for name in plan.partition_by if name not in self.table_planner.layout.fields}
                self.tables.create(self.names.of(topic), plan.columns.marked(marks), plan.partition_by)
                return self._state(topic)
        return None

    def _begun(self, topic: str, state: SparkState, log: CommitLog) -> int:
        """Takes the entries that were there when the table was first seen; gives the last of them."""
        key = self.paths.follower(f"delta-spark/{state.id}")
        begun = self._steps(key, topic, log)
        after = -1
        for step in begun["steps"] if not begun["done"] else ():
            self._append(topic, self._of_step(topic, log, after, step, last=begun["steps"][-1]), position=step)
            after = step
        if not begun["done"]:
            self.table_planner.store.put(key, json.dumps(begun | {"done": True}).encode())
        return int(begun["steps"][-1])

    def _of_step(self, topic: str, log: CommitLog, after: int, step: int, *, last: int) -> Sequence[EntryFiles]:
        """What a step appends: of its entries the files that nothing takes the place of up to the last step."""
        until = last if log.state.rewritten else step
        entries = by_topic(takewhile(_up_to(until), log.entries(after=after))).get(topic, [])
        return [one for one in without_replaced(entries) if one.version <= step]

    def _steps(self, key: str, topic: str, log: CommitLog) -> dict[str, Any]:
        """In which steps the table begins: as the first driver to ask has it."""
        store = self.table_planner.store
        try:
            found: dict[str, Any] = json.loads(store.get(key))
        except ObjectMissing:
            self._check_is_new(topic)
            steps = [batch[-1].version for batch in batches(log.entries(), log.state.version)]
            wanted = {"table": str(self.names.of(topic)), "steps": steps, "done": False}
            try:
                store.put_new(key, json.dumps(wanted).encode())
            except PreconditionFailed:
                found = json.loads(store.get(key))
            else:
                return wanted
        return found

    def _check_is_new(self, topic: str) -> None:
        """Raises TableRefused for a table with entries of a log that is not this one: Delta would take this one's for repeated ones."""
        name = self.names.of(topic)
        if self.paths.sink in self.tables.sinks(name):
            raise TableRefused(
                f"{name} holds entries of sink {self.paths.sink} already, of which its state in the bucket knows nothing (was the state "
                f"deleted, or did delta-rs write the table?). {ANOTHER}"
            )

    def _append(self, topic: str, entries: Sequence[EntryFiles], *, position: int) -> None:
        """Appends, once more where another writer was in the way: Delta leaves out what is there already."""
        for attempt in range(1, TRIES + 1):
            try:
                self._append_once(topic, entries, position=position)
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise

    def _append_once(self, topic: str, entries: Sequence[EntryFiles], *, position: int) -> None:
        state = self._state(topic)
        if state is None:
            raise TableUnavailable(
                f"{self.names.of(topic)} is gone; it is created again from the whole log after the next entry."
            )
        plan = self._plan(state, entries)
        self.reporter.report(topic, plan)
        if not plan.files:
            return
        note = json.dumps(note_of(self.paths.sink, entries, plan), separators=(",", ":"))
        files = [file for one in entries for file in one.files if file.key not in plan.left_out]
        own, given = _split(plan, state)
        merge = self.table_planner.mode is Mode.ADD or (
            self.table_planner.mode is Mode.RESCUE and RESCUED not in state.columns.fields
        )
        keys = self._by_directory(files, list(given.fields))
        append = Append(f"{APP}{self.paths.sink}", position, own, given, keys=keys, merge=merge, note=note)
        self.tables.append(self.names.of(topic), append)
        if plan.columns.fields.keys() != state.columns.fields.keys():
            self._state(topic)

    def _by_directory(self, files: Iterable[DataFile], names: Sequence[str]) -> dict[Values, list[str]]:
        """The keys of files by what their directories say for columns that no file has itself."""
        found: dict[Values, list[str]] = {}
        for file in files:
            directories = self.table_planner.layout.directories(file)
            values = tuple(
                (name, directories[name])
                for name in names
                if name in directories and name not in self.table_planner.layout.fields
            )
            found.setdefault(values, []).append(file.key)
        return found

    def _plan(self, state: SparkState | None, entries: Sequence[EntryFiles]) -> TablePlan:
        known = None if state is None else TableState(-1, state.columns, (), -1)
        modified = {file.key: one.committed_ms for one in entries for file in one.files}
        return self.table_planner.plan(known, [file for one in entries for file in one.files], modified_ms=modified)

    def _state(self, topic: str) -> SparkState | None:
        name = self.names.of(topic)
        state = self.tables.state(name)
        if state is not None and normal_location(state.location) in self.own(topic):
            raise TableRefused(
                f"{name} lies over the topic's own objects, at {state.location}: a copy has no place there. {ANOTHER}"
            )
        if state is not None:
            self.noted(topic).note(state.columns)
        return state


def _up_to(version: int) -> Callable[[CommitEntry], bool]:
    return lambda entry: entry.version <= version


def _split(plan: TablePlan, state: SparkState) -> tuple[TableColumns, TableColumns]:
    """Columns of the table that files have themselves, and those that they have not; no other is written: they may have defaults."""
    own = {name: one for name, one in plan.columns.fields.items() if name in plan.own}
    given = {name: one for name, one in state.columns.fields.items() if name not in plan.own}
    return TableColumns(own).plain(), TableColumns(given).plain()
