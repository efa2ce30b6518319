"""In which forms may the rows of many directories wait together? Those of one kind and one schema, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.joining import bounds_of, joined, separated
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import AvroBodies, JsonText, Longs, StructColumns, Values, row_bytes
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.file_encoders import FileEncoder
from kafka_s3.objects.format import FormatError, Lined

SMALL_TEXT: Final = 64 << 10
"""A file with less text than that is small: gzip would not have seen anything of it yet, and Avro would have no block."""
SMALL_ROWS: Final = 4 << 20
"""A file with less in columns than that is small: it has one row group, however often others need its memory."""


class RowForm(Protocol):
    """What rows that wait together have in common. Equal ones may join each other."""

    @property
    def schema(self) -> ConnectSchema | None:
        """The schema of their files."""
        ...

    @property
    def small(self) -> int:
        """A file with so many bytes of content leaves for a file of its own."""
        ...

    def table(self, values: Values, rows: Longs | None) -> pa.Table:
        """Values as a table: those at these positions, in this order, or all as they are."""
        ...

    def append(self, table: pa.Table, encoder: FileEncoder) -> None:
        """Adds rows of a table to those of a file."""
        ...

    def sizes(self, table: pa.Table) -> Longs:
        """Bytes of content of each row."""
        ...

    def paused(self) -> Mapping[str, Any]:
        """What is to be said of the form beside the schema, for `resumed_form`."""
        ...


def row_form(run: Run, *, unifies: bool = False) -> RowForm | None:
    """The form in which a run's records may wait together; None where they have none, or something is stored beside them.

    Where a file `unifies` schemas Avro's bodies have none: they may have to be projected yet.
    """
    values = run.values
    if run.sidecars:
        return None
    if isinstance(values, JsonText):
        if values.lines:
            return LineForm()
        return None if values.table is None else _column_form(None, values.table)
    if isinstance(values, StructColumns):
        return _column_form(run.schema, values.table)
    return BodyForm(run.schema, values.writer) if isinstance(values, AvroBodies) and not unifies else None


def _column_form(schema: ConnectSchema | None, table: pa.Table) -> ColumnForm | None:
    if not table.num_columns:  # without columns tables lose their number of rows when joined
        return None
    return ColumnForm(schema, table.schema)


def resumed_form(paused: Mapping[str, Any], schema: ConnectSchema | None) -> RowForm:
    """The form that said that when it was paused. Raises KeyError, ArrowInvalid."""
    match paused["kind"]:
        case "lines":
            return LineForm()
        case "columns":
            return ColumnForm(schema, pa.ipc.read_schema(pa.py_buffer(paused["columns"])))
        case "bodies":
            return BodyForm(schema, paused["writer"])
    raise KeyError(paused["kind"])


@dataclass(frozen=True, slots=True)
class LineForm:
    """JSON documents that become lines of their files, each with its newline."""

    schema: None = None

    @property
    def small(self) -> int:
        return SMALL_TEXT

    def table(self, values: Values, rows: Longs | None) -> pa.Table:
        assert isinstance(values, JsonText)
        return pa.table({"": separated(values.texts, np.arange(len(values)) if rows is None else rows, b"\n")})

    def append(self, table: pa.Table, encoder: FileEncoder) -> None:
        cast(Lined, encoder.inner).write(joined(_one(table), b""))

    def sizes(self, table: pa.Table) -> Longs:
        return _lengths(table)

    def paused(self) -> Mapping[str, Any]:
        return {"kind": "lines"}


@dataclass(frozen=True, slots=True)
class BodyForm:
    """Avro bodies, which their files take as they are."""

    schema: ConnectSchema | None
    writer: Any

    @property
    def small(self) -> int:
        return SMALL_TEXT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BodyForm) and self.schema is other.schema and self.writer == other.writer

    __hash__ = None  # type: ignore[assignment]  # nobody looks for one

    def table(self, values: Values, rows: Longs | None) -> pa.Table:
        assert isinstance(values, AvroBodies)
        return _rows_of(pa.table({"": values.bodies}), rows)

    def append(self, table: pa.Table, encoder: FileEncoder) -> None:
        encoder.append(AvroBodies(_one(table), self.writer, _never_asked), self.schema)

    def sizes(self, table: pa.Table) -> Longs:
        return _lengths(table)

    def paused(self) -> Mapping[str, Any]:
        return {"kind": "bodies", "writer": self.writer}


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """Rows in columns, of a schema, or of one that was inferred."""

    schema: ConnectSchema | None
    columns: pa.Schema

    @property
    def small(self) -> int:
        return SMALL_ROWS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnForm) and self.schema is other.schema and self.columns.equals(other.columns)

    __hash__ = None  # type: ignore[assignment]

    def table(self, values: Values, rows: Longs | None) -> pa.Table:
        assert isinstance(values, StructColumns | JsonText)
        return _rows_of(values.table, rows)

    def append(self, table: pa.Table, encoder: FileEncoder) -> None:
        encoder.append(StructColumns(table), self.schema)

    def sizes(self, table: pa.Table) -> Longs:
        return row_bytes(table)

    def paused(self) -> Mapping[str, Any]:
        return {"kind": "columns", "columns": self.columns.serialize().to_pybytes()}


def _rows_of(table: pa.Table, rows: Longs | None) -> pa.Table:
    return table if rows is None else table.take(pa.array(rows))


def _one(table: pa.Table) -> pa.Array:
    column = table.column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _lengths(table: pa.Table) -> Longs:
    return np.diff(bounds_of(_one(table))).astype(np.int64)


def _never_asked(body: bytes) -> Any:
    raise FormatError("Bodies that waited with others are written as they are.")
