"""The loop behind `joining`, compiled."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kafka_s3.connect.records.compiling import compiled, copy_bytes

_BYTES = "Array(uint8, 1, 'C', True)"


@compiled(f"void({_BYTES}, Array(int32, 1, 'C', True), int64[::1], {_BYTES}, uint8[::1])")
def join(data, bounds, rows, separator, out):
    """The values `data[bounds[row]:bounds[row + 1]]` of these rows and the separator behind each, into `out`, which has just the room."""
    at, into, base, size = 0, np.int64(out.ctypes.data), np.int64(data.ctypes.data), len(separator)
    for row in rows:
        length = bounds[row + 1] - bounds[row]
        copy_bytes(into + at, base + bounds[row], length)
        at += length
        for place in range(size):
            out[at + place] = separator[place]
        at += size
