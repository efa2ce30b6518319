"""Does every union in these Avro payloads name a branch that it has? polars looks only whether a value is null.

The decoded values say how many bytes each part of a payload takes in its usual form, and so where the tags of the unions are. For the type
`{"a": ["null", "string"], "b": "long", "c": ["null", "long"]}` and the value `{"a": "hi", "b": 300, "c": null}` that is

    byte    0    1    2    3    4    5    6
           02   04   68   69   D8   04   00
           tag  len  h    i    300       tag
           a: 1 + (1 + 2) = 4 bytes | b: 2 | c: 1

so the tags are looked for at bytes 0 and 6: a 2 where there is a value (branch 1, zig-zag), a 0 where there is none. All places are
computed for a column at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.records.values import Longs
from kafka_s3.registry.framing import Bytes
from kafka_s3.schemas.avro_types import AvroType, nullable

SIZES: Final = {"boolean": 1, "float": 4, "double": 8}
LONGER: Final = np.array([1 << 7 * size for size in range(1, 10)], np.uint64)
"""From these zig-zag numbers on, a varint takes one more byte."""


def has_union(avro: AvroType) -> bool:
    """Whether there is a union anywhere in the type."""
    parts = [*(field.type for field in avro.fields), *([avro.items] if avro.items else [])]
    return avro.kind == "union" or any(map(has_union, parts))


def well_tagged(found: pa.Table, types: list[AvroType], payloads: pa.Array) -> bool:
    """Whether every union of these payloads names a branch that it has; `found` are their values, a column per type.

    False also where numbers or arrays are not in their usual form: then the places of the unions are not known.
    """
    bounds, data = _layout(payloads)
    at = bounds[:-1]
    for number, kind in enumerate(types):
        column = found.column(number).combine_chunks()
        if not _tagged(column, kind, data, at=at):
            return False
        at = at + _lengths(column, kind)
    return bool((at == bounds[1:]).all())


def _tagged(column: pa.Array, avro: AvroType, data: Bytes, *, at: Longs) -> bool:
    """Whether the unions in these values, which begin at these places, name a branch that they have."""
    inner = nullable(avro)
    if inner is not None:
        return _tags_are_right(column, avro, data, at=at) and _tagged_inside(column, inner, data, at=at)
    if not has_union(avro):
        return True
    return (_tagged_items if avro.kind == "array" else _tagged_fields)(column, avro, data, at=at)


def _tags_are_right(column: pa.Array, avro: AvroType, data: Bytes, *, at: Longs) -> bool:
    """Whether these unions of null and another type begin with the tag that goes with their value."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    tags = np.where(valid == (avro.branches[0].kind == "null"), 2, 0)
    return bool((data[np.minimum(at, len(data) - 1)] == tags).all())


def _tagged_inside(column: pa.Array, inner: AvroType, data: Bytes, *, at: Longs) -> bool:
    """The values that are not null, each behind its tag."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return _tagged(column.filter(pa.array(valid)), inner, data, at=at[valid] + 1)


def _tagged_items(column: pa.Array, avro: AvroType, data: Bytes, *, at: Longs) -> bool:
    """The items of arrays: `[x, y]` at 10 with items of 3 and 5 bytes has its count at 10, x at 11, y at 14."""
    counts = pc.list_value_length(column).to_numpy()
    items, first = column.flatten(), at + _varints(counts)
    lengths = _lengths(items, avro.element())
    before = np.cumsum(lengths) - lengths  # bytes of all items before an item, whatever array they are in
    of_others = np.append(before, 0)[np.cumsum(counts) - counts]  # those of them that are in earlier arrays
    return _tagged(items, avro.element(), data, at=np.repeat(first - of_others, counts) + before)


def _tagged_fields(column: pa.Array, avro: AvroType, data: Bytes, *, at: Longs) -> bool:
    """The fields of records, each behind the one before it."""
    for number, field in enumerate(avro.fields):
        part = column.field(number)
        if not _tagged(part, field.type, data, at=at):
            return False
        at = at + _lengths(part, field.type)
    return True


def _lengths(column: pa.Array, avro: AvroType) -> Longs:
    """How many bytes each value takes in its usual form."""
    inner = nullable(avro)
    if inner is not None:
        return _lengths_of_nullable(column, inner)
    match avro.kind:
        case "record":
            parts = [_lengths(column.field(number), field.type) for number, field in enumerate(avro.fields)]
            together: Longs = np.sum(parts, axis=0, dtype=np.int64)
            return together
        case "array":
            return _lengths_of_arrays(column, avro)
        case "string" | "bytes":
            sizes = pc.binary_length(column).to_numpy().astype(np.int64)
            whole: Longs = sizes + _varints(sizes)
            return whole
        case "int" | "long" | "enum":
            return _varints(column.to_numpy())
    return np.full(len(column), SIZES[avro.kind], np.int64)


def _lengths_of_nullable(column: pa.Array, inner: AvroType) -> Longs:
    """The tag, and the value where there is one."""
    valid = column.is_valid()
    lengths = np.ones(len(column), np.int64)
    lengths[valid.to_numpy(zero_copy_only=False)] += _lengths(column.filter(valid), inner)
    return lengths


def _lengths_of_arrays(column: pa.Array, avro: AvroType) -> Longs:
    """One block of items with its count, unless there are none, and the 0 that ends the blocks."""
    counts = pc.list_value_length(column).to_numpy()
    until = np.append(0, np.cumsum(_lengths(column.flatten(), avro.element())))
    ends = np.cumsum(counts)
    items: Longs = until[ends] - until[ends - counts]
    return 1 + np.where(counts > 0, _varints(counts) + items, 0)


def _varints(numbers: Longs) -> Longs:
    """How many bytes these numbers take."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return np.searchsorted(LONGER, zigzag, side="right") + 1


def _layout(payloads: pa.Array) -> tuple[Longs, Bytes]:
    """Where the payloads begin, with the end of the last, and the bytes around them."""
    _, offsets, data = payloads.buffers()
    bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1].astype(np.int64)
    return bounds, np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)
