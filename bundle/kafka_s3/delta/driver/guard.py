"""Do the files of a turn fit the tables, and each other? Checked on the driver, between the tasks' reports and the commit.

Tasks are told the columns of their topic's table, and keep to them; but two tasks may bring the same new column in different types. Then
the second is run again, told what the first has brought. Under `failOnNewColumns` a new column or a wider type stops the sink here.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, Protocol

from kafka_s3.delta.columns import Mode, TableColumns, read_columns, rescuing
from kafka_s3.delta.driver.states import TableState
from kafka_s3.delta.fitting import Fit, fit
from kafka_s3.model.errors import RecordError, StorageUnavailable, TableError, TableUnavailable
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.storage.store import ObjectStore
from kafka_s3.storage.uploads import abort_uploads

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


@dataclass
class GuardedSource:
    """The engine, whose reports are let through where the tables can hold their files."""

    source: Source
    store: ObjectStore
    table: Callable[[str], ReadableTable]
    mode: Mode
    fields: frozenset[str] = frozenset()
    _expected: dict[str, TableColumns] = field(default_factory=dict)
    _pending: dict[str, TableColumns] = field(default_factory=dict)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """As the engine. Raises RecordError, with all uploads aborted, where the mode stops the sink."""
        self._poll(sorted({one.topic_partition.topic for one in assignments}))
        done: list[TaskReport] = []
        due = list(assignments)
        while due:
            told = {topic: columns.schema_string() for topic, columns in self._expected.items()}
            reports = self.source.read([replace(one, table=told.get(one.topic_partition.topic)) for one in due])
            remade = {one.topic_partition for one in due if one.only is not None}
            try:
                unfit = [one for one in reports if one.topic_partition not in remade and self._differs(one, told)]
            except RecordError:
                self._abort([*done, *reports])
                raise
            self._abort(unfit)
            again = {report.topic_partition for report in unfit}
            done += [report for report in reports if report.topic_partition not in again]
            due = [one for one in due if one.topic_partition in again]
        return done

    def _differs(self, report: TaskReport, told: Mapping[str, str]) -> bool:
        """Whether a task has to run again; else its columns are expected from now on."""
        topic = report.topic_partition.topic
        for text in report.columns:
            file, expected = read_columns(text), self._expected.get(topic)
            if expected is None:
                self._expect(topic, rescuing(file) if self.mode is Mode.RESCUE else file)
                continue
            found = fit(expected, file)
            if self.mode is Mode.FAIL and (found.new or found.wider):
                self._stop(report, found)
            refused, was_told = found.refusals(self.mode), told.get(topic) == expected.schema_string()
            if refused and was_told:
                self._stop(report, found)
            if refused or (self.mode is Mode.RESCUE and found.new and not was_told):
                return True  # in the latter case the task knew of no table, and rescued nothing
            if self.mode is Mode.ADD:
                self._expect(topic, found.columns)
        return False

    def _expect(self, topic: str, columns: TableColumns) -> None:
        self._expected[topic] = self._pending[topic] = columns

    def _stop(self, report: TaskReport, found: Fit) -> NoReturn:
        tp, table = report.topic_partition, self.table(report.topic_partition.topic).sql
        texts = "; ".join([*found.conflicts.values(), *found.wider.values(), *found.new.values()])
        raise RecordError(
            f"The sink stops before the commit (delta.schema.evolution.mode={self.mode}): records of {tp} from offset {report.start} on do "
            f"not fit the table {table}: {texts}. Nothing of this batch was committed. To go on: ALTER TABLE {table} ADD "
            "COLUMNS (...), or start once with --set delta.schema.evolution.mode=addNewColumns."
        )

    def _abort(self, reports: Iterable[TaskReport]) -> None:
        abort_uploads(self.store, (file for report in reports for file in report.files))

    # ------------------------------------------------------------ tables

    def _poll(self, topics: Sequence[str]) -> None:
        """Reads the columns of the topics' tables, which others may have changed."""
        with ThreadPoolExecutor(THREADS) as pool:
            for topic, columns in zip(topics, pool.map(self._columns, topics), strict=True):
                pending = self._pending.get(topic)
                if columns is not None and pending is not None:
                    found = fit(columns, pending)
                    columns = found.columns
                    if found.exact:
                        del self._pending[topic]
                columns = columns or pending
                if columns is not None:
                    self._expected[topic] = columns

    def _columns(self, topic: str) -> TableColumns | None:
        """The table's columns; None where there is no table, and where it does not say, unless the mode needs to know."""
        try:
            state = self.table(topic).state()
        except TableUnavailable as error:
            if self.mode in (Mode.FAIL, Mode.RESCUE):
                raise StorageUnavailable(str(error)) from error
            return self._expected.get(topic)
        except TableError:
            return self._expected.get(topic)  # the follower says so
        if state is None:
            return None
        return state.columns.marked(name for name in state.partition_by if name not in self.fields)
