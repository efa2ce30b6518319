"""Which columns must the files of a turn fit? Those of each topic's table, and what files before the commit have added to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from kafka_s3.engine.task.table_guard.columns import Mode, TableColumns, fit
from kafka_s3.followers.delta.states import TableState
from kafka_s3.model.errors import StorageUnavailable, TableError, TableUnavailable
from kafka_s3.model.process import ThreadPool

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


class ExpectedColumns:
    """The expected columns by topic. What files have added is pending until the topic's table has it, too.

    `table` gives a topic's table; `fields` are those of a field partitioner: directories name them, and records have them all the same.
    """

    def __init__(self, table: Callable[[str], ReadableTable], mode: Mode, *, fields: frozenset[str]) -> None:
        self._table, self._mode, self._fields = table, mode, fields
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
        """The expected columns by topic, as tasks are told them."""
        return {topic: columns.schema_string() for topic, columns in self._expected.items()}

    def expect(self, topic: str, columns: TableColumns) -> None:
        """Expects these columns from now on, also while the topic's table does not have them yet."""
        self._expected[topic] = self._pending[topic] = columns

    def table_name(self, topic: str) -> str:
        """What a topic's table is called in SQL."""
        return self._table(topic).sql

    def _with_pending(self, topic: str, columns: TableColumns | None) -> TableColumns | None:
        """A table's columns and those that are pending, which end where the table has them all."""
        pending = self._pending.get(topic)
        if columns is None or pending is None:
            return columns or pending
        found = fit(columns, pending)
        if found.exact:
            del self._pending[topic]
        return found.columns

    def _read(self, topic: str) -> TableColumns | None:
        """The table's columns; None where there is no table, and where it does not say, unless the mode needs to know."""
        try:
            state = self._table(topic).state()
        except TableUnavailable as error:
            if self._mode in (Mode.FAIL, Mode.RESCUE):
                raise StorageUnavailable(str(error)) from error
            return self._expected.get(topic)
        except TableError:
            return self._expected.get(topic)  # the follower says so
        if state is None:
            return None
        return state.columns.marked(name for name in state.partition_by if name not in self._fields)
