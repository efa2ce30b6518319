"""How do Avro payloads become columns without a Python object per record? Framed as one container block, read by polars.

The block's schema is the writer's plus a mark of five bytes that nobody can guess. Each datum is followed by its mark where the next
record's prefix was, so a datum that is too short or too long puts the marks out of place: then the block counts for nothing, and the
records are decoded one by one. Not every schema can take this path: see `columns_of`.
"""

from __future__ import annotations

import io
import json
from itertools import count
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.schemas.arrow import arrow_table
from kafka_s3.schemas.avro_types import AvroType, read_types
from kafka_s3.schemas.connect import DECIMAL, ConnectSchema, Kind

MARK: Final = "kafka_s3_mark"
MARK_BYTES: Final = 5
MARK_LENGTH: Final = 8
"""An Avro `bytes` of length four begins with this byte."""
SYNC: Final = b"kafka-s3 columns"
KINDS: Final = {
    "boolean": Kind.BOOLEAN, "int": Kind.INT32, "long": Kind.INT64, "float": Kind.FLOAT32, "double": Kind.FLOAT64, "string": Kind.STRING,
    "bytes": Kind.BYTES, "enum": Kind.STRING, "record": Kind.STRUCT, "array": Kind.ARRAY,
}  # fmt: skip


class AvroColumns:
    """Reads the payloads of one writer schema into the columns of its Connect schema."""

    def __init__(self, avro: AvroType, schema: ConnectSchema) -> None:
        names = count()
        self._types = [field.type for field in avro.fields]
        fields = [{"name": field.name, "type": _plain(field.type, names)} for field in avro.fields]
        framed = {"type": "record", "name": "Framed", "fields": [*fields, {"name": MARK, "type": "bytes"}]}
        text = json.dumps(framed).encode()
        members = _long(len(b"avro.schema")) + b"avro.schema" + _long(len(text)) + text
        self._header = b"Obj\x01" + _long(1) + members + _long(0) + SYNC
        self._target = arrow_table([], schema).schema
        self._random = np.random.default_rng()

    def read(self, payloads: pa.Array) -> pa.Table | None:
        """One row per payload, None where a payload is no datum of the schema, or is longer than one."""
        body, marks = _framed(payloads, self._random)
        block = _long(len(payloads)) + _long(len(body)) + body + SYNC
        try:
            found = pl.read_avro(io.BytesIO(self._header + block)).to_arrow()
            if found.num_rows != len(payloads) or not pc.all(pc.equal(found.column(MARK), marks)).as_py():
                return None
            columns = [
                _column(found.column(at).combine_chunks(), kind, field.type)
                for at, (kind, field) in enumerate(zip(self._types, self._target, strict=True))
            ]
            return pa.Table.from_arrays(columns, schema=self._target)
        except (Exception, pl.exceptions.PanicException):  # whatever is wrong is found out record by record
            return None


def columns_of(avro: Any, schema: ConnectSchema) -> AvroColumns | None:
    """The reader of a writer schema (parsed JSON), None where it holds a type that only the slow path reads: maps, fixed, decimals,
    unions of several types, and what takes no bytes.
    """
    kind = read_types(avro)
    return AvroColumns(kind, schema) if kind.kind == "record" and kind.fields and _reads(kind, schema) else None


def _column(column: pa.Array, avro: AvroType, kind: pa.DataType) -> pa.Array:
    """A column of polars in the Arrow type of its Connect schema. Raises ArrowInvalid for an int with more than 32 bits and for an
    enum without such a symbol. Casting structs whole would refuse the nulls that required fields have below a null struct.
    """
    avro = _nullable(avro) or avro
    match avro.kind:
        case "record":
            parts = [_column(column.field(n), field.type, kind.field(n).type) for n, field in enumerate(avro.fields)]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
        case "array":
            items = _column(column.values, avro.element(), kind.value_type)
            return pa.ListArray.from_arrays(column.offsets.cast(pa.int32()), items, type=kind, mask=column.is_null())
        case "enum":
            return pa.DictionaryArray.from_arrays(column.cast(pa.int32()), pa.array(avro.symbols, kind)).cast(kind)
        case "int":
            return column.cast(pa.int32()).cast(kind)
    return column.cast(kind)


def _reads(avro: AvroType, schema: ConnectSchema) -> bool:
    inner = _nullable(avro)
    if inner is not None:
        # a null with a default is the default, which a column of the writer's nulls does not say
        return schema.optional and schema.default is None and _nullable(inner) is None and _reads(inner, schema)
    if KINDS.get(avro.kind) is not schema.kind or schema.name == DECIMAL:
        return False
    if avro.kind == "record":
        pairs = zip(avro.fields, schema.fields, strict=True)
        return bool(avro.fields) and all(_reads(mine.type, its.schema) for mine, its in pairs)
    return avro.kind != "array" or (schema.items is not None and _reads(avro.element(), schema.items))


def _nullable(avro: AvroType) -> AvroType | None:
    """The type beside null in a union of the two."""
    if avro.kind != "union" or len(avro.branches) != 2:
        return None
    others = [branch for branch in avro.branches if branch.kind != "null"]
    return others[0] if len(others) == 1 else None


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


def _framed(payloads: pa.Array, random: np.random.Generator) -> tuple[bytes, pa.Array]:
    """The payloads, each followed by its mark; and the marks' contents."""
    rows = len(payloads)
    _, offsets, data = payloads.buffers()
    bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + rows + 1].astype(np.int64)
    marks = np.frombuffer(random.bytes(rows * MARK_BYTES), np.uint8).reshape(rows, MARK_BYTES).copy()
    marks[:, 0] = MARK_LENGTH
    places = (bounds[1:] - bounds[0])[:, None] + np.arange(rows)[:, None] * MARK_BYTES + np.arange(MARK_BYTES)
    body = np.empty(bounds[-1] - bounds[0] + rows * MARK_BYTES, np.uint8)
    ours = np.zeros(len(body), bool)
    ours[places] = True
    body[places] = marks
    if data is not None:
        body[~ours] = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    contents = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(MARK_BYTES - 1), rows, [None, pa.py_buffer(np.ascontiguousarray(marks[:, 1:]))]
    )
    return body.tobytes(), contents.cast(pa.binary()).cast(pa.large_binary())


def _long(number: int) -> bytes:
    """An Avro long that is not negative."""
    zigzag, out = number << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
