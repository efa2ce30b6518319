"""What does a Parquet object hold, without reading it? Its columns and statistics, from the footer alone.

Statistics that a reader could be misled by are left out: Delta's readers take a missing bound for "may hold anything".
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.model.errors import StorageError
from kafka_s3.store.store import ObjectStore

TAIL_BYTES: Final = 64 << 10
MAGIC: Final = b"PAR1"
AVRO_SCHEMA: Final = b"parquet.avro.schema"
INDEXED_COLUMNS: Final = 32
"""As many leaf columns get statistics as with Delta's own writers (`delta.dataSkippingNumIndexedCols`)."""
TEXT_LENGTH: Final = 32
LAST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's Arrow schema, its number of records, and Delta's statistics: numRecords, minValues, maxValues, nullCount.

    `constants` are the top-level columns whose values, but for nulls, are all the same; `inferred` says that the schema is not the
    producer's.
    """

    schema: pa.Schema
    records: int
    statistics: dict[str, Any]
    constants: Mapping[str, Any]
    inferred: bool

    def stats(self) -> str:
        """The statistics as an add action carries them."""
        return json.dumps(self.statistics, separators=(",", ":"), ensure_ascii=False)

    def nulls(self, column: str) -> int | None:
        """How many values of a top-level column are null, None where that is not known."""
        found = self.statistics["nullCount"].get(column)
        return found if isinstance(found, int) else None


def read_footer(store: ObjectStore, key: str, size: int) -> Footer:
    """The footer of an object, by one range request or, where it is large, two. Raises ObjectMissing, StorageError."""
    tail = store.get_range(key, max(size - TAIL_BYTES, 0), size - 1)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or length + 8 > size:
        raise StorageError(f"Object {key} is no Parquet file of {size} bytes. Was it written over?")
    if length + 8 > len(tail):
        tail = store.get_range(key, size - 8 - length, size - 1)
    try:
        return footer_of(pq.read_metadata(io.BytesIO(MAGIC + tail[-8 - length :])))
    except pa.ArrowException as error:
        raise StorageError(f"The footer of Parquet object {key} cannot be read: {error}") from error


def footer_of(metadata: Any) -> Footer:
    """The footer from pyarrow's metadata of a file."""
    schema = metadata.schema.to_arrow_schema()
    statistics: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for column, (path, kind) in enumerate(leaves(schema)):
        if path is not None and column < INDEXED_COLUMNS:
            _gather(
                statistics, path, kind, [metadata.row_group(n).column(column) for n in range(metadata.num_row_groups)]
            )
    known = metadata.metadata or {}
    return Footer(schema, metadata.num_rows, statistics, _constants(metadata, schema), AVRO_SCHEMA not in known)


def _constants(metadata: Any, schema: pa.Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, (path, _) in enumerate(leaves(schema)):
        if path is None or len(path) > 1:
            continue
        chunks = [metadata.row_group(n).column(column) for n in range(metadata.num_row_groups)]
        bounds = [chunk.statistics for chunk in chunks if chunk.is_stats_set and chunk.statistics.has_min_max]
        filled = [chunk for chunk in chunks if not chunk.is_stats_set or chunk.statistics.num_values]
        values = {value for one in bounds for value in (one.min, one.max)}
        if len(values) == 1 and len(bounds) == len(filled):
            found[path[0]] = values.pop()
    return found


def leaves(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...] | None, pa.DataType]]:
    """Parquet's leaf columns in order, with path and type; no path for those in lists and maps, which have no statistics in Delta."""
    for one in schema:
        yield from _leaves(one.type, (one.name,))


def _leaves(kind: pa.DataType, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...] | None, pa.DataType]]:
    if pa.types.is_nested(kind):
        for n in range(kind.num_fields):
            inner = kind.field(n)
            yield from _leaves(inner.type, (*path, inner.name) if path and pa.types.is_struct(kind) else None)
    else:
        yield path, kind


def _gather(statistics: dict[str, Any], path: tuple[str, ...], kind: pa.DataType, chunks: list[Any]) -> None:
    found = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
    if not found or len(found) < len(chunks):
        return
    if all(one.has_null_count for one in found):
        _put(statistics["nullCount"], path, sum(one.null_count for one in found))
    bounds = _bounds(kind)
    present = [one for one in found if one.num_values]
    if bounds is None or not present or not all(one.has_min_max for one in present):
        return
    low, high = bounds
    for name, value in (
        ("minValues", low(min(one.min for one in present))),
        ("maxValues", high(max(one.max for one in present))),
    ):
        if value is not None:
            _put(statistics[name], path, value)


Bound = Callable[[Any], Any]


def _bounds(kind: pa.DataType) -> tuple[Bound, Bound] | None:
    """How the smallest and the largest value of a type are written; None for types without bounds in Delta."""
    if pa.types.is_integer(kind):
        return int, int
    if pa.types.is_floating(kind):
        return _finite, _unknown  # Parquet's bounds skip NaN, which is above all else in Spark's order
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_floor, _text_ceiling
    if pa.types.is_date32(kind):
        return date.isoformat, date.isoformat
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        zone = "Z" if kind.tz else ""
        return lambda value: _millis(value, up=False) + zone, lambda value: _millis(value, up=True) + zone
    return None


def _finite(value: float) -> float | None:
    return float(value) if value not in (float("inf"), float("-inf")) and value == value else None


def _unknown(_: Any) -> None:
    return None


def _text_floor(value: str) -> str:
    return value[:TEXT_LENGTH]


def _text_ceiling(value: str) -> str | None:
    """The text, or one not below it that is short; None where there is none."""
    if len(value) <= TEXT_LENGTH:
        return value
    return None if value[TEXT_LENGTH] == LAST_CHARACTER else value[:TEXT_LENGTH] + LAST_CHARACTER


def _millis(value: datetime, *, up: bool) -> str:
    """A time in whole milliseconds, which is what Delta's readers compare."""
    rest = value.microsecond % 1000
    if rest and up:
        value += timedelta(microseconds=1000 - rest)
    plain = value.astimezone(UTC) if value.tzinfo else value
    return plain.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value
