"""Where in a Block-GZIP object is which record? The index object beside it, written and read (SEMANTICS B3).

Offsets within a file are assumed to have no gaps: a block begins where the one before it ends. With compacted or transactional topics
that is wrong, in the original as here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from kafka_s3.model.errors import SinkError


class IndexDamaged(SinkError):
    """An index object does not say where the blocks of its file are."""


@dataclass(frozen=True, slots=True)
class Block:
    """One gzip member of a data object.

    `byte_offset` and `byte_length` are its place in the object. `byte_length_uncompressed` counts what the writer measured blocks by:
    bytes, in the original UTF-16 units.
    """

    byte_length_uncompressed: int
    num_records: int
    byte_length: int
    byte_offset: int
    first_record_offset: int

    @property
    def until(self) -> int:
        """One past the offset of the last record."""
        return self.first_record_offset + self.num_records


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """The blocks of one data object, in order; at least one."""

    blocks: tuple[Block, ...]

    @property
    def byte_length(self) -> int:
        """Bytes of the whole data object."""
        return self.blocks[-1].byte_offset + self.blocks[-1].byte_length


def index_bytes(blocks: Iterable[Block]) -> bytes:
    """The content of the index object."""
    return json.dumps({"chunks": [asdict(block) for block in blocks]}, separators=(",", ":")).encode()


def parse_index(content: bytes, key: str) -> BlockIndex:
    """The index that an object holds. Raises IndexDamaged where it is none, or where its blocks do not follow one another."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(key, "it is not JSON") from None
    chunks = document.get("chunks") if isinstance(document, dict) else None
    if not isinstance(chunks, list) or not chunks:
        raise _damaged(key, 'it has no list "chunks" of at least one block')
    blocks = tuple(_blocks(chunks, key))
    if blocks[0].byte_offset != 0:
        raise _damaged(key, f"its first block begins at byte {blocks[0].byte_offset} instead of 0")
    for number, (before, block) in enumerate(pairwise(blocks), start=1):
        if block.byte_offset != before.byte_offset + before.byte_length:
            raise _damaged(key, f"block {number} does not begin at the byte where the block before it ends")
        if block.first_record_offset != before.until:
            raise _damaged(key, f"block {number} does not begin at offset {before.until}, where the one before it ends")
    return BlockIndex(blocks)


def resume_offset(index: BlockIndex) -> int:
    """The offset of the first record after those of the index: where the original sink reads on (SEMANTICS B5)."""
    return index.blocks[-1].until


def block_of(index: BlockIndex, offset: int) -> Block | None:
    """The block that holds the record of an offset, None where none does."""
    return next((block for block in index.blocks if block.first_record_offset <= offset < block.until), None)


def _blocks(chunks: list[Any], key: str) -> Iterator[Block]:
    names = [field.name for field in fields(Block)]
    for number, chunk in enumerate(chunks):
        for name in names:
            value = chunk.get(name) if isinstance(chunk, dict) else None
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise _damaged(key, f"block {number} has no whole number {name}")
        yield Block(**{name: chunk[name] for name in names})


def _damaged(key: str, why: str) -> IndexDamaged:
    return IndexDamaged(
        f"The index {key} is damaged: {why}. The data object beside it is plain gzip and can be read without its index."
    )
