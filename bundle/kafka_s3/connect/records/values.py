"""What are the values of a run? Records of one schema, in the form in which they came, with one interface for all that is asked of them.

Columns stay in Arrow; Python objects appear only for data that Arrow's JSON reader cannot take. Values that are still Avro (`AvroBodies`)
keep their checked bodies beside the columns that were decoded on the way: an Avro file takes the bodies as they are, Parquet takes the
columns, and every other use decodes them one by one. Between processes tables travel as Arrow's own streams, compressed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.schemas.arrow import python_rows
from kafka_s3.model.deflate import Bytes


def stream_of(table: pa.Table, *, codec: str | None = "zstd") -> bytes:
    """The table with its types, nulls and number of rows, as a stream; with None it is read without being unpacked."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_of(content: Bytes) -> pa.Table:
    """The table of a stream. Raises ArrowInvalid where it is none."""
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def table_bytes(table: pa.Table) -> int:
    """Bytes of the rows of a table. Arrow's `nbytes` of it looks at each column by itself, which takes four times as long."""
    return sum(int(batch.to_struct_array().nbytes) for batch in table.to_batches())


Longs = npt.NDArray[np.int64]


COLUMN_BYTES: Final = 1536
"""What an Arrow column takes beside its data; counts where there are few rows."""


def row_bytes(table: pa.Table) -> Longs:
    """Bytes of each row of a table, about: without what says which values are null."""
    batches = [_row_bytes(batch.to_struct_array()) for batch in table.to_batches()]
    return np.concatenate(batches) if batches else np.zeros(0, np.int64)


def _row_bytes(array: pa.Array) -> Longs:
    kind, count = array.type, len(array)
    if pa.types.is_struct(kind):
        found: Longs = np.zeros(count, np.int64)
        for at in range(kind.num_fields):
            found += _row_bytes(array.field(at))
        return found
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        bounds: Longs = np.concatenate([[0], np.cumsum(_row_bytes(array.values))])[array.offsets.to_numpy()]
        return np.diff(bounds) + 4
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        content = array.buffers()[1]
        if content is None:  # as an array without values may have it
            return np.zeros(count, np.int64)
        return np.diff(np.frombuffer(content, np.int32)[array.offset : array.offset + count + 1]).astype(np.int64) + 4
    return np.full(count, -(-array.nbytes // max(count, 1)), np.int64)


NO_TIMESTAMP: Final = int(np.iinfo(np.int64).min)
"""Stands for "this record has no timestamp" in arrays of epoch milliseconds."""


class Missing:
    """The value of a field that a record does not have, in contrast to null."""

    def __repr__(self) -> str:
        return "missing"


MISSING: Final = Missing()
Column: TypeAlias = pa.Array | list[Any]
"""One field of every record: an Arrow array, or a list of Python values with `MISSING` where the field is absent."""


class Values(Protocol):
    """The values of a run."""

    def __len__(self) -> int: ...

    def take(self, rows: Longs) -> Values:
        """The values at these positions, in this order."""
        ...

    def slice(self, start: int, stop: int) -> Values:
        """The values `[start, stop)`."""
        ...

    def column(self, path: Sequence[str]) -> Column:
        """One field of every value; `path` descends into structs and maps."""
        ...

    def nbytes(self) -> int:
        """About how much memory the values hold."""
        ...

    def objects(self) -> list[Any]:
        """The values as Python values, in the forms of `connect.schemas.json_form`: the slow path that every format can take."""
        ...


@dataclass(frozen=True, slots=True)
class JsonText:
    """Valid JSON documents without a schema, one line each. `table` holds the fields that were asked of the converter, parsed.

    `lines`: they become lines of a file, and once they have their directories nobody asks for their fields.
    """

    texts: pa.Array
    table: pa.Table | None
    lines: bool = False

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Longs) -> JsonText:
        indices = pa.array(rows)
        table = None if self.table is None else self.table.take(indices)
        return JsonText(self.texts.take(indices), table, self.lines)

    def slice(self, start: int, stop: int) -> JsonText:
        table = None if self.table is None else self.table.slice(start, stop - start)
        return JsonText(self.texts.slice(start, stop - start), table, self.lines)

    def column(self, path: Sequence[str]) -> Column:
        """The field from the parsed table where it has one, else from the documents."""
        if self.table is not None and path[0] in self.table.column_names:
            return _descend(self.table.column(path[0]).combine_chunks(), path[1:])
        return [pick(json.loads(text.as_py()), path) for text in self.texts]

    def nbytes(self) -> int:
        return int(self.texts.nbytes + (0 if self.table is None else self.table.nbytes))

    def objects(self) -> list[Any]:
        return [json.loads(text) for text in self.texts.to_pylist()]


@dataclass(frozen=True, slots=True)
class Objects:
    """Values with a schema, as Python values: dict for struct, list for array, list of pairs for a map (SEMANTICS A8)."""

    items: list[Any]

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: Longs) -> Objects:
        return Objects([self.items[row] for row in rows])

    def slice(self, start: int, stop: int) -> Objects:
        return Objects(self.items[start:stop])

    def column(self, path: Sequence[str]) -> Column:
        return [pick(item, path) for item in self.items]

    def nbytes(self) -> int:
        """An estimate: Python values of this kind weigh about half a kilobyte."""
        return 512 * len(self.items)

    def objects(self) -> list[Any]:
        return self.items


@dataclass(frozen=True, slots=True)
class StructColumns:
    """Structs with a schema, in Arrow columns."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, rows: Longs) -> StructColumns:
        return StructColumns(self.table.take(pa.array(rows)))

    def slice(self, start: int, stop: int) -> StructColumns:
        return StructColumns(self.table.slice(start, stop - start))

    def column(self, path: Sequence[str]) -> Column:
        if path[0] not in self.table.column_names:
            return [MISSING] * len(self)
        return _descend(self.table.column(path[0]).combine_chunks(), path[1:])

    def nbytes(self) -> int:
        return table_bytes(self.table)

    def objects(self) -> list[Any]:
        return python_rows(self.table)


@dataclass(frozen=True, slots=True)
class Plain:
    """Whole values that have no fields: strings of the string converter or bytes of the byte-array converter."""

    array: pa.Array

    def __len__(self) -> int:
        return len(self.array)

    def take(self, rows: Longs) -> Plain:
        return Plain(self.array.take(pa.array(rows)))

    def slice(self, start: int, stop: int) -> Plain:
        return Plain(self.array.slice(start, stop - start))

    def column(self, path: Sequence[str]) -> Column:
        """Nothing: a string or bytes has no fields."""
        return [MISSING] * len(self.array)

    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def objects(self) -> list[Any]:
        found: list[Any] = self.array.to_pylist()
        return found


@dataclass(frozen=True, slots=True)
class Nulls:
    """The values of tombstones: nothing, so many times."""

    count: int

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Longs) -> Nulls:
        return Nulls(len(rows))

    def slice(self, start: int, stop: int) -> Nulls:
        return Nulls(stop - start)

    def column(self, path: Sequence[str]) -> Column:
        return [None] * self.count

    def nbytes(self) -> int:
        return 0

    def objects(self) -> list[Any]:
        return [None] * self.count


def pick(value: Any, path: Sequence[str]) -> Any:
    """The field of one Python value; None below a null parent, `MISSING` where there is no such field."""
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def _descend(column: pa.Array, path: Sequence[str]) -> Column:
    for name in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return [MISSING if valid else None for valid in column.is_valid().to_pylist()]
        column = pc.struct_field(column, name)
    return column


@dataclass(frozen=True, slots=True)
class AvroBodies:
    """Avro binary data (`bodies`) written with the schema `writer` (parsed JSON).

    `table` holds the values in the columns of their Connect schema, `items` as Python values; without both, `decode` reads the bodies.
    `some` are columns of some fields, where there is no table.
    """

    bodies: pa.Array
    writer: Any
    decode: Callable[[bytes], Any]
    table: pa.Table | None = None
    items: list[Any] | None = None
    some: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    def take(self, rows: Longs) -> AvroBodies:
        indices = pa.array(rows)
        table = None if self.table is None else self.table.take(indices)
        items = None if self.items is None else [self.items[row] for row in rows]
        some = None if self.some is None else self.some.take(indices)
        return AvroBodies(self.bodies.take(indices), self.writer, self.decode, table, items, some)

    def slice(self, start: int, stop: int) -> AvroBodies:
        table = None if self.table is None else self.table.slice(start, stop - start)
        items = None if self.items is None else self.items[start:stop]
        some = None if self.some is None else self.some.slice(start, stop - start)
        return AvroBodies(self.bodies.slice(start, stop - start), self.writer, self.decode, table, items, some)

    def column(self, path: Sequence[str]) -> Column:
        if self.some is not None and path[0] in self.some.column_names:
            return StructColumns(self.some).column(path)
        if self.table is not None:
            return StructColumns(self.table).column(path)
        return Objects(self.objects()).column(path)

    def nbytes(self) -> int:
        return int(self.bodies.nbytes + sum(table.nbytes for table in (self.table, self.some) if table is not None))

    def objects(self) -> list[Any]:
        if self.items is not None:
            return self.items
        if self.table is not None:
            return StructColumns(self.table).objects()
        return [self.decode(body) for body in self.bodies.to_pylist()]
