"""How do payloads of a flat Avro schema become columns? By a compiled loop that notes each field's number or place, row by row.

Flat are records of scalars and enums, each of them or null, and of such records. Others are read by `avro_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.converters import avro_loops
from kafka_s3.records.values import Longs
from kafka_s3.schemas.avro_types import AvroType, nullable

KINDS: Final = {
    "boolean": avro_loops.BOOLEAN, "int": avro_loops.INT, "long": avro_loops.LONG, "float": avro_loops.FLOAT,
    "double": avro_loops.DOUBLE, "bytes": avro_loops.BYTES, "string": avro_loops.STRING, "enum": avro_loops.ENUM,
}  # fmt: skip
Flags = npt.NDArray[np.bool_]


class FlatAvro:
    """Reads the payloads of one writer schema, which is flat (`is_flat`), into the columns of `target`, all of them or some."""

    def __init__(self, avro: AvroType, target: pa.Schema, names: frozenset[str] | None = None) -> None:
        self._fields = [field for field in avro.fields if names is None or field.name in names]
        self._target = pa.schema(
            [target.field(number) for number, field in enumerate(avro.fields) if field in self._fields]
        )
        self.names = self._target.names
        rows: list[list[int]] = []
        columns = 0
        for field in avro.fields:
            for leaf in _leaves(field.type):
                wanted = field in self._fields
                rows.append([*_leaf(leaf), columns if wanted else -1])
                columns += wanted
        self._leaves, self._columns = np.array(rows, np.int64), columns

    def read(self, payloads: pa.Array) -> pa.Table | None:
        """One row per payload, None where a payload is no datum of the schema for certain, or is longer than one."""
        _, offsets, content = payloads.buffers()
        rows = len(payloads)
        data = np.frombuffer(content or b"\0", np.uint8)
        bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + rows + 1]
        numbers, valid = np.empty((self._columns, rows), np.int64), np.empty((self._columns, rows), bool)
        if not avro_loops.walk(data, bounds, self._leaves, numbers, valid):
            return None
        found = iter(zip(numbers, valid, strict=True))
        try:
            columns = [
                _column(field.type, kind.type, found, data)
                for field, kind in zip(self._fields, self._target, strict=True)
            ]
        except pa.ArrowInvalid:  # a number beyond its Connect type
            return None
        if not columns:
            return pa.table({"": pa.nulls(rows)}).select([])
        return pa.Table.from_arrays(columns, schema=self._target)


def is_flat(avro: AvroType) -> bool:
    """Whether all parts are scalars, enums, either of them or null, or records of such."""
    if avro.kind == "record":
        return bool(avro.fields) and all(is_flat(field.type) for field in avro.fields)
    return (nullable(avro) or avro).kind in KINDS


def _leaves(avro: AvroType) -> Iterator[AvroType]:
    if avro.kind != "record":
        yield avro
    for field in avro.fields:
        yield from _leaves(field.type)


def _leaf(avro: AvroType) -> tuple[int, int, int]:
    """Kind, index of null, count of symbols: see `avro_loops.walk`."""
    inner = nullable(avro) or avro
    null = avro_loops.NOT_NULLABLE
    if inner is not avro:
        null = 0 if avro.branches[0].kind == "null" else 1
    return KINDS[inner.kind], null, len(inner.symbols)


def _column(
    avro: AvroType, kind: pa.DataType, found: Iterator[tuple[Longs, Flags]], data: npt.NDArray[np.uint8]
) -> pa.Array:
    """The column of a field, from the numbers of its leaves. Raises ArrowInvalid."""
    if avro.kind == "record":
        parts = [_column(field.type, kind.field(at).type, found, data) for at, field in enumerate(avro.fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    numbers, valid = next(found)
    inner, none = nullable(avro), None
    if inner is not None and not valid.all():
        none = ~valid
    match (inner or avro).kind:
        case "string" | "bytes" as name:
            return _texts(numbers, none, data, pa.string() if name == "string" else pa.binary()).cast(kind)
        case "enum":
            symbols = pa.array((inner or avro).symbols, pa.string())
            return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=none), symbols).cast(kind)
        case "boolean":
            return pa.array(numbers == 1, mask=none).cast(kind)
        case "double":
            return pa.array(numbers.view(np.float64), mask=none).cast(kind)
        case "float":
            return pa.array(numbers.astype(np.uint32).view(np.float32), mask=none).cast(kind)
        case "int":
            return pa.array(numbers.astype(np.int32), mask=none).cast(kind)
    return pa.array(numbers, mask=none).cast(kind)


def _texts(places: Longs, none: Flags | None, data: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    out, bounds = np.empty(avro_loops.total(places), np.uint8), np.zeros(len(places) + 1, np.int32)
    avro_loops.gather(data, places, bounds, out)
    valid = None if none is None else pa.py_buffer(np.packbits(~none, bitorder="little"))
    return pa.Array.from_buffers(kind, len(places), [valid, pa.py_buffer(bounds), pa.py_buffer(out)])
