"""How do values become one text? Their bytes behind each other, a separator behind each, in one copy at most."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_s3.model.deflate import Bytes


def joined(values: pa.Array, separator: bytes) -> Bytes:
    """The bytes of strings or binary values without nulls, with the separator behind every one.

    Without separator it is no copy, unless the values are a small part of what their memory holds.
    """
    from kafka_s3.records import joining_loops  # here: the driver need not load and compile it

    _, offsets, content = values.buffers()
    if not len(values) or content is None:
        return separator * len(values)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    begin, end = int(bounds[0]), int(bounds[-1])
    if not separator:
        joint = memoryview(content)[begin:end]
        return joint if len(joint) * 2 >= content.size else bytes(joint)
    out = np.empty(end - begin + len(values) * len(separator), np.uint8)
    joining_loops.join(np.frombuffer(content, np.uint8), bounds, np.frombuffer(separator, np.uint8), out)
    return out.data
