"""How do several objects become one, and how is it proven that none of their records is lost?

Text, separated bytes and gzip members are put behind one another as they are. Avro's blocks are taken over packed, with the marker of the
first file, where schema and codec are the same. Parquet's row groups are read and written again with the first file's schema and codec,
sorted where that is asked for.

`digest_rows` is the proof: the number of records, and a sum over a hash of each, so that their order does not matter. For Avro a block
takes the place of a record, since its bytes are taken over. The sums of the originals are the sum of what was made of them, or it is not
used.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_s3.connect.records.loops import sum_rows
from kafka_s3.connect.schemas.avro_values import long_bytes
from kafka_s3.model.errors import SinkError
from kafka_s3.objects.readers import (
    DAMAGE,
    ROWS,
    SYNC,
    AvroContainer,
    parquet_batches,
    parquet_rows,
    sliced,
    unpacked,
)

MERGED: Final = frozenset({"json", "bytearray", "avro", "parquet"})
"""The formats whose objects can be merged."""
GROUP_ROWS, GROUP_BYTES = 128 * ROWS, 32 << 20
"""A row group of Parquet is full with so many rows, or so many bytes in memory."""
SORTED_BYTES: Final = 24 << 20
"""So large, unpacked, may all rows of an object be that are sorted."""
_LOW: Final = (1 << 64) - 1


class MergeRefused(SinkError):
    """Objects do not go together, or cannot be read; they stay as they are."""


class KindsDiffer(MergeRefused):
    """The object of number `at`, from 0, has another schema or codec than the first, and those between have the first's."""

    def __init__(self, at: int) -> None:
        super().__init__("Their schemas or codecs differ.")
        self.at = at


@dataclass(frozen=True, slots=True)
class RowDigest:
    """How many records there are, and the sums of two hashes of 64 bits of each, the second above the first."""

    records: int = 0
    total: int = 0

    def plus(self, more: RowDigest) -> RowDigest:
        """Of the records of both."""
        return RowDigest(self.records + more.records, _sum(self.total, more.total))

    def __str__(self) -> str:
        return f"{self.total:032x}"


def _sum(one: int, other: int) -> int:
    return (one + other) & _LOW | ((one >> 64) + (other >> 64) & _LOW) << 64


def digest_rows(form: str, content: bytes, *, separator: bytes) -> RowDigest:
    """The digest of an object's records; `separator` is that of separated bytes. Raises MergeRefused where it is not what it should be."""
    try:
        match form:
            case "avro":
                return _sum_of_parts(AvroContainer(sliced(content)).blocks())
            case "parquet":
                return _sum_of_parts(
                    (1, repr(row).encode("utf-8", "surrogatepass")) for row in parquet_rows(io.BytesIO(content))
                )
        return _sum_of_text(content, b"\n" if form == "json" else separator)
    except DAMAGE as error:
        raise MergeRefused(f"It cannot be read as {form} ({type(error).__name__}: {error}).") from error


def merge_objects(form: str, contents: Sequence[bytes], *, sorted_by: Sequence[str] = ()) -> bytes:
    """One object with the records of all, in their order; those of Parquet by these columns, where there are some.

    Raises MergeRefused where their schemas or codecs differ.
    """
    try:
        match form:
            case "avro":
                return _merged_avro(contents)
            case "parquet":
                return _sorted_parquet(contents, sorted_by) if sorted_by else parquet_of(contents)
        return b"".join(contents)
    except DAMAGE as error:
        raise MergeRefused(f"They cannot be merged as {form} ({type(error).__name__}: {error}).") from error


def _sum_of_parts(parts: Iterator[tuple[int, bytes]]) -> RowDigest:
    records = total = 0
    for count, part in parts:
        digest = blake2b(part, digest_size=16, salt=count.to_bytes(8, "little"))
        records, total = records + count, _sum(total, int.from_bytes(digest.digest(), "little"))
    return RowDigest(records, total)


def _sum_of_text(content: bytes, separator: bytes) -> RowDigest:
    """Rows end with a separator; of one that is longer than a byte they are separated one by one."""
    if not separator:
        raise ValueError("without a separator records cannot be separated")
    pieces = unpacked(sliced(content))
    if len(separator) > 1:
        *rows, rest = b"".join(pieces).split(separator)
        found = _sum_of_parts((1, row) for row in rows)
    else:
        sums, rest = np.zeros(3, np.uint64), b""
        for piece in pieces:
            held = np.frombuffer(b"".join((rest, piece, bytes(8))), np.uint8)
            begin = held.ctypes.data
            behind = sum_rows(begin, begin + len(held) - 8, separator[0], sums) - begin
            rest = held[behind : len(held) - 8].tobytes()
        found = RowDigest(int(sums[0]), int(sums[1]) | int(sums[2]) << 64)
    if rest:
        raise ValueError("the last record has no end")
    return found


def _merged_avro(contents: Sequence[bytes]) -> bytes:
    first = AvroContainer(sliced(contents[0]))
    found = [contents[0][: contents[0].index(first.sync) + SYNC]]
    for number, content in enumerate(contents):
        container = AvroContainer(sliced(content))
        if (container.schema, container.codec) != (first.schema, first.codec):
            raise KindsDiffer(number)
        for count, block in container.blocks():
            found += [long_bytes(count), long_bytes(len(block)), block, first.sync]
    return b"".join(found)


Kept: TypeAlias = Callable[[int, int], npt.NDArray[np.bool_]]
"""Which of so many rows from a number on stay."""


def parquet_of(contents: Sequence[bytes], kept: Kept | None = None) -> bytes:
    """One Parquet file with the rows of all, or with those that stay, in row groups of a size that readers like.

    Raises MergeRefused, also where a writer would spell the schema otherwise than the originals do.
    """
    metadata = [pq.read_metadata(io.BytesIO(content)) for content in contents]
    for number, one in enumerate(metadata):
        if not one.schema.equals(metadata[0].schema):
            raise KindsDiffer(number)
    return _like_the_first(metadata[0], lambda: _row_groups(contents, kept))


def columns_to_sort(content: bytes, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that are columns of a Parquet object, with dots for members. Raises MergeRefused for one without an order."""
    schema, found = pq.read_schema(io.BytesIO(content)), list[str]()
    for name in names:
        kind: pa.DataType = pa.struct(list(schema))
        for part in name.split("."):
            at = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
            if at < 0:
                break
            kind = kind.field(at).type
        else:
            if pa.types.is_nested(kind):
                raise MergeRefused(f"Its column {name} is of type {kind}, which has no order.")
            found.append(name)
    return tuple(found)


def _sorted_parquet(contents: Sequence[bytes], columns: Sequence[str]) -> bytes:
    """As `parquet_of`, the rows sorted by columns, nulls last; equal ones keep their order. All are in memory together."""
    metadata, size = [pq.read_metadata(io.BytesIO(content)) for content in contents], 0
    for number, one in enumerate(metadata):
        size += sum(one.row_group(group).total_byte_size for group in range(one.num_row_groups))
        if not one.schema.equals(metadata[0].schema) or (size > SORTED_BYTES and number):
            raise KindsDiffer(number)
    ordered = _ordered(contents, columns)
    return _like_the_first(
        metadata[0], lambda: (ordered.slice(at, GROUP_ROWS) for at in range(0, len(ordered), GROUP_ROWS))
    )


def _ordered(contents: Sequence[bytes], columns: Sequence[str]) -> pa.Table:
    table = pa.Table.from_batches(
        [one for content in contents for one in parquet_batches(io.BytesIO(content), 64 * ROWS)]
    )
    keys = pa.table({name: _column(table, name) for name in columns})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in columns]))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    first, *members = name.split(".")
    return pc.struct_field(table[first], members) if members else table[first]


def _like_the_first(like: pq.FileMetaData, groups: Callable[[], Iterable[pa.Table]]) -> bytes:
    for compliant in (True, False):  # what an element of a list is called
        merged = _written_parquet(groups(), like, compliant=compliant)
        if pq.read_metadata(io.BytesIO(merged)).schema.equals(like.schema):
            return merged
    raise MergeRefused("Their schema cannot be written as it is.")


def _written_parquet(groups: Iterable[pa.Table], like: pq.FileMetaData, *, compliant: bool) -> bytes:
    codec = like.row_group(0).column(0).compression if like.num_row_groups else "SNAPPY"
    out = io.BytesIO()
    with pq.ParquetWriter(
        out,
        like.schema.to_arrow_schema(),
        compression="NONE" if codec == "UNCOMPRESSED" else codec,
        store_schema=False,
        use_compliant_nested_type=compliant,
        write_time_adjusted_to_utc=True,
    ) as writer:
        writer.add_key_value_metadata(like.metadata or {})
        for group in groups:
            writer.write_table(group)
    return out.getvalue()


def _row_groups(contents: Sequence[bytes], kept: Kept | None) -> Iterator[pa.Table]:
    held, row = list[pa.RecordBatch](), 0
    for content in contents:
        for batch in parquet_batches(io.BytesIO(content), 64 * ROWS):
            held.append(batch if kept is None else batch.filter(pa.array(kept(row, len(batch)))))
            row += len(batch)
            if sum(one.nbytes for one in held) >= GROUP_BYTES or sum(map(len, held)) >= GROUP_ROWS:
                yield pa.Table.from_batches(held)
                held = []
    if held:
        yield pa.Table.from_batches(held)
