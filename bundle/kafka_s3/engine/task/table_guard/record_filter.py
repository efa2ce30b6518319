"""What of a task's records does the topic's table take? Decided in the worker, before a record is written.

Values with a schema of their producer's are taken or refused as they are. Those whose columns are inferred from JSON are made to fit: an
integer goes into a column of fractions, anything into a column of text, and a field that is null throughout gets no column, so that it does
not have a type by chance. In mode `rescue` nothing is refused: what has no place in the table's columns goes as JSON into `_rescued_data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_table
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType
from kafka_s3.engine.task.table_guard.columns import (
    RESCUED,
    Evolution,
    Mode,
    TableColumns,
    arrow_of,
    delta_type,
    file_columns,
    is_name,
    read_columns,
    shown,
)
from kafka_s3.engine.task.table_guard.fitting import Fit, fit
from kafka_s3.engine.task.table_guard.placing import kind_text, placed, split, without_null_members
from kafka_s3.engine.task.table_guard.rescue import rescued_text, rescued_values

Refused: TypeAlias = list[tuple[int, str]]
"""Rows that the table does not take, with the reason."""


@dataclass(slots=True)
class RecordFilter:
    """The columns of one topic's table, None where there is no table yet, and what is done with records that do not fit."""

    evolution: Evolution
    table: TableColumns | None
    _fits: dict[ConnectSchema, Fit] = field(default_factory=dict)

    def passed(self, run: Run) -> tuple[Run, Refused]:
        """The run as the table takes it, all its rows still there, and the rows that it does not take."""
        if run.tombstones:
            return run, []
        if run.schema is None and isinstance(run.values, JsonText) and run.values.table is not None:
            return _Inferred(self.evolution, self.table, run.values, run.values.table).passed(run)
        if run.schema is None or run.schema.kind is not SchemaType.STRUCT:
            return run, []
        return self._with_schema(run, run.schema)

    def _with_schema(self, run: Run, schema: ConnectSchema) -> tuple[Run, Refused]:
        found = self._fit(schema)
        mode = self.evolution.mode
        if mode is Mode.RESCUE:
            refusals = [text for name, text in (found.conflicts | found.wider).items() if name in self.evolution.fields]
            run = run if refusals else self._rescued(run, schema)
        else:
            refusals = found.refusals(Mode.ADD if mode is Mode.FAIL else mode)  # the driver stops at what is new
        text = refusal(refusals)
        return run, [(row, text) for row in range(len(run))] if refusals else []

    def _fit(self, schema: ConnectSchema) -> Fit:
        found = self._fits.get(schema)
        if found is None:
            columns = file_columns(pa.schema([arrow_field(one.name, one.schema) for one in schema.fields]))
            found = fit(self.table, columns) if self.table is not None else Fit(columns)
            self._fits[schema] = found
        return found

    def _rescued(self, run: Run, schema: ConnectSchema) -> Run:
        table = getattr(run.values, "table", None)
        if table is None:
            table = arrow_table(run.values.objects(), schema)
        table, schema = rescued_values(table, schema, self.table)
        return replace(run, values=StructColumns(table), schema=schema)


@dataclass(slots=True)
class _Inferred:
    """The columns of some JSON documents, in the types of the table."""

    evolution: Evolution
    table: TableColumns | None
    values: JsonText
    inferred: pa.Table
    _refused: dict[int, str] = field(default_factory=dict)
    _rest: dict[str, Sequence[Any]] = field(default_factory=dict)
    _objects: list[Any] | None = None

    def passed(self, run: Run) -> tuple[Run, Refused]:
        """The run with those columns; rows whose values have no place in them."""
        wanted = self._wanted()
        columns = {one.name: self._column(one, wanted) for one in self.inferred.schema}
        kept = {name: column for name, column in columns.items() if column is not None}
        if self.evolution.mode is Mode.RESCUE:
            kept[RESCUED] = pa.array(rescued_text(self._rest, len(run)), pa.string())
        table = pa.table(kept) if kept else pa.Table.from_struct_array(pa.array([{}] * len(run), pa.struct([])))
        return replace(run, values=replace(self.values, table=table)), sorted(self._refused.items())

    def _wanted(self) -> Fit:
        types = [(one.name, without_null_members(one.type)) for one in self.inferred.schema]
        columns = file_columns(pa.schema([(name, type_) for name, type_ in types if not pa.types.is_null(type_)]))
        return fit(self.table or TableColumns(), columns)

    def _column(self, one: pa.Field, wanted: Fit) -> Any:
        """The column as it is written, None where nothing of it is."""
        column = self.inferred.column(one.name)
        own, keep_rest = without_null_members(one.type), self.evolution.mode is Mode.RESCUE
        target = self._target(one.name, own, wanted)
        if pa.types.is_null(target):
            if not pa.types.is_null(own):
                self._each(one.name, target, keep_rest=keep_rest)
            return None
        if column.type == target:
            return column
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), target)
        if (column.type, target) == (pa.int64(), pa.float64()):
            return column.cast(target)
        keep_rest = keep_rest and one.name not in self.evolution.fields
        return pa.array(self._each(one.name, target, keep_rest=keep_rest), target)

    def _target(self, name: str, own: pa.DataType, wanted: Fit) -> pa.DataType:
        """The type that a column is written in; null where the table has no place for it."""
        known = self.table.type_of(name) if self.table is not None else None
        mode = self.evolution.mode
        if (self.table is not None and self.table.by_directory(name)) or (mode is Mode.RESCUE and name == RESCUED):
            return pa.null()
        if known is None:
            beyond = mode is Mode.RESCUE and self.table is not None and delta_type(own) is not None and is_name(name)
            return pa.null() if beyond or name in wanted.conflicts else own
        keeps = mode is Mode.RESCUE or (mode is Mode.NONE and name in wanted.wider)
        try:
            return arrow_of(known if keeps else wanted.columns.type_of(name) or known)
        except KeyError:  # a type that only other writers have
            return pa.null()

    def _each(self, name: str, target: pa.DataType, *, keep_rest: bool) -> list[Any]:
        """The column from the documents themselves: the inferred one may have been made text by a single odd value."""
        if self._objects is None:
            self._objects = self.values.objects()
        column: list[Any] = []
        rest: list[Any] = []
        for row, document in enumerate(self._objects):
            value = document.get(name) if isinstance(document, dict) else document if name == "value" else None
            kept, left = split(value, target) if keep_rest else self._placed(value, target, row=row, name=name)
            column.append(kept)
            rest.append(left)
        if keep_rest:
            self._rest[name] = rest
        return column

    def _placed(self, value: Any, target: pa.DataType, *, row: int, name: str) -> tuple[Any, None]:
        try:
            return placed(value, target), None
        except ValueError:
            text = shown(delta_type(target) or "of another kind")
            self._refused[row] = refusal([f"column {name} is {kind_text(value)}, in the table {text}"])
            return None, None


def record_filter_of(evolution: Evolution, table: str | None) -> RecordFilter:
    """The record_filter of a task that was told the table's columns."""
    return RecordFilter(evolution, None if table is None else read_columns(table))


def refusal(refusals: Sequence[str]) -> str:
    """Why a record becomes a dead letter."""
    return f"The Delta table cannot hold the value: {'; '.join(refusals)}."
