"""How is an object read back? One reader of each format, for whoever restores, verifies or takes over; none uses what writes objects.

Rows are bytes as they lie in the object (JSON lines, separated bytes, Block-GZIP), or Python values (Avro, Parquet). Content comes in
pieces of a few MiB, fetched or at hand (`sliced`), so that an object of any size needs little memory.
"""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.schemas.arrow import python_rows
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions, read_types
from kafka_s3.connect.schemas.avro_values import Datum, Reader, read_anything, read_long, reader_of
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.expansion import Allowance
from kafka_s3.connect.schemas.json_form import to_json
from kafka_s3.model.deflate import GZIP, GZIP_MAGIC
from kafka_s3.model.errors import SinkError, StorageError, StorageUnavailable
from kafka_s3.objects.block_gzip_form import Framing, Lines, Prefixed
from kafka_s3.store.store import ObjectStore

PIECE: Final = 4 << 20
"""Bytes that are fetched, or unpacked, at a time."""
ROWS: Final = 1024
AVRO_MAGIC: Final = b"Obj\x01"
SYNC: Final = 16
LARGEST_COUNTED: Final = 256 << 20
PARQUET_TAIL: Final = 8
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
        match part.format:
            case "parquet":
                yield from parquet_rows(ranged_file(store, part))
            case "avro":
                yield from avro_rows(pieces_of(store, part))
            case _:
                yield from byte_rows(
                    pieces_of(store, part), part.key, part.format, separator=separator, framing=framing
                )
    except (*DAMAGE, SchemaError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ObjectUnreadable(
            f"{part.key} cannot be read as {part.format} ({reason}). kafka-s3 verify says what is wrong."
        ) from error


def byte_rows(pieces: Iterator[bytes], key: str, form: str, *, separator: bytes, framing: Framing) -> Iterator[Any]:
    """The rows of an object whose format has bytes for rows, or pairs of key and value. Raises DAMAGE; ObjectUnreadable for own formats."""
    match form:
        case "json":
            return separated(unpacked(pieces), b"\n")
        case "bytearray":
            return separated(unpacked(pieces) if key.endswith(".gz") else pieces, separator)
        case "block_gzip":
            return framed(inflated(pieces), framing)
    raise ObjectUnreadable(
        f"{key} has the format {form}, which only its own reader knows. Leave it out with --from and --to."
    )


def record_count(store: ObjectStore, key: str, *, size: int, form: str) -> int | None:
    """The records of an object of the format `json`, `parquet`, `avro` or `lines`, without decoding them.

    None for other formats, damaged and very large objects. JSON has a line per record, the last one perhaps without an end; Parquet says
    it in its footer, Avro at the head of every block. Raises StorageUnavailable.
    """
    if form not in ("json", "lines", "parquet", "avro") or (form != "parquet" and size > LARGEST_COUNTED):
        return None
    try:
        if form == "parquet":
            footer = parquet_footer(store, key, size)
            return None if footer is None else int(footer.num_rows)
        pieces = sliced(store.get(key))
        return avro_count(pieces) if form == "avro" else _line_count(pieces, packed=key.endswith(".gz"))
    except StorageUnavailable:
        raise
    except (StorageError, *DAMAGE):
        return None


def sliced(content: bytes) -> Iterator[bytes]:
    """Content that is at hand, in pieces."""
    return (content[at : at + PIECE] for at in range(0, len(content), PIECE))


def pieces_of(store: ObjectStore, part: StoredObject) -> Iterator[bytes]:
    """The content of an object, fetched piece by piece. Raises ObjectMissing, ObjectArchived, StorageError."""
    for at in range(0, part.size, PIECE):
        yield store.get_range(part.key, at, min(at + PIECE, part.size) - 1)


# ------------------------------------------------------------ text and bytes


def unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of gzip members; what is not packed comes as it is."""
    first = next(pieces, b"")
    whole = chain((first,), pieces)
    return inflated(whole) if first.startswith(GZIP_MAGIC) else whole


def inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of gzip members behind one another, in pieces. Raises EOFError, zlib.error."""
    member, begun = zlib.decompressobj(GZIP), False
    for piece in pieces:
        while piece:
            begun = True
            yield member.decompress(piece, PIECE)
            piece = member.unconsumed_tail
            if member.eof:
                piece, member, begun = member.unused_data, zlib.decompressobj(GZIP), False
    if begun:
        raise EOFError("the last gzip member has no end")


def separated(pieces: Iterable[bytes], separator: bytes) -> Iterator[bytes]:
    """What is before each separator. Raises ValueError where the end has none, or without a separator."""
    if not separator:
        raise ValueError("without a separator records cannot be separated")
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(separator) if rest else piece.split(separator)
        yield from whole
    if rest:
        raise ValueError("the last record has no end")


def framed(pieces: Iterable[bytes], framing: Framing) -> Iterator[bytes | tuple[bytes, bytes]]:
    """The records of a Block-GZIP object: values, or pairs of key and value where keys are written."""
    if isinstance(framing, Prefixed):
        yield from _pairs(prefixed(pieces)) if framing.include_keys else prefixed(pieces)
        return
    key_delimiter = None if isinstance(framing, Lines) else framing.key_delimiter
    for row in separated(pieces, b"\n" if isinstance(framing, Lines) else framing.value_delimiter):
        if key_delimiter:
            key, _, value = row.partition(key_delimiter)
            yield key, value
        else:
            yield row


def prefixed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What is behind each length of 4 bytes, big-endian. Raises ValueError where the last one is cut off."""
    rest = b""
    for piece in pieces:
        rest, at = rest + piece, 0
        while len(rest) >= at + 4 and len(rest) >= (end := at + 4 + int.from_bytes(rest[at : at + 4], "big")):
            yield rest[at + 4 : end]
            at = end
        rest = rest[at:]
    if rest:
        raise ValueError("the last value is cut off")


def _pairs(parts: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for key in parts:
        value = next(parts, None)
        if value is None:
            raise ValueError("the last key has no value")
        yield key, value


def _line_count(pieces: Iterator[bytes], *, packed: bool) -> int:
    lines, last = 0, b"\n"
    for text in filter(None, inflated(pieces) if packed else pieces):
        lines, last = lines + text.count(b"\n"), text[-1:]
    return lines + (last != b"\n")


# ------------------------------------------------------------ Parquet


def parquet_batches(source: Any, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, so many of a row group at a time; pages are checked where they have a checksum."""
    with pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True) as file:
        yield from file.iter_batches(rows)


def ranged_file(store: ObjectStore, part: StoredObject) -> Any:
    """An object as a file of Arrow's: what is read of it is fetched."""
    return pa.PythonFile(_RangedFile(store, part), mode="r")


def parquet_rows(source: Any) -> Iterator[Any]:
    """The rows of a Parquet file as Python values; column pages are read as they are needed."""
    for batch in parquet_batches(source, ROWS):
        yield from python_rows(pa.Table.from_batches([batch]))


def parquet_footer(store: ObjectStore, key: str, size: int) -> pq.FileMetaData | None:
    """What the end of a Parquet object of `size` bytes says; None where it is no such end. Raises DAMAGE, StorageError."""
    if size < 2 * PARQUET_TAIL:
        return None
    tail = store.get_range(key, size - PARQUET_TAIL, size - 1)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length + PARQUET_TAIL > size:
        return None
    footer = store.get_range(key, size - PARQUET_TAIL - length, size - PARQUET_TAIL - 1)
    return pq.read_metadata(io.BytesIO(b"PAR1" + footer + tail))  # a file of no data pages


class _RangedFile(io.RawIOBase):
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


# ------------------------------------------------------------ Avro


class AvroContainer:
    """An Avro object file: its schema, its codec, its sync marker, and its blocks."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._stream = _Stream(pieces)
        if self._stream.take(4) != AVRO_MAGIC:
            raise ValueError("it does not begin as an Avro object file")
        metadata = dict(self._metadata())
        self.schema = metadata.get(b"avro.schema", b"").decode()
        self.codec = metadata.get(b"avro.codec", b"null").decode()
        self.sync = self._stream.take(SYNC)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records of each block, and its packed bytes. Raises EOFError, ValueError where one does not follow another."""
        stream = self._stream
        while not stream.ended():
            count, block = stream.long(), stream.take(stream.long())
            if count < 0 or stream.take(SYNC) != self.sync:
                raise ValueError("a block has no sync marker")
            yield count, block

    def _metadata(self) -> Iterator[tuple[bytes, bytes]]:
        stream = self._stream
        while (entries := stream.long()) != 0:
            if entries < 0:
                stream.long()  # the bytes of this part of the map
            for _ in range(abs(entries)):
                yield stream.take(stream.long()), stream.take(stream.long())


def avro_count(pieces: Iterator[bytes]) -> int:
    """The records of an Avro object file by the heads of its blocks. Raises EOFError, ValueError."""
    return sum(count for count, _ in AvroContainer(pieces).blocks())


def avro_rows(pieces: Iterator[bytes]) -> Iterator[Any]:
    """Values of an Avro object file in their JSON form, a block at a time; texts and bytes at the top stay what they are."""
    container = AvroContainer(pieces)
    schema = connect_schema_of_avro(parse_avro(container.schema), options=AvroOptions())
    for value in avro_values(container, schema):
        yield value if schema is None or isinstance(value, str | bytes) else to_json(value, schema)


def avro_values(container: AvroContainer, schema: ConnectSchema | None) -> Iterator[Any]:
    """The values of an Avro object file, a block at a time, as its Connect schema has them (None: as Avro has them)."""
    unpack, read = avro_reader(container, schema)
    for count, packed in container.blocks():
        block, at = Datum(unpack(packed)), 0
        for _ in range(count):
            block.allowance = Allowance(len(block))
            value, at = read(block, at)
            yield value


def avro_reader(container: AvroContainer, schema: ConnectSchema | None) -> tuple[Callable[[bytes], bytes], Reader]:
    """What unpacks a block of a file, and what reads a value of it."""
    avro = parse_avro(container.schema)
    return _codec(container.codec), read_anything if schema is None else reader_of(read_types(avro), schema)


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
        if size < 0:
            raise ValueError("a length in it is negative")
        while len(self._held) - self._at < size:
            self._held, self._at = self._held[self._at :] + self._next(), 0
        self._at += size
        return self._held[self._at - size : self._at]

    def long(self) -> int:
        text = bytearray(self.take(1))
        while text[-1] >= 0x80:
            text += self.take(1)
            if len(text) > 10:
                raise ValueError("a number in it is too long")
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
