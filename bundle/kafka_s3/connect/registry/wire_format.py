"""Which schema does each record name, and where does its payload begin? (SEMANTICS A11)

Works on whole Arrow arrays: Python sees one name per change of schema, not one object per record.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.registry.framing import FAILURES, MALFORMED, Bytes, Flags, Words, bytes_at, schema_ids
from kafka_s3.connect.registry.serializers import Framing
from kafka_s3.model.files import Role

MOST_INDEXES: Final = 64
"""No message is nested deeper: protoc itself stops at 32."""
LARGEST_INDEX: Final = 2**31 - 1
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
    indexes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Framed:
    """The schemas and payloads of an array. `rows` are the positions of well-formed records, ascending; the n-th names the schema
    `names[codes[n]]`, and its payload begins `starts[n]` bytes into the record. `failures` are (position, reason), `nulls` positions.
    """

    names: list[SchemaName]
    codes: Longs
    rows: Longs
    starts: Longs
    failures: list[tuple[int, str]]
    nulls: Longs

    @property
    def groups(self) -> list[tuple[SchemaName, Longs, Longs]]:
        """Name, rows and starts of consecutive records of one schema, in order; failures and nulls in between do not part them."""
        cuts = np.flatnonzero(np.diff(self.codes)) + 1
        return self._pick(np.split(np.arange(len(self.codes)), cuts))

    @property
    def distinct(self) -> list[tuple[SchemaName, Longs, Longs]]:
        """Name, rows and starts of all records of one schema, schemas in order of their first record."""
        if len(self.names) == 1 and len(self.codes):
            return [(self.names[0], self.rows, self.starts)]
        order = np.argsort(self.codes, kind="stable")
        return self._pick(np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1))

    def _pick(self, parts: Sequence[Longs]) -> list[tuple[SchemaName, Longs, Longs]]:
        return [(self.names[self.codes[part[0]]], self.rows[part], self.starts[part]) for part in parts if len(part)]


def framed(
    values: pa.Array,
    *,
    headers: pa.Array | Sequence[bytes | None] | None,
    indexes: MessageIndexes,
    framing: Framing = Framing.CONFLUENT,
) -> Framed:
    """The schemas that the records of a binary array name. Bad bytes never raise: they are among the failures.

    Records of AWS Glue are not compressed any more (`connect.registry.compression`).
    `headers` holds each record's schema id header (see `schema_id_headers`), None where it has none; a header goes before the bytes.
    """
    values = _binary(values)
    plain = headers is None and indexes is MessageIndexes.ABSENT and framing is Framing.CONFLUENT
    if plain and (name := _only_name(values)) is not None:
        count, none = len(values), np.zeros(0, np.int64)
        return Framed([name], np.zeros(count, np.int64), np.arange(count), np.full(count, ID_PREFIX), [], none)
    prefixes = _prefixes(values, indexes, framing)
    if headers is not None:
        given = _binary(headers if isinstance(headers, pa.Array) else pa.array(headers, pa.binary()))
        prefixes = _preferred(_prefixes(given, indexes, framing), prefixes, chosen=_valid(given))
    valid = _valid(values)
    rows = np.flatnonzero(valid & (prefixes.errors == 0))
    failed = np.flatnonzero(valid & (prefixes.errors != 0))
    names, codes = _names(prefixes.take(rows), indexes)
    return Framed(
        names,
        codes,
        rows,
        prefixes.ends[rows],
        failures=[(int(row), FAILURES[prefixes.errors[row]]) for row in failed],
        nulls=np.flatnonzero(~valid),
    )


def _only_name(values: pa.Array) -> SchemaName | None:
    """The id that all records name, which is the usual case; None where not all do."""
    data, starts, stops = _layout(values)
    if not len(values) or values.null_count or (stops - starts).min() < ID_PREFIX or data[starts[0]]:
        return None
    if any((data[starts + place] != data[starts[0] + place]).any() for place in range(ID_PREFIX)):
        return None
    return SchemaName(id=int.from_bytes(data[starts[0] + 1 : starts[0] + ID_PREFIX].tobytes(), "big", signed=True))


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


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """Per record: GUID or id, as two words; message indexes, -1 after the last; where the prefix ends; the number of a failure or 0."""

    guids: Flags
    high: Words
    low: Words
    indexes: Longs
    ends: Longs
    errors: Longs

    def take(self, rows: Longs) -> _Prefixes:
        return _Prefixes(
            self.guids[rows], self.high[rows], self.low[rows], self.indexes[rows], self.ends[rows], self.errors[rows]
        )


def _prefixes(array: pa.Array, follow: MessageIndexes, framing: Framing) -> _Prefixes:
    data, starts, stops = _layout(array)
    ids = schema_ids(framing, data, starts, stops - starts)
    ends, errors = ids.ends, ids.errors
    indexes = np.full((len(starts), 1), -1, np.int64)
    if follow is not MessageIndexes.ABSENT:
        rows = np.flatnonzero(errors == 0)
        read = _index_lists if follow is MessageIndexes.FOLLOW else _places
        lists, after, good = read(data, starts[rows] + ends[rows], stops[rows])
        indexes = np.full((len(starts), lists.shape[1]), -1, np.int64)
        indexes[rows], ends[rows], errors[rows] = lists, after - starts[rows], np.where(good, 0, MALFORMED)
    return _Prefixes(ids.guids, ids.high, ids.low, indexes, ends, errors)


def _preferred(header: _Prefixes, value: _Prefixes, *, chosen: Flags) -> _Prefixes:
    """The header's where it is chosen; the whole record is the payload then."""
    width = max(header.indexes.shape[1], value.indexes.shape[1])
    return _Prefixes(
        np.where(chosen, header.guids, value.guids),
        np.where(chosen, header.high, value.high),
        np.where(chosen, header.low, value.low),
        np.where(chosen[:, None], _padded(header.indexes, width), _padded(value.indexes, width)),
        np.where(chosen, 0, value.ends),
        np.where(chosen, header.errors, value.errors),
    )


def _padded(lists: Longs, width: int) -> Longs:
    return np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=-1)


def _index_lists(data: Bytes, at: Longs, stops: Longs) -> tuple[Longs, Longs, Flags]:
    """The message indexes at these places, padded with -1; where each list ends; which lists are well-formed."""
    counts, at, good = _varints(data, at, stops)
    good = good & (counts >= 0) & (counts <= MOST_INDEXES)
    counts = np.where(good, counts, 0)
    lists = np.full((len(at), max(1, int(counts.max(initial=0)))), -1, np.int64)
    lists[counts == 0, 0] = 0  # a count of 0 is the short form of the list [0]
    for nesting in range(lists.shape[1]):
        rows = np.flatnonzero(good & (counts > nesting))
        index, at[rows], complete = _varints(data, at[rows], stops[rows])
        lists[rows, nesting] = index
        good[rows] = complete & (index >= 0) & (index <= LARGEST_INDEX)
    return lists, at, good


def _places(data: Bytes, at: Longs, stops: Longs) -> tuple[Longs, Longs, Flags]:
    """The same of AWS Glue: lists of the one number that is there, without zig-zag."""
    numbers, at, good = _raw_varints(data, at, stops)
    return numbers[:, None], at, good & (numbers <= LARGEST_INDEX)


def _varints(data: Bytes, at: Longs, stops: Longs) -> tuple[Longs, Longs, Flags]:
    """The zig-zag varints at these places, the places after them, and which of them end within five bytes and their record."""
    raw, at, complete = _raw_varints(data, at, stops)
    return (raw >> 1) ^ -(raw & 1), at, complete


def _raw_varints(data: Bytes, at: Longs, stops: Longs) -> tuple[Longs, Longs, Flags]:
    raw, at, going, complete = np.zeros(len(at), np.int64), at.copy(), np.ones(len(at), bool), np.zeros(len(at), bool)
    for shift in range(0, 35, 7):
        going &= at < stops
        if not going.any():
            break
        byte = bytes_at(data, at).astype(np.int64)
        raw[going] |= (byte[going] & 0x7F) << shift
        at[going] += 1
        complete |= going & (byte < 0x80)
        going &= byte >= 0x80
    return raw, at, complete


def _names(prefixes: _Prefixes, follow: MessageIndexes) -> tuple[list[SchemaName], Longs]:
    """The different schema names, and for each record the number of its own; Python looks only where the name changes."""
    count = len(prefixes.low)
    changes = np.ones(count, bool)
    changes[1:] = (
        np.diff(prefixes.guids)
        | (prefixes.low[1:] != prefixes.low[:-1])
        | (prefixes.high[1:] != prefixes.high[:-1])
        | (prefixes.indexes[1:] != prefixes.indexes[:-1]).any(axis=1)
    )
    firsts = np.flatnonzero(changes)
    seen = prefixes.take(firsts)
    keys = zip(
        seen.guids.tolist(), seen.high.tolist(), seen.low.tolist(), map(tuple, seen.indexes.tolist()), strict=True
    )
    numbers: dict[tuple[bool, int, int, tuple[int, ...]], int] = {}
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    return [_name(*key, follow=follow) for key in numbers], np.repeat(codes, np.diff(firsts, append=count))


def _name(guid: bool, high: int, low: int, padded: tuple[int, ...], *, follow: MessageIndexes) -> SchemaName:
    indexes = tuple(index for index in padded if index >= 0) if follow is not MessageIndexes.ABSENT else None
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
