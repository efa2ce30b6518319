"""Which documents of a batch are JSON, and what do the members at their top hold? Found in one loop, without taking documents apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.converters.json_kinds import FALSE, FRACTION, NULL, TEXT, TRUE, WHOLE


class Members:
    """The documents of a binary array without nulls, and in them the members of these names.

    `passed` tells by row whether the document is one for certain (see `json_loops`); over the others a judge decides.
    """

    def __init__(self, documents: pa.Array, names: Sequence[str]) -> None:
        from kafka_s3.connect.converters import json_loops  # here: the driver need not load and compile it

        _, bounds, data = documents.buffers()
        rows, encoded = len(documents), [name.encode() for name in names]
        self._data = np.frombuffer(data or b"\0", np.uint8)
        shape = (len(names), rows)
        self._kinds = np.zeros(shape, np.uint8)
        self._begins, self._stops = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.passed: npt.NDArray[np.bool_] = np.zeros(rows, bool)
        self.refused = json_loops.scan(
            self._data,
            np.frombuffer(bounds, np.int32)[documents.offset : documents.offset + rows + 1],
            np.frombuffer(b"".join(encoded) + b"\0", np.uint8),
            np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            self._kinds, self._begins, self._stops, self.passed,
        )  # fmt: skip

    def column(self, number: int, kind: pa.DataType) -> pa.Array | None:
        """One member of every document, null where it is missing; None where some are of another type, or have escapes in their text."""
        here = {found for found in np.flatnonzero(np.bincount(self._kinds[number])).tolist() if found > NULL}
        try:
            if pa.types.is_string(kind):
                return self._texts(number) if here <= {TEXT} else None
            if pa.types.is_boolean(kind):
                return self._texts(number).cast(kind) if here <= {TRUE, FALSE} else None
            if pa.types.is_integer(kind):
                return self._texts(number).cast(kind) if here <= {WHOLE} else None
            if pa.types.is_floating(kind):
                return (
                    self._texts(number).cast(pa.float64()).cast(kind, safe=False) if here <= {WHOLE, FRACTION} else None
                )
        except pa.ArrowInvalid:  # a number beyond its type
            pass
        return None

    def any_column(self, number: int) -> pa.Array | None:
        """One member of every document as text or whole numbers, whichever all of them are; None where they are neither."""
        whole = self.column(number, pa.int64())
        return whole if whole is not None else self.column(number, pa.string())

    def _texts(self, number: int) -> pa.Array:
        from kafka_s3.connect.converters import json_loops

        kinds, begins, stops = self._kinds[number], self._begins[number], self._stops[number]
        out = np.empty(json_loops.total(kinds, begins, stops), np.uint8)
        bounds, valid = np.zeros(len(kinds) + 1, np.int32), np.zeros((len(kinds) + 7) // 8, np.uint8)
        nulls = json_loops.gather(self._data, kinds, begins, stops, bounds, out, valid)
        buffers = [pa.py_buffer(valid) if nulls else None, pa.py_buffer(bounds), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.string(), len(kinds), buffers, nulls)
