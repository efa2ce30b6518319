"""Where does the name of a schema stand in front of a payload? As Confluent's serializers write it, AWS Glue's, or Apicurio's.

::

    Confluent    0, id of 4 bytes                          1, GUID of 16 bytes
    AWS Glue     3, compression (0 none, 5 zlib), version id of 16 bytes; before Protobuf the place of the message type, a varint
    Apicurio     0, id of 8 bytes (its version 2)          0, id of 4 bytes (version 3, or as-confluent)

All numbers are big-endian; ids are signed, as in Java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.registry.serializers import Framing

Bytes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

UNKNOWN_MAGIC: Final = "Unknown magic byte!"
FAILURES: Final = (
    "",
    "Empty bytes: there is no magic byte.",
    UNKNOWN_MAGIC,
    "The bytes end within the schema id.",
    "The list of Protobuf message indexes after the schema id is malformed.",
    "Unknown compression byte: AWS Glue knows 0 (none) and 5 (zlib).",
)
EMPTY, MAGIC, SHORT, MALFORMED, COMPRESSION = 1, 2, 3, 4, 5
GUID_BYTES: Final = 16
GLUE_MAGIC: Final = 3
PLAIN, ZLIB = 0, 5
"""Glue's compression bytes."""


@dataclass(frozen=True, slots=True)
class SchemaIds:
    """Per record: whether it names a GUID; GUID or id, as two words; where the payload begins; the number of a failure or 0."""

    guids: Flags
    high: Words
    low: Words
    ends: Longs
    errors: Longs


def schema_ids(framing: Framing, data: Bytes, starts: Longs, lengths: Longs) -> SchemaIds:
    """What the records that begin at these places of `data` say of their schemas."""
    guids, skipped, widths = _layout(framing, data, starts, lengths)
    ends = skipped + widths
    errors = np.select([lengths == 0, _unknown(framing, data, starts), lengths < ends], [EMPTY, MAGIC, SHORT], 0)
    if framing is Framing.GLUE:
        errors = np.where((errors == 0) & (bytes_at(data, starts + 1) != PLAIN), COMPRESSION, errors)
    high, low = np.zeros(len(starts), np.uint64), np.zeros(len(starts), np.uint64)
    for width in np.unique(widths):
        rows = np.flatnonzero((errors == 0) & (widths == width))
        at = starts[rows] + skipped
        if width == GUID_BYTES:
            high[rows], low[rows] = number(data, at, 8), number(data, at + 8, 8)
        else:
            low[rows] = _signed(number(data, at, int(width)), int(width))
    return SchemaIds(guids, high, low, ends, errors.astype(np.int64))


def _layout(framing: Framing, data: Bytes, starts: Longs, lengths: Longs) -> tuple[Flags, int, Longs]:
    """Which records name a GUID, how many bytes stand before the name, and how many it has."""
    every = np.ones(len(starts), bool)
    match framing:
        case Framing.CONFLUENT:
            guids = bytes_at(data, starts) == 1
            return guids, 1, np.where(guids, GUID_BYTES, 4)
        case Framing.GLUE:
            return every, 2, np.full(len(starts), GUID_BYTES)
        case Framing.APICURIO_EITHER:
            long = (number(data, starts + 1, 4) == 0) & (lengths > 8)
            return ~every, 1, np.where(long, 8, 4)
        case _:
            return ~every, 1, np.full(len(starts), 8 if framing is Framing.APICURIO_8 else 4)


def _unknown(framing: Framing, data: Bytes, starts: Longs) -> Flags:
    magic = bytes_at(data, starts)
    if framing is Framing.GLUE:
        return np.not_equal(magic, GLUE_MAGIC)
    return np.greater(magic, 1 if framing is Framing.CONFLUENT else 0)


def _signed(numbers: Words, width: int) -> Words:
    """The numbers with their sign carried into all 64 bits."""
    return numbers.astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64) if width == 4 else numbers


def bytes_at(data: Bytes, at: Longs) -> Bytes:
    """The bytes at these places; beyond the end any byte, which callers do not look at."""
    return data[np.minimum(at, len(data) - 1)]


def number(data: Bytes, at: Longs, size: int) -> Words:
    """Big-endian numbers of `size` bytes at these places."""
    found = np.zeros(len(at), np.uint64)
    for place in range(size):
        found = found << np.uint64(8) | bytes_at(data, at + place)
    return found
