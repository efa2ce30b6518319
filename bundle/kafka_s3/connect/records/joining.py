"""How do values become one text? Their bytes behind each other, a separator behind each, in one copy at most."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.model.deflate import Bytes

Bounds = npt.NDArray[np.int32]


def joined(values: pa.Array, separator: bytes) -> Bytes:
    """The bytes of strings or binary values without nulls, with the separator behind every one.

    Without separator it is no copy, unless the values are a small part of what their memory holds.
    """
    content = values.buffers()[2]
    if not len(values) or content is None:
        return separator * len(values)
    if separator:
        return gathered(values, np.arange(len(values)), separator)[0]
    begin, end = bounds_of(values)[:: len(values)].tolist()
    joint = memoryview(content)[begin:end]
    return joint if len(joint) * 2 >= content.size else bytes(joint)


def gathered(values: pa.Array, rows: npt.NDArray[np.int64], separator: bytes) -> tuple[memoryview, Bounds]:
    """The same of some rows, in their order; and where each begins, and the last one ends."""
    from kafka_s3.connect.records import loops  # here: the driver need not load and compile them

    bounds, content = bounds_of(values), values.buffers()[2]
    size, ends = loops.total_of_rows(bounds, rows) + len(rows) * len(separator), np.zeros(len(rows) + 1, np.int32)
    out, data = np.empty(size, np.uint8), np.frombuffer(b"" if content is None else content, np.uint8)
    loops.join(data, bounds, rows, np.frombuffer(separator, np.uint8), out, ends)
    return out.data, ends


def separated(values: pa.Array, rows: npt.NDArray[np.int64], separator: bytes) -> pa.Array:
    """These rows of values without nulls, in their order, each with the separator as its end."""
    content, bounds = gathered(values, rows, separator)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(content)])


def texts_in_place(data: npt.NDArray[np.uint8], texts: npt.NDArray[np.int64]) -> tuple[pa.Buffer, pa.Buffer]:
    """Texts that lie in `data` (`loops.LENGTH` says how they are numbers) as Arrow has them: where each begins, and their bytes."""
    from kafka_s3.connect.records import loops

    bounds, out = np.zeros(len(texts) + 1, np.int32), np.empty(loops.total_of_texts(texts), np.uint8)
    loops.gather(data, texts, bounds, out)
    return pa.py_buffer(bounds), pa.py_buffer(out)


def bounds_of(values: pa.Array) -> Bounds:
    """Where each value begins in the content, and where the last one ends."""
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
