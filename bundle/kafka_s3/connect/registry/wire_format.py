"""Which schema does each record name, and where does its payload begin? (SEMANTICS A11)

As Confluent's serializers write it, AWS Glue's, or Apicurio's::

    Confluent    0, id of 4 bytes                          1, GUID of 16 bytes
    AWS Glue     3, compression (0 none, 5 zlib), version id of 16 bytes; before Protobuf the place of the message type, a varint
    Apicurio     0, id of 8 bytes (its version 2)          0, id of 4 bytes (version 3, or as-confluent)

All numbers are big-endian; ids are signed, as in Java. Payloads that AWS Glue's serializers compressed are inflated one by one, within
bounds, before all else. The rest works on whole Arrow arrays: Python sees one name per change of schema, not one object per record.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.joining import bounds_of
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.registry.options import Framing
from kafka_s3.connect.schemas.avro_values import read_varint
from kafka_s3.model.files import Role

Bytes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

UNKNOWN_MAGIC: Final = "Unknown magic byte!"
FAILURES: Final = (
    "",
    "Empty bytes: there is no magic byte.",
    UNKNOWN_MAGIC,
    "The bytes end within the schema id.",
    "The list of Protobuf message indexes after the schema id is malformed.",
    "Unknown compression byte: AWS Glue knows 0 (none) and 5 (zlib).",
)
EMPTY, MAGIC, SHORT, MALFORMED, COMPRESSION = 1, 2, 3, 4, 5
GUID_BYTES: Final = 16
GLUE_MAGIC: Final = 3
PLAIN, ZLIB = 0, 5
"""Glue's compression bytes."""


class _Prefixes(NamedTuple):
    """Per record: GUID or id, as two words; the number of its message indexes; where the prefix ends; the number of a failure or 0."""

    guids: Flags
    high: Words
    low: Words
    indexes: Longs
    ends: Longs
    errors: Longs

    def take(self, rows: Longs) -> _Prefixes:
        return _Prefixes._make(column[rows] for column in self)


def _schema_ids(framing: Framing, data: Bytes, starts: Longs, lengths: Longs) -> _Prefixes:
    """What the records that begin at these places of `data` say of their schemas, without message indexes."""
    guids, skipped, widths = _id_layout(framing, data, starts, lengths)
    ends = skipped + widths
    errors = np.select([lengths == 0, _unknown(framing, data, starts), lengths < ends], [EMPTY, MAGIC, SHORT], 0)
    if framing is Framing.GLUE:
        errors = np.where((errors == 0) & (bytes_at(data, starts + 1) != PLAIN), COMPRESSION, errors)
    high, low = np.zeros(len(starts), np.uint64), np.zeros(len(starts), np.uint64)
    for width in np.unique(widths):
        rows = np.flatnonzero((errors == 0) & (widths == width))
        at = starts[rows] + skipped
        if width == GUID_BYTES:
            high[rows], low[rows] = big_endian(data, at, 8), big_endian(data, at + 8, 8)
        else:
            low[rows] = _signed(big_endian(data, at, int(width)), int(width))
    return _Prefixes(guids, high, low, np.zeros(len(starts), np.int64), ends, errors.astype(np.int64))


def _id_layout(framing: Framing, data: Bytes, starts: Longs, lengths: Longs) -> tuple[Flags, int, Longs]:
    """Which records name a GUID, how many bytes come before the name, and how many it has."""
    every = np.ones(len(starts), bool)
    match framing:
        case Framing.CONFLUENT:
            guids = bytes_at(data, starts) == 1
            return guids, 1, np.where(guids, GUID_BYTES, 4)
        case Framing.GLUE:
            return every, 2, np.full(len(starts), GUID_BYTES)
        case Framing.APICURIO_EITHER:
            long = (big_endian(data, starts + 1, 4) == 0) & (lengths > 8)
            return ~every, 1, np.where(long, 8, 4)
        case _:
            return ~every, 1, np.full(len(starts), 8 if framing is Framing.APICURIO_8 else 4)


def _unknown(framing: Framing, data: Bytes, starts: Longs) -> Flags:
    magic = bytes_at(data, starts)
    if framing is Framing.GLUE:
        return np.not_equal(magic, GLUE_MAGIC)
    return np.greater(magic, 1 if framing is Framing.CONFLUENT else 0)


def _signed(numbers: Words, width: int) -> Words:
    """The numbers with their sign carried into all 64 bits."""
    return numbers.astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64) if width == 4 else numbers


def bytes_at(data: Bytes, at: Longs) -> Bytes:
    """The bytes at these places; beyond the end any byte, which callers do not look at."""
    return data[np.minimum(at, len(data) - 1)]


def big_endian(data: Bytes, at: Longs, size: int) -> Words:
    """Big-endian numbers of `size` bytes at these places."""
    found = np.zeros(len(at), np.uint64)
    for index in range(size):
        found = found << np.uint64(8) | bytes_at(data, at + index)
    return found


MOST_INDEXES: Final = 64
"""No message is nested deeper: protoc itself stops at 32."""
LARGEST_INDEX: Final = 2**31 - 1
LONGEST_PATH: Final = 5 * (1 + MOST_INDEXES)
"""Bytes of a count and as many indexes, each a varint of five bytes at most."""
MessagePath: TypeAlias = tuple[int, ...]
ID_PREFIX: Final = 5
"""Bytes before a payload of Confluent's: 0 and an id."""


class MessageIndexes(Enum):
    """What says after the schema id which of a schema's message types a record is."""

    ABSENT = "absent"
    """Avro and JSON Schema."""
    FOLLOW = "follow"
    """Protobuf: a list that walks from a top-level message into nested ones."""
    PLACE = "place"
    """Protobuf by AWS Glue: one number, the place among all message types of the file, in the order of their full names."""


@dataclass(frozen=True, slots=True)
class SchemaName:
    """What a record says of its schema: a global `id` or a `guid` with dashes, and with Protobuf the path to the message type.

    `indexes` walk from a top-level message into nested ones, or are the one place of `MessageIndexes.PLACE`. An id is read as a signed
    number, as Java does; registries give positive ones.
    """

    id: int | None = None
    guid: str | None = None
    indexes: MessagePath | None = None


@dataclass(frozen=True, slots=True)
class Framed:
    """The schemas and payloads of an array. `rows` are the positions of well-formed records, ascending; the n-th names the schema
    `names[codes[n]]`, and its payload begins `starts[n]` bytes into the record. `failures` are (position, reason); nulls are neither.
    """

    names: list[SchemaName]
    codes: Longs
    rows: Longs
    starts: Longs
    failures: list[tuple[int, str]]

    @property
    def by_schema(self) -> list[tuple[SchemaName, Longs, Longs]]:
        """Name, rows and starts of all records of one schema, schemas in order of their first record."""
        if len(self.names) == 1 and len(self.codes):
            return [(self.names[0], self.rows, self.starts)]
        order = np.argsort(self.codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1)
        return [(self.names[self.codes[part[0]]], self.rows[part], self.starts[part]) for part in parts if len(part)]


def framed(
    values: pa.Array,
    *,
    headers: pa.Array | Sequence[bytes | None] | None,
    indexes: MessageIndexes,
    framing: Framing = Framing.CONFLUENT,
) -> Framed:
    """The schemas that the records of a binary array name. Bad bytes never raise: they are among the failures.

    Records of AWS Glue are not compressed any more (`inflated`).
    `headers` holds each record's schema id header (see `schema_id_headers`), None where it has none; a header goes before the bytes.
    """
    values = _binary(values)
    plain = headers is None and indexes is MessageIndexes.ABSENT and framing is Framing.CONFLUENT
    if plain and (name := _only_name(values)) is not None:
        count = len(values)
        return Framed([name], np.zeros(count, np.int64), np.arange(count), np.full(count, ID_PREFIX), [])
    paths: dict[MessagePath, int] = {}
    prefixes = _prefixes(values, indexes, framing, paths)
    if headers is not None:
        given = _binary(headers if isinstance(headers, pa.Array) else pa.array(headers, pa.binary()))
        prefixes = _preferred(_prefixes(given, indexes, framing, paths), prefixes, chosen=_valid(given))
    valid = _valid(values)
    rows = np.flatnonzero(valid & (prefixes.errors == 0))
    failed = np.flatnonzero(valid & (prefixes.errors != 0))
    names, codes = _names(prefixes.take(rows), list(paths))
    return Framed(
        names,
        codes,
        rows,
        prefixes.ends[rows],
        failures=[(int(row), FAILURES[prefixes.errors[row]]) for row in failed],
    )


def _only_name(values: pa.Array) -> SchemaName | None:
    """The id that all records name, which is the usual case; None where not all do."""
    from kafka_s3.connect.records.loops import begin_alike  # here: the driver need not load and compile it

    if not len(values) or values.null_count or values.type != pa.binary():
        return None
    data, bounds = _layout(values)[0], bounds_of(values)
    begin = int(bounds[0])
    if not begin_alike(data, bounds, ID_PREFIX) or data[begin]:
        return None
    return SchemaName(id=int.from_bytes(data[begin + 1 : begin + ID_PREFIX].tobytes(), "big", signed=True))


def schema_id_headers(headers: pa.Array, role: Role) -> pa.Array | None:
    """Each record's `__value_schema_id` or `__key_schema_id`, the last one counting as in Java; None where no record has it.

    `headers` is a list array of structs `key, value`, as Spark reads them.
    """
    entries = headers.flatten()
    named = pc.fill_null(pc.equal(pc.struct_field(entries, "key"), f"__{role}_schema_id"), False)
    found = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    if not found.size:
        return None
    records = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)[found]
    last = np.full(len(headers), -1, np.int64)
    last[records] = found
    return pc.struct_field(entries, "value").take(pa.array(last, mask=last < 0))


def payloads(values: pa.Array, rows: Longs, starts: Longs) -> pa.Array:
    """The payloads of these positions of a binary array, as a binary array of the same order."""
    values = _binary(values)
    adjacent = len(rows) > 0 and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all())
    taken = values.slice(rows[0], len(rows)) if adjacent else values.take(pa.array(rows))
    return _without_prefix(taken, starts).cast(pa.binary())


def _without_prefix(values: pa.Array, starts: Longs) -> pa.Array:
    """Nearly always all prefixes are of one length, which Arrow cuts off at once."""
    if not len(starts) or (starts == starts[0]).all():
        # pc.binary_slice without an end fails or takes 20 times as long
        return pc.binary_replace_slice(values, 0, int(starts[0]), b"") if starts.any() else values
    lengths = np.unique(starts)
    parts = [np.flatnonzero(starts == length) for length in lengths]
    cut = [_without_prefix(values.take(pa.array(part)), starts[part]) for part in parts]
    return pa.concat_arrays(cut).take(pa.array(np.argsort(np.concatenate(parts))))


def _prefixes(array: pa.Array, follow: MessageIndexes, framing: Framing, paths: dict[MessagePath, int]) -> _Prefixes:
    """What precedes the payloads; message indexes that are new get the next number in `paths`."""
    data, starts, stops = _layout(array)
    found = _schema_ids(framing, data, starts, stops - starts)
    if follow is not MessageIndexes.ABSENT:
        read = _message_path if follow is MessageIndexes.FOLLOW else _place_in_file
        for row in np.flatnonzero(found.errors == 0).tolist():
            begin = int(starts[row] + found.ends[row])
            try:
                path, length = read(data[begin : min(int(stops[row]), begin + LONGEST_PATH)].tobytes())
            except (IndexError, ValueError):
                found.errors[row] = MALFORMED
            else:
                found.indexes[row] = paths.setdefault(path, len(paths))
                found.ends[row] += length
    return found


def _preferred(header: _Prefixes, value: _Prefixes, *, chosen: Flags) -> _Prefixes:
    """The header's where it is chosen; the whole record is the payload then."""
    whole = header._replace(ends=np.zeros_like(header.ends))
    return _Prefixes._make(np.where(chosen, one, other) for one, other in zip(whole, value, strict=True))


def _message_path(data: bytes) -> tuple[MessagePath, int]:
    """The message indexes at the beginning of the data, and how many bytes they take. Raises IndexError and ValueError."""
    count, pos = _zigzag(data, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise ValueError
    path = []
    for _ in range(count):
        index, pos = _zigzag(data, pos)
        if not 0 <= index <= LARGEST_INDEX:
            raise ValueError
        path.append(index)
    return tuple(path) or (0,), pos  # a count of 0 is the short form of the list [0]


def _place_in_file(data: bytes) -> tuple[MessagePath, int]:
    """The same of AWS Glue: the one number that is there, without zig-zag."""
    number, pos = _short_varint(data, 0)
    if number > LARGEST_INDEX:
        raise ValueError
    return (number,), pos


def _zigzag(data: bytes, pos: int) -> tuple[int, int]:
    number, pos = _short_varint(data, pos)
    return (number >> 1) ^ -(number & 1), pos


def _short_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number of five bytes at most."""
    return read_varint(data[: pos + 5], pos)


def _names(prefixes: _Prefixes, paths: Sequence[MessagePath]) -> tuple[list[SchemaName], Longs]:
    """The different schema names, and for each record the number of its own; Python looks only where the name changes."""
    count = len(prefixes.low)
    changes = np.ones(count, bool)
    changes[1:] = (
        np.diff(prefixes.guids)
        | (prefixes.low[1:] != prefixes.low[:-1])
        | (prefixes.high[1:] != prefixes.high[:-1])
        | (prefixes.indexes[1:] != prefixes.indexes[:-1])
    )
    firsts = np.flatnonzero(changes)
    seen = prefixes.take(firsts)
    keys = zip(seen.guids.tolist(), seen.high.tolist(), seen.low.tolist(), seen.indexes.tolist(), strict=True)
    numbers: dict[tuple[bool, int, int, int], int] = {}
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    names = [_name(guid, high, low, paths[path] if paths else None) for guid, high, low, path in numbers]
    return names, np.repeat(codes, np.diff(firsts, append=count))


def _name(guid: bool, high: int, low: int, indexes: MessagePath | None) -> SchemaName:
    if guid:
        return SchemaName(guid=str(uuid.UUID(int=high << 64 | low)), indexes=indexes)
    return SchemaName(id=low - 2**64 if low >= 2**63 else low, indexes=indexes)


def _binary(array: pa.Array) -> pa.Array:
    return array if array.type in (pa.binary(), pa.large_binary()) else array.cast(pa.binary())


def _valid(array: pa.Array) -> Flags:
    valid: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _layout(array: pa.Array) -> tuple[Bytes, Longs, Longs]:
    """The bytes behind a binary array, never none, and where each value begins and ends in them."""
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return content, bounds[:-1], bounds[1:]


HEADER_BYTES: Final = 18
LARGEST_BYTES: Final = 64 << 20
"""Of an inflated payload, where nothing else is set: four times the largest record that brokers are usually set up for."""
MOST: Final = 1032
"""Deflate makes no byte more than so many."""
_COMPRESSED: Final = bytes([GLUE_MAGIC, ZLIB])
_PLAIN: Final = bytes([GLUE_MAGIC, PLAIN])


def slices(columns: Sequence[pa.Array], budget: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges `[start, stop)` of records that inflate to about `budget` bytes at most, and to one record at least.

    What could go beyond is inflated for its size, one record at a time, and no record for more than `budget`.
    """
    held = sum(pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64) for column in columns)
    count = len(columns[0])
    if int(held.sum()) * MOST <= budget or not any(len(_compressed(column)) for column in columns):
        yield 0, count
        return
    for column in columns:
        for row in _compressed(column).tolist():
            held[row] += _size(column[row].as_py(), budget)
    start, total = 0, 0
    for row, size in enumerate(held.tolist()):
        if total + size > budget and row > start:
            yield start, row
            start, total = row, 0
        total += size
    yield start, count


def _compressed(values: pa.Array) -> Longs:
    found: Longs = np.flatnonzero(
        pc.fill_null(pc.starts_with(values, _COMPRESSED), False).to_numpy(zero_copy_only=False)
    )
    return found


def _size(record: bytes, largest: int) -> int:
    try:
        return len(zlib.decompressobj().decompress(record[HEADER_BYTES:], largest))
    except zlib.error:
        return 0


def inflated(values: pa.Array, largest: int) -> tuple[pa.Array, list[tuple[int, str]]]:
    """The records without compression, and (position, reason) of those that cannot be inflated, whose place is null then.

    An array without compressed records comes back as it is. A payload of more than `largest` bytes is not inflated further.
    """
    values = values.cast(pa.binary()) if values.type != pa.binary() else values
    rows = _compressed(values)
    if not len(rows):
        return values, []
    found: list[bytes | None] = []
    failures: list[tuple[int, str]] = []
    for row, record in zip(rows.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            found.append(_inflated(record, largest))
        except (zlib.error, ValueError) as error:
            found.append(None)
            failures.append((row, f"The payload cannot be inflated: {error}."))
    compressed = np.zeros(len(values), bool)
    compressed[rows] = True
    return pc.replace_with_mask(values, pa.array(compressed), pa.array(found, pa.binary())), failures


def _inflated(record: bytes, largest: int) -> bytes:
    """The record with its payload as it was. Raises zlib.error and ValueError."""
    engine = zlib.decompressobj()
    payload = engine.decompress(record[HEADER_BYTES:], largest + 1)
    if len(payload) > largest:
        raise ValueError(f"it has more than {largest} bytes, half of writer.memory.bytes")
    if not engine.eof:
        raise ValueError("it ends too early")
    return _PLAIN + record[2:HEADER_BYTES] + payload
