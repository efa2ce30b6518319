"""How are payloads read that AWS Glue's serializers compressed? Each is inflated by itself, within bounds, before all else."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.registry.framing import GLUE_MAGIC, PLAIN, ZLIB

HEADER_BYTES: Final = 18
LARGEST_BYTES: Final = 64 << 20
"""Of an inflated payload: four times the largest record that brokers are usually set up for."""
_COMPRESSED: Final = bytes([GLUE_MAGIC, ZLIB])
_PLAIN: Final = bytes([GLUE_MAGIC, PLAIN])


def inflated(values: pa.Array) -> tuple[pa.Array, list[tuple[int, str]]]:
    """The records without compression, and (position, reason) of those that cannot be inflated, whose place is null then.

    An array without compressed records comes back as it is.
    """
    values = values.cast(pa.binary()) if values.type != pa.binary() else values
    compressed = pc.fill_null(pc.starts_with(values, _COMPRESSED), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(compressed)
    if not len(rows):
        return values, []
    found: list[bytes | None] = []
    failures: list[tuple[int, str]] = []
    for row, record in zip(rows.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            found.append(_inflated(record))
        except (zlib.error, ValueError) as error:
            found.append(None)
            failures.append((row, f"The payload cannot be inflated: {error}."))
    return pc.replace_with_mask(values, pa.array(compressed), pa.array(found, pa.binary())), failures


def _inflated(record: bytes) -> bytes:
    """The record with its payload as it was. Raises zlib.error and ValueError."""
    engine = zlib.decompressobj()
    payload = engine.decompress(record[HEADER_BYTES:], LARGEST_BYTES)
    if engine.unconsumed_tail:
        raise ValueError(f"it is larger than {LARGEST_BYTES >> 20} MiB")
    if not engine.eof:
        raise ValueError("it ends too early")
    return _PLAIN + record[2:HEADER_BYTES] + payload
