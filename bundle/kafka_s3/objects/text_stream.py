"""How does text grow into an object, plain or as one gzip member? What JSON lines and byte arrays share (SEMANTICS A8.6)."""

from __future__ import annotations

from typing import Final

from kafka_s3.model.deflate import Bytes
from kafka_s3.objects.format import Paused
from kafka_s3.objects.gzip_member import GzipMember

COMPRESS_EVERY: Final = 1 << 16
WAITING_FOR_GZIP: Final = 4
"""So many bytes of text that wait for gzip count as one that is encoded."""


class TextStream:
    """Bytes in, encoded bytes out; `gzip_level` is -1 to 9, None for plain."""

    __slots__ = ("_encoded", "_gzip", "_held", "_plain", "_ready", "_size", "_taken", "_waiting")

    def __init__(self, gzip_level: int | None) -> None:
        self._gzip = None if gzip_level is None else GzipMember(gzip_level)
        self._plain: list[Bytes] = []
        self._waiting = 0
        self._encoded: list[Bytes] = []
        self._ready = 0
        self._taken = 0
        self._held = 0
        self._size = 0

    def write(self, text: Bytes) -> None:
        """Adds bytes, which nobody changes any more; gzip gets them in pieces worth its while."""
        self._plain.append(text)
        self._waiting += len(text)
        if self._gzip is None or self._waiting >= COMPRESS_EVERY:
            self._encode()

    def size(self) -> int:
        """Encoded bytes, and a quarter of the text that waits for gzip or is held back in it; never less than said before."""
        waiting = (self._waiting + self._held) // WAITING_FOR_GZIP
        self._size = max(self._size, self._taken + self._ready + waiting)
        return self._size

    def pending(self) -> int:
        """Bytes of text that wait for gzip, and what that holds itself."""
        return self._waiting if self._gzip is None else self._waiting + self._gzip.held()

    def compact(self) -> None:
        """Feeds the waiting text to gzip, which gives all that it has and lets go of its engine."""
        self._encode()
        if self._gzip is not None:
            self._add(self._gzip.flushed())
            self._held = 0

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        taken = whole(self._encoded)
        self._taken += self._ready
        self._encoded, self._ready = [], 0
        return taken

    def finish(self) -> None:
        """Ends the gzip member."""
        self._encode()
        if self._gzip is not None:
            self._add(self._gzip.end())
        self._held = self._size = 0  # nothing is estimated any more

    def pause(self) -> Paused:
        """Text is kept as it is; gzip is flushed, and goes on as the same member."""
        self.compact()
        member = self._gzip.pause() if self._gzip is not None else None
        return {"taken": self._taken + self._ready, "size": self._size, "gzip": member}

    def resume(self, paused: Paused) -> None:
        """Goes on behind the bytes of another one."""
        self._taken, self._size = paused["taken"], paused["size"]
        if self._gzip is not None:
            self._gzip.resume(paused["gzip"])

    def _encode(self) -> None:
        plain, waiting = self._plain, self._waiting
        self._plain, self._waiting = [], 0
        if self._gzip is None:
            self._encoded += plain
            self._ready += waiting
        elif waiting:
            compressed = self._gzip.compress(whole(plain))
            self._held = 0 if compressed else self._held + waiting
            self._add(compressed)

    def _add(self, encoded: bytes) -> None:
        self._encoded.append(encoded)
        self._ready += len(encoded)


def whole(pieces: list[Bytes]) -> Bytes:
    """Pieces behind each other; a piece alone is not copied."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
