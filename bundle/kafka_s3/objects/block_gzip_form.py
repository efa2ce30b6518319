"""What does a Block-GZIP object hold, and where in it is which record? The forms of records, and the index beside it (SEMANTICS B3).

The original takes the records of a file to follow one another without gaps, which is wrong for compacted and transactional topics. Here a
block whose offsets have gaps says so: its chunk has a member `spans` beside the original's, pairs of a first offset and a count.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from kafka_s3.connect.naming.keys import BlockNames, index_key_of
from kafka_s3.connect.records.values import Longs
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.store.store import ObjectStore

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


def delimiter_bytes(text: str, encoding: str) -> bytes:
    """A delimiter in one of Java's charsets; records themselves are never encoded again. Raises LookupError for an unknown charset."""
    name = encoding.strip().upper().replace("_", "-")
    if name == "UTF-16":  # Java: big-endian with a byte order mark, whatever the machine
        return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
    return text.encode("utf-32-be" if name == "UTF-32" else encoding.strip(), errors="replace")


class IndexDamaged(SinkError):
    """An index object does not say where the blocks of its file are."""


Span: TypeAlias = tuple[int, int]
"""Offsets without gaps: the first one, and how many there are."""


@dataclass(frozen=True, slots=True)
class Block:
    """One gzip member of a data object.

    `byte_offset` and `byte_length` are its place in the object. `byte_length_uncompressed` counts what the writer measured blocks by:
    bytes, in the original UTF-16 units. `spans` are the offsets of its records without gaps; none at all where that is one span from
    `first_record_offset` on.
    """

    byte_length_uncompressed: int
    num_records: int
    byte_length: int
    byte_offset: int
    first_record_offset: int
    spans: tuple[Span, ...] = ()

    @property
    def until(self) -> int:
        """One past the offset of the last record."""
        first, count = self.spans[-1] if self.spans else (self.first_record_offset, self.num_records)
        return first + count

    def offsets(self) -> Iterator[int]:
        """The offset of each record."""
        for first, count in self.spans or ((self.first_record_offset, self.num_records),):
            yield from range(first, first + count)

    def holds(self, offset: int) -> bool:
        """Whether a record of that offset is in the block."""
        spans = self.spans or ((self.first_record_offset, self.num_records),)
        return any(first <= offset < first + count for first, count in spans)


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
    return json.dumps({"chunks": [_chunk(block) for block in blocks]}, separators=(",", ":")).encode()


def extend(spans: list[Span], offsets: Longs) -> None:
    """Adds the offsets of further records, in ascending order, to the spans of those before them."""
    begins = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1, [len(offsets)]))
    for begin, end in pairwise(begins.tolist()):
        first, count = int(offsets[begin]), end - begin
        if spans and sum(spans[-1]) == first:
            first, count = spans[-1][0], spans.pop()[1] + count
        spans.append((first, count))


def spans_of(pairs: Iterable[Sequence[int]]) -> tuple[Span, ...]:
    """Spans as JSON has them."""
    return tuple((first, count) for first, count in pairs)


def packed_spans(spans: Sequence[Span]) -> bytes:
    """Spans in little space, for another process: of a topic that is compacted, or has transactions, a file has thousands."""
    pairs = np.array(spans, np.int64).reshape(-1, 2)
    ends = np.stack([pairs[:, 0], pairs.sum(axis=1)], axis=1)
    return zlib.compress(np.diff(ends.ravel(), prepend=0).tobytes())


def unpacked_spans(packed: bytes) -> tuple[Span, ...]:
    """What `packed_spans` was given."""
    ends = np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64)).reshape(-1, 2)
    return tuple(zip(ends[:, 0].tolist(), np.diff(ends)[:, 0].tolist(), strict=True))


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
        if block.first_record_offset < before.until:
            raise _damaged(key, f"block {number} begins before offset {before.until}, where the one before it ends")
    return BlockIndex(blocks)


def resume_offset(index: BlockIndex) -> int:
    """The offset of the first record after those of the index: where the original sink reads on (SEMANTICS B5)."""
    return index.blocks[-1].until


def block_of(index: BlockIndex, offset: int) -> Block | None:
    """The block that holds the record of an offset, None where none does."""
    return next((block for block in index.blocks if block.holds(offset)), None)


def _chunk(block: Block) -> dict[str, Any]:
    found = asdict(block)
    if len(block.spans) < 2:
        del found["spans"]
    return found


def _blocks(chunks: list[Any], key: str) -> Iterator[Block]:
    names = [field.name for field in fields(Block) if field.name != "spans"]
    for number, chunk in enumerate(chunks):
        for name in names:
            value = chunk.get(name) if isinstance(chunk, dict) else None
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise _damaged(key, f"block {number} has no whole number {name}")
        block = Block(**{name: chunk[name] for name in names}, spans=_spans(chunk, key, number))
        if block.spans and (block.spans[0][0], sum(n for _, n in block.spans)) != (
            block.first_record_offset,
            block.num_records,
        ):
            raise _damaged(key, f"the spans of block {number} are not its {block.num_records} records")
        yield block


def _spans(chunk: dict[str, Any], key: str, number: int) -> tuple[Span, ...]:
    try:
        spans = spans_of(chunk.get("spans", ()))
    except (TypeError, ValueError):
        spans = ((0, 0),)
    numbers = [n for span in spans for n in span]
    if not all(isinstance(n, int) and n >= 0 for n in numbers) or any(count == 0 for _, count in spans):
        raise _damaged(key, f"block {number} has spans that are not pairs of an offset and a count")
    if any(later[0] <= sum(before) for before, later in pairwise(spans)):
        raise _damaged(key, f"the spans of block {number} do not ascend")
    return spans


def _damaged(key: str, why: str) -> IndexDamaged:
    return IndexDamaged(
        f"The index {key} is damaged: {why}. The data object beside it is plain gzip and can be read without its index."
    )


def position_in_bucket(store: ObjectStore, names: BlockNames, topic_partition: TopicPartition) -> int | None:
    """The offset after the last record that the bucket holds by its pointer, None without a pointer (SEMANTICS B5).

    The original asks the bucket at every start. Here the commit log knows, once there is one; the pointer is asked when a topic-partition
    is taken over, so that an existing bucket is continued without a gap and without an overlap.

    Raises IndexDamaged where the pointer names an object that is missing or damaged.
    """
    pointer = names.pointer_key(topic_partition)
    try:
        key = store.get(pointer).decode("utf-8", "replace").strip()
    except ObjectMissing:
        return None
    try:
        return resume_offset(parse_index(store.get(key), key))
    except ObjectMissing:
        raise IndexDamaged(
            f"The pointer {pointer} names {key!r}, which is missing. Restore the index, or correct or delete the pointer."
        ) from None


def end_by_index(store: ObjectStore, key: str) -> int | None:
    """Return the offset after the last record of a data object, by its index, None if that is missing or damaged."""
    index = index_key_of(key)
    try:
        return resume_offset(parse_index(store.get(index), index))
    except (ObjectMissing, IndexDamaged):
        return None
