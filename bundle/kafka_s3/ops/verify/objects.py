"""What does an object hold? Readers of its own for every format, so that the writers' code is not its own judge.

They count records, and where values can be compared (`form.Form`) they give a digest of each.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from kafka_s3.model.deflate import GZIP_MAGIC
from kafka_s3.model.files import DataFile, Role
from kafka_s3.objects.readers import DAMAGE
from kafka_s3.ops.verify.digests import Digest, JsonDigests, JsonTexts, digest, parsed, pieces
from kafka_s3.ops.verify.form import Form

AVRO_MAGIC: Final = b"Obj\x01"


class Unreadable(Exception):
    """The object is not what its format says."""


@dataclass(frozen=True, slots=True)
class ObjectCount:
    """`count` records; with `at_least` it may be fewer records, because values may hold the separator. None: cannot be told.

    `digests` are those of the values, None where they are not compared.
    """

    count: int | None
    at_least: bool = False
    digests: Counter[Digest] | None = None


def read_object(file: DataFile, content: bytes, form: Form) -> ObjectCount:
    """What a data object of a claim holds. Raises Unreadable."""
    try:
        return _read(file, content, form)
    except DAMAGE as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Letter:
    """A line of a dead letter file: a record and where it came from; `headers` as batches of Kafka's records have them."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Mapping[str, str | bytes | None], ...] = ()


def read_letter_file(content: bytes) -> list[Letter]:
    """Every line of a dead letter file. Raises Unreadable."""
    try:
        lines = [json.loads(line) for line in gzip.decompress(content).split(b"\n") if line]
        return [_letter(line) for line in lines]
    except DAMAGE as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _read(file: DataFile, content: bytes, form: Form) -> ObjectCount:
    compared = form.expected is not None and file.role is Role.VALUE and file.format == form.format
    if file.role is Role.INDEX:
        return ObjectCount(sum(block["num_records"] for block in json.loads(content)["chunks"]))
    match file.format:
        case "json":
            return _json_lines(_plain(content), form.json if compared else None)
        case "parquet":
            return ObjectCount(parquet_rows(content))
        case "avro":
            return ObjectCount(avro_records(content))
        case "bytearray":
            return _separated(_plain(content) if file.key.endswith(".gz") else content, form.separator, compared)
        case "block_gzip":
            return _block_gzip(gzip.decompress(content), form, compared)
    return ObjectCount(None)


def _letter(line: Mapping[str, Any]) -> Letter:
    headers = tuple({"key": name, "value": _decoded(value)} for name, value in line["headers"])
    place = line["topic"], line["partition"], line["offset"], line["timestamp"]
    return Letter(*place, _decoded(line["key"]), _decoded(line["value"]), headers)


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _plain(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content


def _json_lines(text: bytes, digests: JsonDigests | JsonTexts | None) -> ObjectCount:
    lines = text.split(b"\n")
    if lines.pop():
        raise ValueError("the last line has no end")
    if digests is None:
        return ObjectCount(sum(1 for _ in map(parsed, (line.decode("utf-8", "surrogatepass") for line in lines))))
    return ObjectCount(len(lines), digests=Counter(map(digests.of, lines)))


def _separated(content: bytes, separator: bytes, compared: bool) -> ObjectCount:
    if not separator:
        return ObjectCount(None)
    if not content.endswith(separator):
        raise ValueError("it does not end with the separator")
    found = pieces(content[: -len(separator)], separator)
    return ObjectCount(len(found), at_least=True, digests=Counter(found) if compared else None)


def _block_gzip(content: bytes, form: Form, compared: bool) -> ObjectCount:
    if not form.prefixed:
        return _separated(content, form.delimiter, compared)
    values = list(_prefixed(content))
    if form.keys:
        return ObjectCount(len(values) // 2)
    return ObjectCount(len(values), digests=Counter(map(digest, values)) if compared else None)


def _prefixed(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        if at + 4 + size > len(content):
            raise ValueError("its last value is cut off")
        yield content[at + 4 : at + 4 + size]
        at += 4 + size


def parquet_rows(content: bytes) -> int:
    """Rows as decoded, not as the footer says, so that damaged pages are found."""
    with pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True) as file:
        return sum(int(batch.num_rows) for batch in file.iter_batches())


def avro_records(content: bytes) -> int:
    """Records of an Avro object file by its block headers. Raises ValueError where its blocks do not follow one another."""
    stream = io.BytesIO(content)
    if stream.read(4) != AVRO_MAGIC:
        raise ValueError("it does not begin as an Avro object file")
    while (entries := _long(stream)) != 0:
        if entries < 0:
            _long(stream)
        for _ in range(2 * abs(entries)):
            _exactly(stream, _long(stream))
    sync, records = _exactly(stream, 16), 0
    while stream.tell() < len(content):
        count, size = _long(stream), _long(stream)
        _exactly(stream, size)
        if count < 0 or _exactly(stream, 16) != sync:
            raise ValueError(f"the block that ends at byte {stream.tell()} has no sync marker")
        records += count
    return records


def _long(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = _exactly(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        if shift > 63:
            raise ValueError("a number in it is too long")


def _exactly(stream: io.BytesIO, size: int) -> bytes:
    found = stream.read(size) if size >= 0 else b""
    if size < 0 or len(found) != size:
        raise ValueError(f"it ends or is damaged at byte {stream.tell()}")
    return found
