"""How do values become one text? Their bytes behind each other, a separator behind each, in one copy at most."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.model.deflate import Bytes


def joined(values: pa.Array, separator: bytes) -> Bytes:
    """The bytes of strings or binary values without nulls, with the separator behind every one.

    Without separator it is no copy, unless the values are a small part of what their memory holds.
    """
    _, offsets, content = values.buffers()
    if not len(values) or content is None:
        return separator * len(values)
    if separator:
        return _content(values, separator).data
    begin, end = np.frombuffer(offsets, np.int32)[
        values.offset : values.offset + len(values) + 1 : len(values)
    ].tolist()
    joint = memoryview(content)[begin:end]
    return joint if len(joint) * 2 >= content.size else bytes(joint)


def ended(values: pa.Array, separator: bytes) -> pa.Array:
    """Strings or binary values without nulls, each with the separator at its end."""
    _, offsets, content = values.buffers()
    if not len(values):
        return values
    if content is None:
        return pa.array([separator] * len(values), pa.binary()).view(values.type)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    ends = bounds - bounds[0] + np.arange(len(bounds), dtype=np.int32) * len(separator)
    return pa.Array.from_buffers(
        values.type, len(values), [None, pa.py_buffer(ends), pa.py_buffer(_content(values, separator))]
    )


def _content(values: pa.Array, separator: bytes) -> npt.NDArray[np.uint8]:
    from kafka_s3.records import joining_loops  # here: the driver need not load and compile it

    _, offsets, content = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    out = np.empty(int(bounds[-1] - bounds[0]) + len(values) * len(separator), np.uint8)
    joining_loops.join(np.frombuffer(content, np.uint8), bounds, np.frombuffer(separator, np.uint8), out)
    return out
