"""Which engine makes a deflate stream, and how hard does it try?

ISA-L is five to ten times as fast as zlib and leaves 4 to 25 % more bytes of ordinary records, up to twice as many
where they repeat word for word. Of its own four levels 1 and 2 are worth having: 0 leaves a
third more, 3 is slower and no denser on records. So it serves the default and the levels that ask for less than the best; zlib serves 7 to
9, and 0, which stores. Where ISA-L has no wheel, zlib serves all. Every stream is ordinary deflate: readers see no difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
_isal: Any
try:
    from isal import isal_zlib as _isal
except ImportError:  # this machine has no wheel of it
    _isal = None

GZIP: Final = 31
"""A gzip member: header, deflate, checksum and length."""
GZIP_MAGIC: Final = b"\x1f\x8b"
"""What a gzip member begins with."""
RAW: Final = -15
"""Deflate alone, as in Avro's blocks."""
ENGINE_BYTES: Final = 256 << 10
"""What a growing stream holds itself, about."""
FULL_FLUSH: Final = zlib.Z_FULL_FLUSH
DEFAULT_LEVEL: Final = -1
ISAL_LEVELS: Final = {DEFAULT_LEVEL: 2, 1: 1, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}
"""Connect's level to ISA-L's; the others are zlib's."""


class Packer(Protocol):
    """One growing stream."""

    def compress(self, data: Bytes, /) -> bytes:
        """Takes bytes; gives what is compressed by now."""

    def flush(self, mode: int = ..., /) -> bytes:
        """Ends the stream, or with `FULL_FLUSH` a stretch of it that ends at a byte and can be read alone; gives the rest."""


def packer(level: int = DEFAULT_LEVEL, *, frame: int = GZIP) -> Packer:
    """A new stream at a level from -1 to 9, framed as GZIP or RAW."""
    own = ISAL_LEVELS.get(level)
    make: Callable[[int, int, int], Packer]
    if _isal is None or own is None:
        make, own = zlib.compressobj, level
    else:
        make = _isal.compressobj
    return make(own, zlib.DEFLATED, frame)


def packed(data: Bytes, level: int = DEFAULT_LEVEL, *, frame: int = GZIP) -> bytes:
    """The whole stream of these bytes."""
    stream = packer(level, frame=frame)
    return stream.compress(data) + stream.flush()


def checksum(data: Bytes, before: int = 0) -> int:
    """The CRC-32 of the bytes behind those that have the checksum `before`."""
    found: int = (_isal or zlib).crc32(data, before)
    return found
