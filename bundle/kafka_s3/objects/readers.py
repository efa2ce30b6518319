"""How are the rows of an object read with little memory? In pieces of a few MiB, each format as it comes to be whole.

Rows are bytes as they stand in the object (JSON lines, separated bytes, Block-GZIP), or Python values (Avro, Parquet).
"""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.schemas.arrow import python_rows
from kafka_s3.connect.schemas.avro_anything import read_anything
from kafka_s3.connect.schemas.avro_binary import Datum, Reader, read_long
from kafka_s3.connect.schemas.avro_in import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_readers import reader_of
from kafka_s3.connect.schemas.avro_types import AvroOptions, read_types
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.expansion import Allowance
from kafka_s3.connect.schemas.json_form import to_json
from kafka_s3.model.deflate import GZIP, GZIP_MAGIC
from kafka_s3.model.errors import SinkError
from kafka_s3.objects.block_gzip_form import Framing, Lines, Prefixed
from kafka_s3.store.store import ObjectStore

PIECE: Final = 4 << 20
"""Bytes that are fetched, or unpacked, at a time."""
ROWS: Final = 1024
SYNC: Final = 16
DAMAGE: Final = (
    ValueError, EOFError, OSError, zlib.error, IndexError, KeyError, TypeError, RecursionError, pa.ArrowException,
)  # fmt: skip
"""What readers raise of bytes that are not what their format says."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a file: its key, size in bytes and format."""

    key: str
    size: int
    format: str


class ObjectUnreadable(SinkError):
    """An object is not what its format says, or does not hold what the log counts."""


def rows_of(store: ObjectStore, part: StoredObject, *, separator: bytes, framing: Framing) -> Iterator[Any]:
    """The rows of an object. Raises ObjectUnreadable, ObjectMissing, ObjectArchived, StorageError."""
    try:
        yield from _rows(store, part, separator=separator, framing=framing)
    except (*DAMAGE, SchemaError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ObjectUnreadable(
            f"{part.key} cannot be read as {part.format} ({reason}). kafka-s3 verify says what is wrong."
        ) from error


def _rows(store: ObjectStore, part: StoredObject, *, separator: bytes, framing: Framing) -> Iterator[Any]:
    match part.format:
        case "parquet":
            return parquet_rows(store, part)
        case "avro":
            return avro_rows(_pieces(store, part))
        case "json":
            return separated(unpacked(_pieces(store, part)), b"\n")
        case "bytearray":
            pieces = _pieces(store, part)
            return separated(unpacked(pieces) if part.key.endswith(".gz") else pieces, separator)
        case "block_gzip":
            return framed(unpacked(_pieces(store, part)), framing)
    raise ObjectUnreadable(
        f"{part.key} has the format {part.format}, which only its own reader knows. Leave it out with --from and --to."
    )


def _pieces(store: ObjectStore, part: StoredObject) -> Iterator[bytes]:
    for at in range(0, part.size, PIECE):
        yield store.get_range(part.key, at, min(at + PIECE, part.size) - 1)


def unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of gzip members behind one another, in pieces; what is not packed comes as it is."""
    member, begun = zlib.decompressobj(GZIP), False
    for piece in pieces:
        if not begun and not piece.startswith(GZIP_MAGIC):
            yield piece
            yield from pieces
            return
        begun = True
        while piece:
            yield member.decompress(piece, PIECE)
            piece = member.unconsumed_tail
            if member.eof:
                piece, member = member.unused_data, zlib.decompressobj(GZIP)
    if begun and member.flush():
        raise EOFError("the last gzip member has no end")


def separated(pieces: Iterable[bytes], separator: bytes) -> Iterator[bytes]:
    """What stands before each separator. Raises ValueError where the end has none, or without a separator."""
    if not separator:
        raise ValueError("without a separator records cannot be told apart")
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(separator) if rest else piece.split(separator)
        yield from whole
    if rest:
        raise ValueError("the last record has no end")


def framed(pieces: Iterable[bytes], framing: Framing) -> Iterator[bytes | tuple[bytes, bytes]]:
    """The records of a Block-GZIP object: values, or pairs of key and value where keys are written."""
    if isinstance(framing, Prefixed):
        parts = prefixed(pieces)
        if not framing.include_keys:
            yield from parts
            return
        for key in parts:
            yield key, next(parts)
        return
    key_delimiter = None if isinstance(framing, Lines) else framing.key_delimiter
    for row in separated(pieces, b"\n" if isinstance(framing, Lines) else framing.value_delimiter):
        if key_delimiter:
            key, _, value = row.partition(key_delimiter)
            yield key, value
        else:
            yield row


def prefixed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What stands behind each length of 4 bytes, big-endian. Raises ValueError where the last one is cut off."""
    rest = b""
    for piece in pieces:
        rest, at = rest + piece, 0
        while len(rest) >= at + 4 and len(rest) >= (end := at + 4 + int.from_bytes(rest[at : at + 4], "big")):
            yield rest[at + 4 : end]
            at = end
        rest = rest[at:]
    if rest:
        raise ValueError("the last value is cut off")


def parquet_rows(store: ObjectStore, part: StoredObject) -> Iterator[Any]:
    """Rows as Python values, some of a row group at a time; column pages are fetched as they are needed."""
    with pq.ParquetFile(
        pa.PythonFile(RangedFile(store, part), mode="r"), buffer_size=1 << 20, pre_buffer=False
    ) as file:
        for batch in file.iter_batches(ROWS):
            yield from python_rows(pa.Table.from_batches([batch]))


class RangedFile(io.RawIOBase):
    """An object as a file that can be sought in; each read is one range request."""

    def __init__(self, store: ObjectStore, part: StoredObject) -> None:
        super().__init__()
        self._store, self._part, self._at = store, part, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves there."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or all that are left."""
        end = self._part.size if size < 0 else min(self._at + size, self._part.size)
        if end <= self._at:
            return b""
        found = self._store.get_range(self._part.key, self._at, end - 1)
        self._at = end
        return found


def avro_rows(pieces: Iterator[bytes]) -> Iterator[Any]:
    """Values of an Avro object file in their JSON form, a block at a time; texts and bytes at the top stay what they are."""
    stream = _Stream(pieces)
    if stream.take(4) != b"Obj\x01":
        raise ValueError("it does not begin as an Avro object file")
    metadata: dict[bytes, bytes] = {}
    while (entries := stream.long()) != 0:
        if entries < 0:
            stream.long()
        for _ in range(abs(entries)):
            name = stream.take(stream.long())
            metadata[name] = stream.take(stream.long())
    sync, unpack = stream.take(SYNC), _codec(metadata.get(b"avro.codec", b"null").decode())
    avro = parse_avro(metadata[b"avro.schema"].decode())
    schema = connect_schema_of_avro(avro, options=AvroOptions())
    read: Reader = read_anything if schema is None else reader_of(read_types(avro), schema)
    while not stream.ended():
        count, block, at = stream.long(), Datum(unpack(stream.take(stream.long()))), 0
        for _ in range(count):
            block.allowance = Allowance(len(block))
            value, at = read(block, at)
            yield value if schema is None or isinstance(value, str | bytes) else to_json(value, schema)
        if stream.take(SYNC) != sync:
            raise ValueError("a block has no sync marker")


def _codec(name: str) -> Callable[[bytes], bytes]:
    match name:
        case "null":
            return bytes
        case "deflate":
            return lambda block: zlib.decompress(block, -15)
        case "bzip2":
            return bz2.decompress
        case "snappy":  # 4 bytes of checksum behind it; the size is the first number of the block
            return lambda block: pa.decompress(block[:-4], _varint(block), codec="snappy", asbytes=True)
    raise ValueError(f"the codec {name} is not known")


def _varint(block: bytes) -> int:
    value = shift = 0
    for byte in block:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value


class _Stream:
    """Pieces, taken by numbers of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held, self._at = pieces, b"", 0

    def take(self, size: int) -> bytes:
        while len(self._held) - self._at < size:
            self._held, self._at = self._held[self._at :] + self._next(), 0
        self._at += size
        return self._held[self._at - size : self._at]

    def long(self) -> int:
        text = bytearray(self.take(1))
        while text[-1] >= 0x80:
            text += self.take(1)
        return read_long(bytes(text), 0)[0]

    def ended(self) -> bool:
        if self._at < len(self._held):
            return False
        self._held, self._at = next(self._pieces, b""), 0
        return not self._held

    def _next(self) -> bytes:
        piece = next(self._pieces, None)
        if piece is None:
            raise EOFError("it is cut off")
        return piece
