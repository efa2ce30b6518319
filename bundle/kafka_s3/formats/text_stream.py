"""How does text grow into an object, plain or as one gzip member? What JSON lines and byte arrays share (SEMANTICS A8.6)."""

from __future__ import annotations

from typing import Final

from kafka_s3.formats.format import Paused
from kafka_s3.formats.gzip_member import GzipMember

COMPRESS_EVERY: Final = 1 << 16


class TextStream:
    """Bytes in, encoded bytes out; `gzip_level` is -1 to 9, None for plain."""

    def __init__(self, gzip_level: int | None) -> None:
        self._gzip = None if gzip_level is None else GzipMember(gzip_level)
        self._plain = bytearray()
        self._encoded = bytearray()
        self._taken = 0
        self._held = 0
        self._size = 0

    def write(self, text: bytes) -> None:
        """Adds bytes; gzip gets them in pieces worth its while."""
        self._plain += text
        if self._gzip is None or len(self._plain) >= COMPRESS_EVERY:
            self.compact()

    def size(self) -> int:
        """Encoded bytes, and a quarter of the text that waits for gzip or is held back in it; never less than said before."""
        waiting = (len(self._plain) + self._held) // 4
        self._size = max(self._size, self._taken + len(self._encoded) + waiting)
        return self._size

    def pending(self) -> int:
        """Bytes of text that wait for gzip."""
        return len(self._plain)

    def compact(self) -> None:
        """Feeds the waiting text to gzip."""
        if self._gzip is None:
            self._encoded += self._plain
        else:
            compressed = self._gzip.compress(self._plain)
            self._held = 0 if compressed else self._held + len(self._plain)
            self._encoded += compressed
        self._plain = bytearray()

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        taken = bytes(self._encoded)
        self._taken += len(taken)
        self._encoded = bytearray()
        return taken

    def finish(self) -> None:
        """Ends the gzip member."""
        self.compact()
        if self._gzip is not None:
            self._encoded += self._gzip.end()
        self._held = self._size = 0  # nothing is estimated any more

    def pause(self) -> Paused:
        """Text is kept as it is; gzip is flushed, and goes on as the same member."""
        self.compact()
        if self._gzip is not None:
            self._encoded += self._gzip.flushed()
        member = self._gzip.pause() if self._gzip is not None else None
        return {"taken": self._taken + len(self._encoded), "size": self._size, "gzip": member}

    def resume(self, paused: Paused) -> None:
        """Goes on behind the bytes of another one."""
        self._taken, self._size = paused["taken"], paused["size"]
        if self._gzip is not None:
            self._gzip.resume(paused["gzip"])
