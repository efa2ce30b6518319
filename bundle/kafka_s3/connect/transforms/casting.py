"""Which casts can Arrow make exactly as Java does? Whole columns; None for all others, which are cast one by one."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.schemas.arrow import SIMPLE
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, SchemaType

BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
FLOATS: Final = (SchemaType.FLOAT32, SchemaType.FLOAT64)
STORED: Final = {TIMESTAMP: pa.int64(), DATE: pa.int32(), TIME: pa.int32()}
WHOLE_TEXT: Final = r"^-?[0-9]{1,18}$"


def cast_column(array: pa.ChunkedArray, schema: ConnectSchema, kind: SchemaType) -> pa.ChunkedArray | None:
    """The column in another type, None where Arrow would do it otherwise than Java, or refuse a value."""
    if schema.name in STORED:
        if kind is SchemaType.STRING:
            return None
        array = array.cast(STORED[schema.name])
    elif schema.name is not None and schema.kind is SchemaType.BYTES:
        return None
    if schema.kind is kind:
        return array
    match schema.kind:
        case SchemaType.INT8 | SchemaType.INT16 | SchemaType.INT32 | SchemaType.INT64:
            return _from_integers(array, kind)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return _from_floats(array, kind)
        case SchemaType.BOOLEAN:
            return array.cast(pa.string()) if kind is SchemaType.STRING else array.cast(pa.int32()).cast(SIMPLE[kind])
        case SchemaType.STRING:
            return _from_texts(array, kind)
        case _:
            return None


def _from_integers(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray:
    if kind is SchemaType.BOOLEAN:
        return pc.not_equal(array, 0)
    if kind in BITS:
        return _wrapped(array, BITS[kind])
    return array.cast(SIMPLE[kind], safe=False)


def _from_floats(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray | None:
    if kind is SchemaType.STRING:
        return None
    if kind in FLOATS:
        return array.cast(SIMPLE[kind], safe=False)
    whole = _truncated(array, 64 if kind in (SchemaType.INT64, SchemaType.BOOLEAN) else 32)
    return pc.not_equal(whole, 0) if kind is SchemaType.BOOLEAN else _wrapped(whole, BITS[kind])


def _from_texts(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray | None:
    if kind is SchemaType.BOOLEAN:
        return pc.equal(pc.utf8_lower(array), "true")
    if kind not in BITS or pc.all(pc.match_substring_regex(array, WHOLE_TEXT)).as_py() is False:
        return None
    numbers = array.cast(pa.int64())
    bound = 2 ** (min(BITS[kind], 63) - 1)
    fits = (
        kind is SchemaType.INT64 or pc.all(pc.and_(pc.greater_equal(numbers, -bound), pc.less(numbers, bound))).as_py()
    )
    return None if fits is False else numbers.cast(SIMPLE[kind])


def _wrapped(array: pa.ChunkedArray, bits: int) -> pa.ChunkedArray:
    """The lower bits of each number, in the column type of that width."""
    if bits >= 32:
        return array.cast(pa.int64() if bits == 64 else pa.int32(), safe=False)
    numbers = pc.fill_null(array, 0).to_numpy().astype(np.int8 if bits == 8 else np.int16).astype(np.int32)
    return _with_nulls(numbers, array)


def _truncated(array: pa.ChunkedArray, bits: int) -> pa.ChunkedArray:
    """Each number towards zero, at most what fits, 0 for what is no number."""
    numbers = pc.fill_null(array, 0.0).to_numpy().astype(np.float64)
    bound = 2.0 ** (bits - 1)
    high, low = numbers >= bound, numbers <= -bound
    whole = np.where(high | low | np.isnan(numbers), 0.0, numbers).astype(np.int64)
    whole[high], whole[low] = 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
    return _with_nulls(whole, array)


def _with_nulls(numbers: np.ndarray, like: pa.ChunkedArray) -> pa.ChunkedArray:
    mask = None if not like.null_count else like.is_null().to_numpy()
    return pa.chunked_array([pa.array(numbers, mask=mask)])
