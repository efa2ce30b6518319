"""How do Avro payloads become columns without a Python object per record? A compiled loop notes their numbers, Arrow takes them over."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.converters import avro_loops
from kafka_s3.connect.converters.avro_program import Part, Program, reads
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.avro_types import AvroType, read_types
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.schemas.expansion import AT_ONCE, TooManyValues, most_values_of_each, width

Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
UNBOUNDED: Final = 1 << 61
"""Room for entries that nobody wants."""


class Entries(NamedTuple):
    """The entries of a column as `avro_loops.walk` notes them: numbers, and which of them are no nulls."""

    numbers: Longs
    valid: Flags

    def resized(self, count: int, room: int) -> Entries:
        """So many of them, with room for others."""
        if room == len(self.valid):
            return self
        made = Entries(np.empty(room, np.int64), np.empty(room, bool))
        made.numbers[:count], made.valid[:count] = self.numbers[:count], self.valid[:count]
        return made


class AvroColumns:
    """Reads the payloads of one writer schema into the columns of its Connect schema, all of them or some."""

    def __init__(self, avro: AvroType, schema: ConnectSchema, names: frozenset[str] | None = None) -> None:
        self._program = Program(avro, schema, names)
        self._steps = np.array([astuple(step) for step in self._program.steps], np.int64)
        fields = [field for field in schema.fields if names is None or field.name in names]
        self._target = pa.schema([arrow_field(field.name, field.schema) for field in fields])
        self._width = width(schema)
        self.names = self._target.names

    def read(self, payloads: pa.Array) -> tuple[pa.Table, Flags]:
        """A row for each payload that is one datum of the schema for certain, and no more; and which payloads are.

        Raises TooManyValues where several payloads become more values than may be held at once.
        """
        _, offsets, content = payloads.buffers()
        data = np.frombuffer(content or b"\0", np.uint8)
        bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
        entries, passed = self._walked(data, bounds)
        columns = [_array(part, entries, data) for part in self._program.parts]
        if not columns:
            return pa.table({"": pa.nulls(int(passed.sum()))}).select([]), passed
        return pa.Table.from_arrays(columns, schema=self._target), passed

    def _walked(self, data: Bytes, bounds: npt.NDArray[np.int32]) -> tuple[list[Entries], Flags]:
        """The entries of all columns, and which payloads pass. Room is made for items that were read, whatever counts say."""
        row, rows, levels, steps = 0, len(bounds) - 1, self._program.levels, self._steps.copy()
        rooms = np.array([rows if wanted else UNBOUNDED for wanted in self._program.wanted], np.int64)
        counts, passed = np.zeros_like(rooms), np.empty(rows, bool)
        most = most_values_of_each(np.diff(bounds).astype(np.int64))
        batch = np.array([self._width, AT_ONCE if rows > 1 else UNBOUNDED], np.int64)
        entries = [Entries(np.empty(0, np.int64), np.empty(0, bool)) for _ in levels]
        while row < rows:
            entries = [kept.resized(counts[level], rooms[level]) for level, kept in zip(levels, entries, strict=True)]
            places = np.array([[array.ctypes.data for array in kept] for kept in entries], np.int64).reshape(-1, 2)
            row = avro_loops.walk(data, bounds, row, steps, places, counts, rooms, most, batch, passed)
            if row == avro_loops.TOO_MANY:
                raise TooManyValues
        pairs = zip(levels, entries, strict=True)
        return [Entries(kept.numbers[: counts[level]], kept.valid[: counts[level]]) for level, kept in pairs], passed


def columns_of(avro: Any, schema: ConnectSchema, fields: frozenset[str] | None = None) -> AvroColumns | None:
    """The reader of a writer schema (parsed JSON), with `fields` of those alone.

    None where it is no record, or holds what only the slow path reads: decimals, small ints, and what takes no bytes.
    """
    kind = read_types(avro)
    return AvroColumns(kind, schema, fields) if kind.kind == "record" and reads(kind, schema) else None


def _array(part: Part, entries: list[Entries], data: Bytes) -> pa.Array:
    """The entries of a part as Arrow has them. Where an optional record is null, its fields hold what means nothing."""
    parts, kind, none = [_array(inner, entries, data) for inner in part.parts], part.arrow, None
    if part.column == avro_loops.NONE:
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    numbers, valid = entries[part.column]
    if part.optional and not valid.all():
        none = ~valid
    match part.avro.kind:
        case "record" | "union":
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=None if none is None else pa.array(none))
        case "array" | "map":
            offsets = np.zeros(len(numbers) + 1, np.int32)
            offsets[1:] = np.maximum.accumulate(numbers)  # a null is a 0
            made = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
            return made.from_arrays(pa.array(offsets), *parts, type=kind, mask=None if none is None else pa.array(none))
    return _scalars(part, numbers, none, data)


def _scalars(part: Part, numbers: Longs, none: Flags | None, data: Bytes) -> pa.Array:
    match part.avro.kind:
        case "string" | "bytes" | "fixed":
            return _texts(numbers, none, data, part.arrow)
        case "enum":
            symbols = pa.array(part.avro.symbols or [""], part.arrow)  # where there are none, all are null
            indexes = pa.array(numbers.astype(np.int32), mask=none)
            return pa.DictionaryArray.from_arrays(indexes, symbols).cast(part.arrow)
        case "boolean":
            values: npt.NDArray[Any] = numbers == 1
        case "double":
            values = numbers.view(np.float64)
        case "float":
            values = numbers.astype(np.uint32).view(np.float32)
        case "int":
            values = numbers.astype(np.int32)
        case _:
            values = numbers
    return pa.array(values, mask=none).cast(part.arrow)


def _texts(places: Longs, none: Flags | None, data: Bytes, kind: pa.DataType) -> pa.Array:
    out, bounds = np.empty(avro_loops.total(places), np.uint8), np.zeros(len(places) + 1, np.int32)
    avro_loops.gather(data, places, bounds, out)
    valid = None if none is None else pa.py_buffer(np.packbits(~none, bitorder="little"))
    return pa.Array.from_buffers(kind, len(places), [valid, pa.py_buffer(bounds), pa.py_buffer(out)])
