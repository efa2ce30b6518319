"""How does one gzip member grow in several processes? Its deflate stream is flushed to a byte boundary, and its checksum goes along.

Deflate may go on behind a full flush without knowing what came before; header, checksum and length are written here (RFC 1952).
"""

from __future__ import annotations

from typing import Final

from kafka_s3.model.deflate import DEFAULT_LEVEL, ENGINE_BYTES, FULL_FLUSH, RAW, Bytes, Packer, checksum, packer
from kafka_s3.objects.format import Paused

HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
"""No name, no time, and nothing said of level and system."""


class GzipMember:
    """Bytes in, compressed bytes out; `level` is -1 to 9.

    Its engine is there from the first byte until the next time that all is `flushed`: ten thousand open files would hold a gigabyte.
    """

    __slots__ = ("_checksum", "_engine", "_fed", "_header", "_length", "_level")

    def __init__(self, level: int = DEFAULT_LEVEL) -> None:
        self._level = level
        self._engine: Packer | None = None
        self._header = HEADER
        self._checksum, self._length, self._fed = 0, 0, False

    def held(self) -> int:
        """Bytes of memory that the engine holds."""
        return 0 if self._engine is None else ENGINE_BYTES

    def compress(self, data: Bytes) -> bytes:
        """Adds data; gives what is ready, which may be nothing."""
        self._checksum = checksum(data, self._checksum)
        self._length += len(data)
        self._fed = self._fed or len(data) > 0
        return self._behind_header(self._packer().compress(data))

    def end(self) -> bytes:
        """The rest of the member."""
        trailer = self._checksum.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little")
        return self._behind_header(self._packer().flush() + trailer)

    def flushed(self) -> bytes:
        """The rest of what was added so far, up to a byte boundary: what `pause` has to find."""
        rest = self._packer().flush(FULL_FLUSH) if self._fed else b""
        self._engine, self._fed = None, False
        return self._behind_header(rest)

    def pause(self) -> Paused:
        """What another object needs to go on, once all is `flushed`."""
        return {"checksum": self._checksum, "length": self._length, "begun": not self._header}

    def resume(self, paused: Paused) -> None:
        """Makes a new object go on behind what was flushed."""
        self._checksum, self._length = paused["checksum"], paused["length"]
        self._header = b"" if paused["begun"] else HEADER

    def _behind_header(self, compressed: bytes) -> bytes:
        if not compressed:
            return b""
        header, self._header = self._header, b""
        return header + compressed

    def _packer(self) -> Packer:
        if self._engine is None:
            self._engine = packer(self._level, frame=RAW)
        return self._engine
