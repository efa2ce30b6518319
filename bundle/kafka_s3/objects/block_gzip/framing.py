"""In which forms does a Block-GZIP sink write its records? The forms themselves, and around them what is the sink's alone.

`connect.naming.block_gzip` gives the keys of its objects, `index` says where their blocks are, `ops.seek` reads from an offset; the bytes of the
data objects are written by `encoder` (SEMANTICS Part B).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafka_s3.connect.config.settings import Settings

BLOCK_SIZE: Final = 67_108_864


@dataclass(frozen=True, slots=True)
class Lines:
    """The original's records: the text of the value, and a line feed unless it ends with one. Measured in UTF-16 units."""


@dataclass(frozen=True, slots=True)
class Delimited:
    """The successor's text: the value and its delimiter; in front the key and its delimiter, where that one is set (even if empty)."""

    value_delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prefixed:
    """The successor's binary form: each value, and before it each key if asked for, behind its length in 4 bytes, big-endian."""

    include_keys: bool = False


Framing = Lines | Delimited | Prefixed


@dataclass(frozen=True, slots=True)
class BlockGzip:
    """How a sink writes: `Lines` is the original dialect, the other framings are the successor's.

    `block_size` bounds a block before compression, in bytes, under `Lines` in UTF-16 units. `true_offsets` says whether the index tells
    where the offsets of a block have gaps; without it each record is taken for the one after the last, as in the original.
    """

    framing: Framing = field(default_factory=Lines)
    block_size: int = BLOCK_SIZE
    true_offsets: bool = True

    @property
    def stores_keys(self) -> bool:
        """Whether keys are written in front of the values."""
        framing = self.framing
        return (isinstance(framing, Delimited) and framing.key_delimiter is not None) or (
            isinstance(framing, Prefixed) and framing.include_keys
        )


def block_gzip_of(settings: Settings) -> BlockGzip:
    """The variant that a configuration stands for, by its `block.gzip.` keys."""
    return BlockGzip(_framing(settings), settings.number("block.gzip.block.size"), not settings.strict)


def _framing(settings: Settings) -> Framing:
    if settings.text("block.gzip.dialect") == "original":
        return Lines()
    if settings.text("block.gzip.format") == "binary":
        return Prefixed(settings.flag("block.gzip.include.keys"))
    key = settings.optional_text("block.gzip.key.delimiter")
    value = delimiter_bytes(settings.text("block.gzip.value.delimiter"), settings.text("block.gzip.value.encoding"))
    if key is None:
        return Delimited(value)
    return Delimited(value, delimiter_bytes(key, settings.text("block.gzip.key.encoding")))


def delimiter_bytes(text: str, encoding: str) -> bytes:
    """A delimiter in one of Java's charsets; records themselves are never encoded anew. Raises LookupError for an unknown charset."""
    name = encoding.strip().upper().replace("_", "-")
    if name == "UTF-16":  # Java: big-endian with a byte order mark, whatever the machine
        return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
    return text.encode("utf-32-be" if name == "UTF-32" else encoding.strip(), errors="replace")
