"""How do some rows leave an object, and how is it proven that no other does? By their numbers, from 0.

Text and separated bytes are written again without the rows, packed as before. Of an Avro file only blocks that hold such rows are unpacked;
the others are taken over as they are. Parquet's row groups are read and written again. `read_rows` gives each row as its reader has it, and
a hash of it: the hashes of an object are those of the rows that stay, or it is not used.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.avro_values import Datum, long_bytes
from kafka_s3.connect.schemas.expansion import Allowance
from kafka_s3.model.dead_letters import LetterLines, iterate_letters, without_content
from kafka_s3.model.deflate import GZIP_MAGIC, packed
from kafka_s3.model.offsets import OffsetSet
from kafka_s3.objects.avro_container import CODECS
from kafka_s3.objects.merging import MergeRefused, parquet_of
from kafka_s3.objects.readers import (
    DAMAGE,
    SYNC,
    AvroContainer,
    avro_reader,
    avro_rows,
    parquet_rows,
    separated,
    sliced,
    unpacked,
)


def read_rows(form: str, content: bytes, *, separator: bytes) -> Iterator[tuple[Any, bytes]]:
    """Each row, a JSON document or bytes, and its hash. Raises MergeRefused where the object is not what it should be."""
    try:
        for row in _rows(form, content, separator):
            text = row if isinstance(row, bytes) else repr(row).encode("utf-8", "surrogatepass")
            yield (parse_all_members(row) if form == "json" else row), blake2b(text, digest_size=16).digest()
    except DAMAGE as error:
        raise MergeRefused(f"It cannot be read as {form} ({type(error).__name__}: {error}).") from error


def parse_all_members(text: bytes | str) -> Any:
    """Return a JSON document with numbers as they are spelt; a member that occurs several times is a list of its values."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: every if len(every) > 1 else every[0] for name, every in values.items()}


def _rows(form: str, content: bytes, separator: bytes) -> Iterator[Any]:
    match form:
        case "avro":
            return avro_rows(sliced(content))
        case "parquet":
            return parquet_rows(io.BytesIO(content))
    return separated(unpacked(sliced(content)), b"\n" if form == "json" else separator)


def drop_rows(form: str, content: bytes, rows: OffsetSet, *, separator: bytes) -> bytes:
    """The object without some of its rows, not proven yet. Raises MergeRefused where it cannot be written so."""
    try:
        match form:
            case "avro":
                return _without_avro(content, rows)
            case "parquet":
                return parquet_of([content], partial(_kept, rows))
        return _without_text(content, rows, b"\n" if form == "json" else separator)
    except DAMAGE as error:
        raise MergeRefused(f"It cannot be written again as {form} ({type(error).__name__}: {error}).") from error


def check_rows(form: str, content: bytes, *, wanted: Sequence[bytes], separator: bytes) -> None:
    """Raises MergeRefused where an object holds others than these rows, in their order, by their hashes."""
    if [found for _, found in read_rows(form, content, separator=separator)] != list(wanted):
        raise MergeRefused("Without the rows that are to be erased it does not hold the others as they were.")


def _kept(rows: OffsetSet, first: int, count: int) -> np.ndarray:
    """Which of `count` rows from number `first` on stay."""
    return ~rows.mask(np.arange(first, first + count))


def _without_text(content: bytes, rows: OffsetSet, separator: bytes) -> bytes:
    every = list(separated(unpacked(sliced(content)), separator))
    stay = _kept(rows, 0, len(every))
    text = b"".join(row + separator for row, stays in zip(every, stay, strict=True) if stays)
    return packed(text) if content.startswith(GZIP_MAGIC) else text


def _without_avro(content: bytes, rows: OffsetSet) -> bytes:
    container = AvroContainer(sliced(content))
    found, number = [content[: content.index(container.sync) + SYNC]], 0
    for count, block in container.blocks():
        stay = _kept(rows, number, count)
        number += count
        if not stay.all():
            bodies = [body for body, stays in zip(_bodies(container, block, count), stay, strict=True) if stays]
            count, block = len(bodies), bytes(CODECS[container.codec](b"".join(bodies)))
        if count:
            found += [long_bytes(count), long_bytes(len(block)), block, container.sync]
    return b"".join(found)


def _bodies(container: AvroContainer, block: bytes, count: int) -> Iterator[bytes]:
    """The bytes of each record of a block."""
    schema = connect_schema_of_avro(parse_avro(container.schema), options=AvroOptions())
    unpack, read = avro_reader(container, schema)
    raw, at = Datum(unpack(block)), 0
    for _ in range(count):
        raw.allowance = Allowance(len(raw))
        _, end = read(raw, at)
        yield bytes(raw[at:end])
        at = end


def redacted_letters(content: bytes, rows: OffsetSet) -> bytes:
    """A dead letter file in which some letters say no more than where and why. Raises MergeRefused."""
    try:
        lines, found = LetterLines(), list[bytes]()
        for row, letter in enumerate(iterate_letters(content)):
            found.append(lines.line(without_content(letter) if row in rows else letter))
        return b"".join([*found, lines.end()])
    except DAMAGE as error:
        raise MergeRefused(f"It cannot be read as dead letters ({type(error).__name__}: {error}).") from error
