"""Do the files of a round fit the tables, and each other? Checked on the driver, between the tasks' reports and the commit.

Files must fit the columns of their topic's table, and what files before the commit have added to them. Tasks get these columns and keep to
them; but two tasks may bring the same new column in different types. Then the second is run again, with what the first has brought. Under
`failOnNewColumns` a new column or a wider type stops the sink here. By example: docs/worked-examples.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from threading import Lock
from typing import Final, NoReturn, Protocol

from kafka_s3.engine.task.table_guard.columns import (
    ColumnComparison,
    Mode,
    TableColumns,
    compare_columns,
    read_columns,
    rescuing,
)
from kafka_s3.engine.task.table_guard.renames import aligned
from kafka_s3.followers.delta.planner import TableState
from kafka_s3.model.errors import RecordError, StorageError, StorageUnavailable, TableUnavailable
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, TaskReport
from kafka_s3.store.store import ObjectStore, abort_uploads


class Admission(Enum):
    """What becomes of a report."""

    KEEP = auto()
    """The file is let through; the expected columns stay."""
    EXPECT = auto()
    """The file is let through; the columns of the fit are expected from now on."""
    RUN_AGAIN = auto()
    """The task did not know the expected columns, and differs from them: it runs again, and gets them."""
    STOP = auto()
    """The mode stops the sink before the commit."""


def admission(
    file: TableColumns, expected: TableColumns | None, *, given: str | None, mode: Mode
) -> tuple[Admission, ColumnComparison]:
    """What becomes of a report with a file of these columns, and how they fit the expected ones (None: no table, no file yet).

    `given` is the schema string that the task was given, None where it was given none.
    """
    if expected is None:
        return Admission.EXPECT, ColumnComparison(rescuing(file) if mode is Mode.RESCUE else file)
    knew = given == expected.schema_string()
    expected, file = aligned(expected, file)
    found = compare_columns(expected, file.plain())
    if mode is Mode.FAIL and (found.new or found.wider):
        return Admission.STOP, found
    if found.refusals(mode):
        return Admission.STOP if knew else Admission.RUN_AGAIN, found
    if mode is Mode.RESCUE and found.new and not knew:  # the task knew of no table, and rescued nothing
        return Admission.RUN_AGAIN, found
    return Admission.EXPECT if mode is Mode.ADD else Admission.KEEP, found


THREADS: Final = 8


class ReadableTable(Protocol):
    """A table whose columns can be asked for."""

    @property
    def sql(self) -> str:
        """What it is called in SQL."""
        ...

    def state(self) -> TableState | None:
        """The table's columns, None where there is none yet. Raises TableError."""
        ...


@dataclass(frozen=True, slots=True)
class Together:
    """Several tables over the same objects: what is in one of them is expected. Tables whose columns have numbers come first."""

    tables: Sequence[ReadableTable]

    @property
    def sql(self) -> str:
        """What they are called in SQL."""
        return " and ".join(table.sql for table in self.tables)

    def state(self) -> TableState | None:
        """The columns of all of them, None where there is no table yet. Raises TableError."""
        found = [state for table in self.tables if (state := table.state()) is not None]
        if not found:
            return None
        columns = found[0].columns
        for other in found[1:]:
            columns = _marked_as(compare_columns(columns, other.columns).columns, other.columns)
        names = dict.fromkeys(name for state in found for name in state.partition_by)
        return replace(found[0], columns=columns, partition_by=tuple(names))


def _marked_as(columns: TableColumns, others: TableColumns) -> TableColumns:
    """The columns, each with what the other ones of its name are marked with, too."""
    marks = {name: others.fields.get(name, {}).get("metadata", {}) for name in columns.fields}
    fields = {
        name: {**one, "metadata": {**marks[name], **one.get("metadata", {})}} for name, one in columns.fields.items()
    }
    return replace(columns, fields=fields)


def as_they_are(columns: TableColumns) -> TableColumns:
    """Columns as a file has them."""
    return columns


class ExpectedColumns:
    """The expected columns by topic. What files have added is pending until the topic's table has it, too.

    `table` gives a topic's table; `fields` are those of a field partitioner: directories name them, and records have them all the same.
    `form` makes what is expected of a file's columns, before there is a table. `mode_key` sets the mode.
    """

    def __init__(
        self,
        table: Callable[[str], ReadableTable],
        mode: Mode,
        *,
        fields: frozenset[str],
        form: Callable[[TableColumns], TableColumns] = as_they_are,
        mode_key: str = "delta.schema.evolution.mode",
    ) -> None:
        self._table, self._mode, self._fields, self._form = table, mode, fields, form
        self.mode_key = mode_key
        self._expected: dict[str, TableColumns] = {}
        self._pending: dict[str, TableColumns] = {}

    def poll(self, topics: Sequence[str]) -> None:
        """Reads the columns of the topics' tables, which others may have changed. Raises StorageUnavailable where the mode needs them."""
        with ThreadPool(THREADS) as pool:
            for topic, columns in zip(topics, pool.each(self._read, topics), strict=True):
                merged = self._with_pending(topic, columns)
                if merged is not None:
                    self._expected[topic] = merged

    def of(self, topic: str) -> TableColumns | None:
        """What files of a topic must fit; None where there is neither a table nor a file yet."""
        return self._expected.get(topic)

    def schema_strings(self) -> Mapping[str, str]:
        """The expected columns by topic, as tasks get them."""
        return {topic: columns.schema_string() for topic, columns in self._expected.items()}

    def expect(self, topic: str, columns: TableColumns) -> None:
        """Expects these columns from now on, also while the topic's table does not have them yet."""
        self._expected[topic] = self._pending[topic] = self._form(columns)

    def table_name(self, topic: str) -> str:
        """What a topic's table is called in SQL."""
        return self._table(topic).sql

    def _with_pending(self, topic: str, columns: TableColumns | None) -> TableColumns | None:
        """A table's columns and those that are pending, which end where the table has them all."""
        pending = self._pending.get(topic)
        if columns is None or pending is None:
            return columns or pending
        found = compare_columns(*aligned(columns, pending))
        if found.exact:
            del self._pending[topic]
        return found.columns

    def _read(self, topic: str) -> TableColumns | None:
        """The table's columns; None where there is no table, and where it does not say, unless the mode needs to know."""
        try:
            state = self._table(topic).state()
        except TableUnavailable as error:
            if self._mode in (Mode.FAIL, Mode.RESCUE) and topic not in self._expected:
                raise StorageUnavailable(str(error)) from error
            return self._expected.get(topic)
        except Exception:  # whatever it is, the follower meets it, too, and says so
            return self._expected.get(topic)
        if state is None:
            return None
        return self._form(state.columns).marked(name for name in state.partition_by if name not in self._fields)


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GuardedSource:
    """The engine, whose reports are let through where the tables can hold their files."""

    source: Source
    store: ObjectStore
    expected: ExpectedColumns
    mode: Mode
    _lock: Lock = field(default_factory=Lock)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """As the engine. What the mode stops for has failed, with its uploads aborted."""
        with self._lock:
            self.expected.poll(sorted({one.topic_partition.topic for one in assignments}))
        done: list[TaskOutcome] = []
        due = list(assignments)
        while due:
            with self._lock:
                given = self.expected.schema_strings()
            outcomes = self.source.read([replace(one, table=given.get(one.topic_partition.topic)) for one in due])
            remade = {one.topic_partition for one in due if one.only is not None}
            judged = [self._judged(one, given) if one.topic_partition not in remade else one for one in outcomes]
            done += [one for one in judged if one is not None]
            ended = {one.topic_partition for one in done}
            due = [one for one in due if one.topic_partition not in ended]
        return done

    def _judged(self, outcome: TaskOutcome, given: Mapping[str, str]) -> TaskOutcome | None:
        """The outcome where it can be committed, a failure where the mode stops for it, None where its task has to run again."""
        if isinstance(outcome, TaskFailure):
            return outcome
        try:
            with self._lock:
                again = self._runs_again(outcome, given)
        except RecordError as error:
            self._abort([outcome])
            return TaskFailure(outcome.topic_partition, error)
        if again:
            self._abort([outcome])
        return None if again else outcome

    def _runs_again(self, report: TaskReport, given: Mapping[str, str]) -> bool:
        """Does what is decided on each file of a report; whether its task has to run again. Raises RecordError."""
        topic = report.topic_partition.topic
        for text in report.columns:
            decided, found = admission(
                read_columns(text), self.expected.of(topic), given=given.get(topic), mode=self.mode
            )
            match decided:
                case Admission.STOP:
                    self._stop(report, found)
                case Admission.RUN_AGAIN:
                    return True
                case Admission.EXPECT:
                    self.expected.expect(topic, found.columns)
        return False

    def _stop(self, report: TaskReport, found: ColumnComparison) -> NoReturn:
        tp, table = report.topic_partition, self.expected.table_name(report.topic_partition.topic)
        texts = "; ".join([*found.conflicts.values(), *found.wider.values(), *found.new.values()])
        raise RecordError(
            f"{tp} stops before the commit ({self.expected.mode_key}={self.mode}): its records from offset {report.start} on do "
            f"not fit the table {table}: {texts}. Nothing of this batch was committed. To go on: ALTER TABLE {table} ADD "
            "COLUMNS (...), or start once with --set {self.expected.mode_key}=addNewColumns."
        )

    def _abort(self, reports: Iterable[TaskReport]) -> None:
        """Ends the uploads of reports; what the bucket does not take now, the driver looks for."""
        try:
            abort_uploads(self.store, (file for report in reports for file in report.files))
        except StorageError as error:
            _log.info("uploads are removed later", extra={"facts": {"reason": str(error)}})
