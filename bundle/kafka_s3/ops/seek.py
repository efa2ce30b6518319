"""Where is the record of an offset, and how is it read without the rest of its object? (SEMANTICS B6).

1. The file: the one of the largest start offset that is not after the wanted one, over all days; the newest of several.
2. Its index; there the block whose offsets hold the wanted one.
3. A range request for that block, and nothing but that block.
4. Inflate, and drop the records before the wanted one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from kafka_s3.connect.naming.keys import ObjectKey, index_key_of, read_block_key
from kafka_s3.model.deflate import GZIP
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Block, BlockIndex, Framing, Lines, Prefixed, block_of, parse_index
from kafka_s3.objects.readers import prefixed
from kafka_s3.store.store import ObjectStore

FILES_TRIED: Final = 3
"""How many files are asked for an offset, the latest start first: after a crash two uploads may overlap (SEMANTICS B5)."""


class SeekError(SinkError):
    """The record of an offset cannot be found or read."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where a record is: the data object, its index, and the block in it (`number` from 0)."""

    data_key: str
    index_key: str
    index: BlockIndex
    number: int

    @property
    def block(self) -> Block:
        """The block that holds the record."""
        return self.index.blocks[self.number]


@dataclass(frozen=True, slots=True)
class _File:
    key: str
    start: ObjectKey


def locate(store: ObjectStore, prefix: str, *, topic_partition: TopicPartition, offset: int) -> Located:
    """The file, index and block of an offset. Raises SeekError, which says what there is instead, and IndexDamaged."""
    return _located(store, _files(store, prefix, topic_partition), topic_partition=topic_partition, offset=offset)


def records_from(
    store: ObjectStore,
    prefix: str,
    *,
    topic_partition: TopicPartition,
    offset: int,
    framing: Framing,
    count: int | None = 1,
    notify: Callable[[Located], None] = lambda _: None,
) -> Iterator[tuple[int, bytes]]:
    """The records from an offset on, `count` of them or (None) all there are, with their offsets.

    Reads block by block, file by file, each with one range request; `notify` is called with each block before it is fetched. Past a gap
    between files it goes on with the next file. Raises SeekError where the first record cannot be found, or where a block does not
    hold as many records as its index says.
    """
    files = _files(store, prefix, topic_partition)
    first = _located(store, files, topic_partition=topic_partition, offset=offset)
    blocks = _blocks_from(store, files, first)
    return islice(_records(store, blocks, framing=framing, offset=offset, notify=notify), count)


def split_records(framing: Framing, content: bytes) -> list[bytes]:
    """The records of an inflated block, without delimiters or lengths; a key stays in front of its value only under `Delimited`.

    Raises SeekError where the block does not end with a whole record.
    """
    if isinstance(framing, Prefixed):
        try:
            parts = list(prefixed([content]))
        except ValueError:
            raise SeekError("A block ends within a record. Give the format that the sink writes.") from None
        return parts[1::2] if framing.include_keys else parts
    delimiter = b"\n" if isinstance(framing, Lines) else framing.value_delimiter
    if not delimiter:
        raise SeekError("Records without a delimiter between them cannot be separated. Read the object as a whole.")
    if not content:
        return []
    if not content.endswith(delimiter):
        raise SeekError(f"A block does not end with the delimiter {delimiter!r}. Give the format that the sink writes.")
    return content[: -len(delimiter)].split(delimiter)


def _files(store: ObjectStore, prefix: str, topic_partition: TopicPartition) -> list[_File]:
    """The partition's data objects, by start offset and then by day."""
    found = [
        _File(info.key, start)
        for info in store.list(prefix)
        if (start := read_block_key(info.key, prefix)) and start.topic_partition == topic_partition
    ]
    if not found:
        raise SeekError(
            f"There are no Block-GZIP files of topic {topic_partition.topic}, partition {topic_partition.partition} below "
            f"{prefix!r}. Check the names, and the prefix: it is what comes before the directory of the date or the topic."
        )
    return sorted(found, key=lambda file: (file.start.offset, file.start.encoded_partition))


def _located(store: ObjectStore, files: Sequence[_File], *, topic_partition: TopicPartition, offset: int) -> Located:
    found = _found(store, files, offset)
    if found is None:
        raise SeekError(_absence(store, files, topic_partition, offset=offset))
    return found


def _found(store: ObjectStore, files: Sequence[_File], offset: int) -> Located | None:
    """The block of an offset, None where no file has it. Raises SeekError where the file that should have it has no index."""
    missing = None
    candidates = [file for file in files if file.start.offset <= offset][-FILES_TRIED:]
    for file in reversed(candidates):
        try:
            found = _in_file(store, file, offset)
        except SeekError as error:
            missing = error if file is candidates[-1] else missing
            continue
        if found:
            return found
    if missing:
        raise missing
    return None


def _absence(store: ObjectStore, files: Sequence[_File], topic_partition: TopicPartition, *, offset: int) -> str:
    before = [file for file in files if file.start.offset <= offset]
    after = [file.start.offset for file in files if file.start.offset > offset]
    what = f"Offset {offset} of {topic_partition} lies"
    if not before:
        return f"{what} before the first file, which begins at {min(after)}."
    index_key = index_key_of(before[-1].key)
    if offset < parse_index(store.get(index_key), index_key).blocks[-1].until:
        return f"{what} in a gap within {before[-1].key}: Kafka had no record of that offset when it was written."
    if not after:
        return f"{what} after the end of the last file, {before[-1].key}: it is not written yet."
    return f"{what} in a gap: {before[-1].key} ends before it, and the next file begins at {min(after)}."


def _in_file(store: ObjectStore, file: _File, offset: int) -> Located | None:
    index_key = index_key_of(file.key)
    try:
        index = parse_index(store.get(index_key), index_key)
    except ObjectMissing:
        raise SeekError(
            f"The file {file.key} has no index: {index_key} is missing. Read the file as a whole; it is plain gzip."
        ) from None
    block = block_of(index, offset)
    return Located(file.key, index_key, index, index.blocks.index(block)) if block else None


def _blocks_from(store: ObjectStore, files: Sequence[_File], first: Located) -> Iterator[Located]:
    here: Located | None = first
    while here is not None:
        last = here
        for number in range(here.number, len(here.index.blocks)):
            last = replace(here, number=number)
            if last.block.num_records:
                yield last
        here = _next(store, files, last.index.blocks[-1].until)


def _next(store: ObjectStore, files: Sequence[_File], offset: int) -> Located | None:
    """The block of an offset, else the first one after it; None at the end."""
    found = _found(store, files, offset)
    later = [file.start.offset for file in files if file.start.offset > offset]
    return found or (_next(store, files, min(later)) if later else None)


def _records(
    store: ObjectStore,
    blocks: Iterator[Located],
    *,
    framing: Framing,
    offset: int,
    notify: Callable[[Located], None],
) -> Iterator[tuple[int, bytes]]:
    for located in blocks:
        notify(located)
        block = located.block
        content = _inflated(located, _fetched(store, located))
        try:
            found = split_records(framing, content)
        except SeekError as error:
            raise SeekError(f"{_name(located)}: {error}") from None
        if len(found) != block.num_records:
            raise SeekError(
                f"{_name(located)}: holds {len(found)} records in this format, but {block.num_records} by its index. Give the format "
                "and delimiter that the sink writes; values that hold the delimiter themselves cannot be separated."
            )
        pairs = zip(block.offsets(), found, strict=True)
        yield from ((at, record) for at, record in pairs if at >= offset)  # files may overlap: none is given twice
        offset = max(offset, block.until)


def _fetched(store: ObjectStore, located: Located) -> bytes:
    block = located.block
    content = store.get_range(located.data_key, block.byte_offset, block.byte_offset + block.byte_length - 1)
    if len(content) != block.byte_length:
        raise SeekError(
            f"{_name(located)}: {len(content)} bytes were found instead of {block.byte_length}; data and index do not match."
        )
    return content


def _inflated(located: Located, content: bytes) -> bytes:
    inflater = zlib.decompressobj(GZIP)
    try:
        inflated = inflater.decompress(content)
    except zlib.error as error:
        raise SeekError(f"{_name(located)}: is not a gzip member ({error}); data and index do not match.") from None
    if not inflater.eof or inflater.unused_data:
        raise SeekError(f"{_name(located)}: is not one whole gzip member; data and index do not match.")
    return inflated


def _name(located: Located) -> str:
    return f"Block {located.number + 1} of {len(located.index.blocks)} of {located.data_key}"
