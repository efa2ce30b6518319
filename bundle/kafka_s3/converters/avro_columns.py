"""How do Avro payloads become columns without a Python object per record? Framed as one container block, read by polars.

The block's schema is the writer's plus a mark of five bytes that nobody can guess. Each datum is followed by its mark where the next
record's prefix was, so a datum that is too short or too long puts the marks out of place: then the block counts for nothing, and the
records are decoded one by one. Of a union polars looks only whether it is null; which branch was named is looked at by `avro_unions`.
Not every schema can take this path, and flat ones take a quicker one: see `columns_of`.
"""

from __future__ import annotations

import io
import json
from itertools import count
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.converters.avro_flat import FlatAvro, is_flat
from kafka_s3.converters.avro_unions import has_union, well_tagged
from kafka_s3.schemas.arrow import arrow_table
from kafka_s3.schemas.avro_binary import long_bytes
from kafka_s3.schemas.avro_types import AvroType, nullable, read_types
from kafka_s3.schemas.connect import DECIMAL, ConnectSchema, SchemaType

MARK: Final = "kafka_s3_mark"
MARK_BYTES: Final = 5
MARK_LENGTH: Final = 8
"""An Avro `bytes` of length four begins with this byte."""
SYNC: Final = b"kafka-s3 columns"
KINDS: Final = {
    "boolean": SchemaType.BOOLEAN, "int": SchemaType.INT32, "long": SchemaType.INT64, "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "string": SchemaType.STRING, "bytes": SchemaType.BYTES, "enum": SchemaType.STRING, "record": SchemaType.STRUCT,
    "array": SchemaType.ARRAY,
}  # fmt: skip


class AvroColumns:
    """Reads the payloads of one writer schema into the columns of its Connect schema."""

    def __init__(self, avro: AvroType, schema: ConnectSchema) -> None:
        names = count()
        self._types = [field.type for field in avro.fields]
        self._unions = any(map(has_union, self._types))
        fields = [{"name": field.name, "type": _plain(field.type, names)} for field in avro.fields]
        framed = {"type": "record", "name": "Framed", "fields": [*fields, {"name": MARK, "type": "bytes"}]}
        text = json.dumps(framed).encode()
        members = long_bytes(len(b"avro.schema")) + b"avro.schema" + long_bytes(len(text)) + text
        self._header = b"Obj\x01" + long_bytes(1) + members + long_bytes(0) + SYNC
        self._target = arrow_table([], schema).schema
        self._random = np.random.default_rng()
        self.names = self._target.names

    def read(self, payloads: pa.Array) -> pa.Table | None:
        """One row per payload, None where a payload is no datum of the schema, or is longer than one."""
        import polars as pl  # here: flat schemas do without, and it is slow to load

        body, marks = _framed(payloads, self._random)
        block = b"".join((self._header, long_bytes(len(payloads)), long_bytes(body.size), memoryview(body), SYNC))
        try:
            found = pl.read_avro(io.BytesIO(block)).to_arrow()
            if found.num_rows != len(payloads) or not pc.all(pc.equal(found.column(MARK), marks)).as_py():
                return None
            if self._unions and not well_tagged(found, self._types, payloads):
                return None
            columns = [
                _column(found.column(at).combine_chunks(), kind, field.type)
                for at, (kind, field) in enumerate(zip(self._types, self._target, strict=True))
            ]
            return pa.Table.from_arrays(columns, schema=self._target)
        except (Exception, pl.exceptions.PanicException):  # whatever is wrong is found out record by record
            return None


def columns_of(avro: Any, schema: ConnectSchema, fields: frozenset[str] | None = None) -> AvroColumns | FlatAvro | None:
    """The reader of a writer schema (parsed JSON); with `fields` it may read those alone.

    None where it holds a type that only the slow path reads: maps, fixed, decimals, unions of several types, and what takes no bytes.
    """
    kind = read_types(avro)
    if kind.kind != "record" or not kind.fields or not _reads(kind, schema):
        return None
    return FlatAvro(kind, arrow_table([], schema).schema, fields) if is_flat(kind) else AvroColumns(kind, schema)


def _column(column: pa.Array, avro: AvroType, kind: pa.DataType) -> pa.Array:
    """A column of polars in the Arrow type of its Connect schema. Raises ArrowInvalid for an int with more than 32 bits and for an
    enum without such a symbol.
    """
    avro = nullable(avro) or avro
    match avro.kind:
        case "record":
            return _struct(column, avro, kind)
        case "array":
            items = _column(column.values, avro.element(), kind.value_type)
            return pa.ListArray.from_arrays(column.offsets.cast(pa.int32()), items, type=kind, mask=column.is_null())
        case "enum":
            return pa.DictionaryArray.from_arrays(column.cast(pa.int32()), pa.array(avro.symbols, kind)).cast(kind)
        case "int":
            return column.cast(pa.int32()).cast(kind)
    return column.cast(kind)


def _struct(column: pa.Array, avro: AvroType, kind: pa.DataType) -> pa.Array:
    """A column of structs. Where one is null, its fields are those of any other: Arrow casts no null of a required field, even there."""
    valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(valid):
        return pa.array([None] * len(column), kind)
    nulls = column.is_null() if column.null_count else None
    if nulls is not None:
        rows = np.full(len(column), valid[0])
        rows[valid] = valid
        column = column.take(pa.array(rows))
    parts = [_column(column.field(n), field.type, kind.field(n).type) for n, field in enumerate(avro.fields)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)


def _reads(avro: AvroType, schema: ConnectSchema) -> bool:
    inner = nullable(avro)
    if inner is not None:
        # a null with a default is the default, which a column of the writer's nulls does not say
        return schema.optional and schema.default is None and nullable(inner) is None and _reads(inner, schema)
    if KINDS.get(avro.kind) is not schema.kind or schema.name == DECIMAL:
        return False
    if avro.kind == "record":
        pairs = zip(avro.fields, schema.fields, strict=True)
        return bool(avro.fields) and all(_reads(mine.type, its.schema) for mine, its in pairs)
    return avro.kind != "array" or (schema.items is not None and _reads(avro.element(), schema.items))


def _plain(avro: AvroType, names: count[int]) -> Any:
    """The type in JSON with names of its own and without whatever polars might stumble over.

    An int is read as a long, since polars drops the bits of an int that has more than 32 of them; so is an enum, since polars panics
    at one that may be null.
    """
    match avro.kind:
        case "union":
            return [_plain(branch, names) for branch in avro.branches]
        case "record":
            fields = [{"name": field.name, "type": _plain(field.type, names)} for field in avro.fields]
            return {"type": "record", "name": f"R{next(names)}", "fields": fields}
        case "array":
            return {"type": "array", "items": _plain(avro.element(), names)}
    return "long" if avro.kind in ("int", "enum") else avro.kind


def _framed(payloads: pa.Array, random: np.random.Generator) -> tuple[pa.Buffer, pa.Array]:
    """The payloads, each followed by its mark; and the marks' contents."""
    rows = len(payloads)
    marks = np.frombuffer(random.bytes(rows * MARK_BYTES), np.uint8).reshape(rows, MARK_BYTES).copy()
    marks[:, 0] = MARK_LENGTH
    joined = pc.binary_join_element_wise(payloads, _binaries(marks), b"")
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + rows + 1]
    contents = _binaries(np.ascontiguousarray(marks[:, 1:])).cast(pa.large_binary())
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0])), contents


def _binaries(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Rows of bytes as a binary array."""
    count, width = rows.shape
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(rows)])
    return fixed.cast(pa.binary())
