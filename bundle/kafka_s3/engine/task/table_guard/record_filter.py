"""What of a task's records does the topic's table take? Decided in the worker, before a record is written.

Values with a schema of their producer's are taken or refused as they are. Those whose columns are inferred from JSON are made to fit: an
integer goes into a column of fractions, anything into a column of text, and a field that is null throughout gets no column, so that it does
not have a type by chance. Where a whole column does not fit, its values are placed one by one.

In mode `rescue` nothing is refused: what has no place in the table's columns goes as JSON into the column `_rescued_data` of the same
record, which is null where all of it has its place. Of a struct the members that the table knows stay, the others are rescued below their
parent's name: `{"at": {"y": "later"}}`. In lists and maps nothing is taken apart: where one differs, it is rescued whole. Dates and times
are rescued as ISO 8601, and as numbers (days, milliseconds) where they are beyond the years 1 to 9999.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.whole_records import FIELD as KAFKA_FIELD
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_table, as_text, python_values
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.task.table_guard.columns import (
    RESCUED,
    ColumnComparison,
    Evolution,
    Mode,
    TableColumns,
    arrow_of,
    compare_columns,
    delta_type,
    file_columns,
    is_name,
    shown,
)
from kafka_s3.engine.task.table_guard.renames import called

Fits: TypeAlias = Callable[[Any, pa.DataType], bool]


def placed(value: Any, kind: pa.DataType) -> Any:
    """The value as Arrow takes it for that type; anything has a place in text, as JSON. Raises ValueError where it has none."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return as_text(value)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        members = {one.name: one.type for one in kind}
        if any(inner is not None for name, inner in value.items() if name not in members):
            raise ValueError
        return {name: placed(value.get(name), type_) for name, type_ in members.items()}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [placed(inner, kind.value_type) for inner in value]
    if any(is_kind(kind) and fits(value, kind) for is_kind, fits in _PLAIN):
        return value
    raise ValueError


def split(value: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """What of a value has a place in the type, and the rest; None for nothing."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        members = {one.name: one.type for one in kind}
        parts = {name: split(value.get(name), type_) for name, type_ in members.items()}
        rest = {name: left for name, (_, left) in parts.items() if left is not None}
        rest |= {name: inner for name, inner in value.items() if name not in members and inner is not None}
        return {name: kept for name, (kept, _) in parts.items()}, rest or None
    try:
        return placed(value, kind), None
    except ValueError:
        return None, value


def kind_text(value: Any) -> str:
    """What a JSON value is, for people."""
    names = {bool: "true or false", str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "of another type")


def without_null_members(kind: pa.DataType) -> pa.DataType:
    """The type without members that are null throughout; null itself stays, and lists and objects of nothing are text."""
    if pa.types.is_struct(kind):
        members = [pa.field(one.name, without_null_members(one.type)) for one in kind]
        kept = [one for one in members if not pa.types.is_null(one.type)]
        return pa.struct(kept) if kept else pa.string()
    if pa.types.is_list(kind):
        inner = without_null_members(kind.value_type)
        return pa.list_(pa.string() if pa.types.is_null(inner) else inner)
    return kind


def _whole(value: Any, kind: pa.DataType) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    bound = 2 ** (kind.bit_width - 1)
    return is_whole and not isinstance(value, bool) and -bound <= value < bound


_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], Fits], ...]] = (
    (pa.types.is_boolean, lambda value, _: isinstance(value, bool)),
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_floating, lambda value, _: isinstance(value, int | float) and not isinstance(value, bool)),
    (pa.types.is_timestamp, lambda value, _: isinstance(value, datetime)),  # of `_kafka`: JSON itself has none
)


Kept: TypeAlias = tuple[pa.Array, ConnectSchema]
FIELD: Final = Field(RESCUED, ConnectSchema(SchemaType.STRING, optional=True))


def rescued_values(
    table: pa.Table, schema: ConnectSchema, known: TableColumns | None
) -> tuple[pa.Table, ConnectSchema]:
    """The rows in the columns of the table, and `_rescued_data`. Without a table yet, everything has its column."""
    kept: dict[str, pa.Array] = {}
    fields: list[Field] = []
    rest: dict[str, Sequence[Any]] = {}
    for one in schema.fields:
        column = table.column(one.name).combine_chunks()
        if one.name == RESCUED:  # the producer's own: ours takes its place
            rest[RESCUED] = python_values(column)
            continue
        own, left = _split(one.name, column, one.schema, known) if known is not None else ((column, one.schema), None)
        if own is not None:
            kept[one.name] = own[0]
            fields.append(replace(one, schema=own[1]))
        if left is not None:
            rest[one.name] = left
    kept[RESCUED] = pa.array(rescued_text(rest, table.num_rows), pa.string())
    fields.append(FIELD)
    types = pa.schema([pa.field(one.name, kept[one.name].type, nullable=one.schema.optional) for one in fields])
    return pa.Table.from_arrays(list(kept.values()), schema=types), replace(schema, fields=tuple(fields))


def _split(
    name: str, column: pa.Array, schema: ConnectSchema, known: TableColumns
) -> tuple[Kept | None, Sequence[Any] | None]:
    """What of a column the table has, and the rest as Python values; None for nothing."""
    own, type_ = delta_type(column.type), known.type_of(name)
    if own is None or not is_name(name):  # Delta has no form for it, whatever the mode: it stays in the file alone
        return (column, schema), None
    if type_ is None or known.by_directory(name):
        return None, python_values(column)
    if compare_columns(TableColumns({name: known.fields[name]}), TableColumns.of({name: own})).exact:
        return (column, schema), None
    if schema.kind is SchemaType.STRUCT and isinstance(type_, Mapping) and type_["type"] == "struct":
        return _split_struct(column, schema, type_)
    return None, python_values(column)


def _split_struct(
    column: pa.Array, schema: ConnectSchema, type_: Mapping[str, Any]
) -> tuple[Kept | None, Sequence[Any] | None]:
    members = TableColumns({one["name"]: one for one in type_["fields"]})
    kept: dict[str, Kept] = {}
    rest: dict[str, Sequence[Any]] = {}
    for one in schema.fields:
        own, left = _split(one.name, pc.struct_field(column, one.name), one.schema, members)
        if own is not None:
            kept[one.name] = own
        if left is not None:
            rest[one.name] = left
    if not kept:
        return None, python_values(column)
    types = [pa.field(name, array.type, nullable=own.optional) for name, (array, own) in kept.items()]
    array = pa.StructArray.from_arrays([array for array, _ in kept.values()], fields=types, mask=column.is_null())
    fields = tuple(replace(one, schema=kept[one.name][1]) for one in schema.fields if one.name in kept)
    return (array, replace(schema, fields=fields)), [_present(rest, row) or None for row in range(len(column))]


def rescued_text(rest: Mapping[str, Sequence[Any]], rows: int) -> list[str | None]:
    """The JSON of what is left of each row, None where that is nothing."""
    found = [_present(rest, row) for row in range(rows)] if rest else [None] * rows
    return [
        json.dumps(one, ensure_ascii=False, separators=(",", ":"), default=_plain) if one else None for one in found
    ]


def _present(rest: Mapping[str, Sequence[Any]], row: int) -> dict[str, Any]:
    return {name: _json(values[row]) for name, values in rest.items() if values[row] is not None}


def _json(value: Any) -> Any:
    """A value of Arrow as JSON has it: maps, which Arrow gives as pairs, as objects."""
    if isinstance(value, dict):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(inner, tuple) for inner in value)
        return {str(key): _json(inner) for key, inner in value} if pairs else [_json(inner) for inner in value]
    return value


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


Refused: TypeAlias = list[tuple[int, str]]
"""Rows that the table does not take, with the reason."""


@dataclass(slots=True)
class RecordFilter:
    """The columns of one topic's table, None where there is no table yet, and what is done with records that do not fit."""

    evolution: Evolution
    table: TableColumns | None
    _fits: dict[ConnectSchema, ColumnComparison] = field(default_factory=dict)
    _called: dict[ConnectSchema, tuple[ConnectSchema, TableColumns | None]] = field(default_factory=dict)

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
        table = self.table
        if self.evolution.renames:
            if schema not in self._called:
                self._called[schema] = called(schema, table)
            schema, table = self._called[schema]
            run = replace(run, schema=schema)
        found = self._fit(schema, table)
        mode = self.evolution.mode
        if mode is Mode.RESCUE:
            refusals = [text for name, text in (found.conflicts | found.wider).items() if name in self.evolution.fields]
            run = run if refusals else self._rescued(run, schema, table)
        else:
            refusals = found.refusals(Mode.ADD if mode is Mode.FAIL else mode)  # the driver stops at what is new
        text = refusal(refusals)
        return run, [(row, text) for row in range(len(run))] if refusals else []

    def _fit(self, schema: ConnectSchema, table: TableColumns | None) -> ColumnComparison:
        found = self._fits.get(schema)
        if found is None:
            columns = file_columns(pa.schema([arrow_field(one.name, one.schema) for one in schema.fields]))
            found = compare_columns(table, columns) if table is not None else ColumnComparison(columns)
            self._fits[schema] = found
        return found

    def _rescued(self, run: Run, schema: ConnectSchema, known: TableColumns | None) -> Run:
        table = getattr(run.values, "table", None)
        if table is None:
            table = arrow_table(run.values.objects(), schema)
        table, schema = rescued_values(table, schema, known)
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

    def _wanted(self) -> ColumnComparison:
        types = [(one.name, without_null_members(one.type)) for one in self.inferred.schema]
        columns = file_columns(pa.schema([(name, type_) for name, type_ in types if not pa.types.is_null(type_)]))
        return compare_columns(self.table or TableColumns(), columns)

    def _column(self, one: pa.Field, wanted: ColumnComparison) -> Any:
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
        if _has_times(column.type) and delta_type(column.type) == delta_type(
            target
        ):  # `_kafka`, whose times have another unit
            return column
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), target)
        if (column.type, target) == (pa.int64(), pa.float64()):
            return column.cast(target)
        keep_rest = keep_rest and one.name not in self.evolution.fields
        return pa.array(self._each(one.name, target, keep_rest=keep_rest), target)

    def _target(self, name: str, own: pa.DataType, wanted: ColumnComparison) -> pa.DataType:
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
        column: list[Any] = []
        rest: list[Any] = []
        for row, value in enumerate(self._values(name)):
            kept, left = split(value, target) if keep_rest else self._placed(value, target, row=row, name=name)
            column.append(kept)
            rest.append(left)
        if keep_rest:
            self._rest[name] = rest
        return column

    def _values(self, name: str) -> list[Any]:
        """A column's values as the documents have them; `_kafka`, which no document has, as Arrow does."""
        if name == KAFKA_FIELD and _has_times(self.inferred.schema.field(name).type):
            return python_values(self.inferred.column(name).combine_chunks())
        if self._objects is None:
            self._objects = self.values.objects()
        return [one.get(name) if isinstance(one, dict) else one if name == "value" else None for one in self._objects]

    def _placed(self, value: Any, target: pa.DataType, *, row: int, name: str) -> tuple[Any, None]:
        try:
            return placed(value, target), None
        except ValueError:
            text = shown(delta_type(target) or "of another kind")
            self._refused[row] = refusal([f"column {name} is {kind_text(value)}, in the table {text}"])
            return None, None


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and any(pa.types.is_timestamp(one.type) for one in kind)


def refusal(refusals: Sequence[str]) -> str:
    """Why a record becomes a dead letter."""
    return f"The table cannot hold the value: {'; '.join(refusals)}."
