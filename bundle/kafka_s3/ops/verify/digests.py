"""How are two values told apart? By digests: of bytes, of the pieces between separators, and of JSON documents by what they mean."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

Digest = bytes

EXACT_INTEGERS: Final = 1 << 63
REMEMBERED: Final = 1 << 17
"""Of so many JSON texts the digests are kept: 20 MB."""
_DECODER: Final = json.JSONDecoder(
    parse_float=lambda text: _number(float(text)),
    parse_int=lambda text: _number(int(text)),
    parse_constant=lambda text: {"const": text},
)
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class JsonDigests:
    """Digests of JSON documents by value, from their texts. Thread-safe.

    A text that was seen lately is not parsed again: the lines of most objects are the very bytes that are in Kafka.
    """

    def __init__(self) -> None:
        self._seen: dict[Digest, Digest] = {}

    def of(self, text: bytes, encoding: str = "utf-8") -> Digest:
        """Raises ValueError and RecursionError for what is no JSON document."""
        if encoding != "utf-8":
            return json_digest(parsed(text.decode(encoding, "surrogatepass")))
        own = digest(text)
        found = self._seen.get(own)
        if found is None:
            found = json_digest(parsed(text.decode(encoding, "surrogatepass")))
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[own] = found
        return found


class JsonTexts:
    """Digests of JSON documents by their texts alone, a tenth of the work: enough where objects hold the very texts that are in Kafka."""

    def of(self, text: bytes) -> Digest:
        """The digest of the text as it is."""
        return digest(text)


def json_digest(document: Any) -> Digest:
    """The digest of a parsed document; members in any order, numbers by value."""
    return digest(_ENCODER.encode(document).encode())


def parsed(text: str) -> Any:
    """The JSON document at the beginning of a text, numbers by value. Raises ValueError."""
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def digest(content: bytes) -> Digest:
    """16 bytes that stand for a content."""
    return hashlib.blake2b(content, digest_size=16).digest()


NULL: Final = json_digest(None)
"""The digest of `null`, which leaves nothing in an object."""


def digest_whole(content: bytes) -> list[Digest]:
    """The digest of a value that is one piece."""
    return [digest(content)]


def pieces(content: bytes, separator: bytes) -> list[Digest]:
    """Digests of what lies between separators. A value that holds one gives several pieces, in Kafka as in the object."""
    return [digest(piece) for piece in content.split(separator)] if separator else [digest(content)]


def text_lines(text: str) -> list[Digest]:
    """Digests of the lines of a text, which a line feed ends if it does not itself."""
    return pieces(text.encode(errors="replace").removesuffix(b"\n"), b"\n")


def _number(value: float) -> float:
    """One form for numbers of one value: whole numbers are integers while these are exact."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT_INTEGERS else value
    return value if abs(value) < EXACT_INTEGERS else float(value)
