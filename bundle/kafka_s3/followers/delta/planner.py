"""What of a batch of objects goes into a table, and how must the table change for it? Decided from footers, directories and the mode.

A topic's table lies at `<topics.dir>/<topic>/`; a directory `k=v` in it says what a column holds.
Columns and statistics come from an object's footer alone. Statistics that a reader could be misled by are left out: Delta's readers take a
missing bound for "may hold anything". Bounds of dates and times are read as the numbers that the footer has, since Python's end with the
year 9999; one beyond the years 1 to 9999 is left out.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.naming.keys import topics_root
from kafka_s3.engine.task.partitioning.partitioners import NULL, SCHEMA_NAME, TEXT_NULL
from kafka_s3.engine.task.table_guard.columns import (
    DeltaType,
    Mode,
    TableColumns,
    compare_columns,
    file_columns,
    is_name,
    rescuing,
    shown,
)
from kafka_s3.engine.task.table_guard.renames import Newer, aligned
from kafka_s3.model.errors import ObjectMissing, StorageError, TableRefused
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.process import ThreadPool
from kafka_s3.objects.format import INFIX
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

    `ends` are the smallest and the largest value of each top-level column, times left out, and None if any value is null; of columns whose
    footers say all of that. `inferred` says that the schema is not the producer's.
    """

    schema: pa.Schema
    records: int
    statistics: dict[str, Any]
    ends: Mapping[str, frozenset[Any]]
    inferred: bool

    def stats(self) -> str:
        """The statistics as an add action carries them."""
        return json.dumps(self.statistics, separators=(",", ":"), ensure_ascii=False)

    def called(self, own: TableColumns, others: TableColumns) -> Footer:
        """The footer with the statistics of its own columns under other names, given in the same order."""
        before, after = list(own.fields.values()), list(others.fields.values())
        if before == after:
            return self
        statistics = {
            group: _called(values, before, after) if isinstance(values, dict) else values
            for group, values in self.statistics.items()
        }
        return replace(self, statistics=statistics)


def _called(
    values: Mapping[str, Any], before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one, other in zip(before, after, strict=True):
        value = values.get(one["name"])
        if isinstance(value, dict):
            value = _called(value, one["type"]["fields"], other["type"]["fields"])
        if value is not None:
            found[other["name"]] = value
    return found


def read_footer(store: ObjectStore, key: str, size: int) -> Footer:
    """The footer of an object, by one range request or, where it is large, two. Raises ObjectMissing, StorageError."""
    tail = store.get_range(key, max(size - TAIL_BYTES, 0), size - 1)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or length + 8 > size:
        raise StorageError(f"Object {key} is not a Parquet file of {size} bytes. Was it written over?")
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
    return Footer(schema, metadata.num_rows, statistics, _ends(metadata, schema), AVRO_SCHEMA not in known)


def _ends(metadata: Any, schema: pa.Schema) -> dict[str, frozenset[Any]]:
    found: dict[str, frozenset[Any]] = {}
    for column, (path, kind) in enumerate(leaves(schema)):
        if path is None or len(path) > 1 or pa.types.is_temporal(kind):
            continue
        chunks = [metadata.row_group(n).column(column) for n in range(metadata.num_row_groups)]
        statistics = [chunk.statistics for chunk in chunks if chunk.is_stats_set and chunk.statistics.has_null_count]
        filled = [one for one in statistics if one.num_values]
        if len(statistics) < len(chunks) or not all(one.has_min_max for one in filled):
            continue
        nulls = {None for one in statistics if one.null_count}
        found[path[0]] = frozenset(nulls.union(*({one.min, one.max} for one in filled)))
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
    if pa.types.is_temporal(kind):
        least, greatest = min(one.min_raw for one in present), max(one.max_raw for one in present)
    else:
        least, greatest = min(one.min for one in present), max(one.max for one in present)
    for name, value in (("minValues", low(least)), ("maxValues", high(greatest))):
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
        return _day, _day
    if pa.types.is_timestamp(kind) and kind.unit in _PER_MS:
        per_ms, zone = _PER_MS[kind.unit], "Z" if kind.tz else ""
        return lambda value: _instant(value // per_ms, zone), lambda value: _instant(-(-value // per_ms), zone)
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


_PER_MS: Final = {"ms": 1, "us": 1000}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first of January of the year 1, and the last day of the year 9999."""
_DAY_MS: Final = 86_400_000


def _day(days: int) -> str | None:
    return str(np.datetime64(days, "D")) if _FIRST_DAY <= days <= _LAST_DAY else None


def _instant(ms: int, zone: str) -> str | None:
    """Return a time in whole milliseconds, which is what Delta's readers compare."""
    return f"{np.datetime64(ms, 'ms')}{zone}" if _day(ms // _DAY_MS) else None


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value


APP: Final = "kafka-s3-"
"""With a sink's name the application of its transactions, whoever writes the table."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """An object as a table has it; `stats` is Delta's text."""

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table says: its version, columns, partition columns, and the log entry up to which the sink's files are in it (-1: none)."""

    version: int
    columns: TableColumns
    partition_by: tuple[str, ...]
    position: int
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """What becomes one version of the table: files in, paths out, up to log entry `position`; `note` is for the table's history.

    `same_records`: the files hold what those at the paths held, so that no reader sees a change.
    """

    position: int
    files: Sequence[TableFile] = ()
    removed: Sequence[str] = ()
    note: Mapping[str, Any] = field(default_factory=dict)
    at_ms: int = 0
    same_records: bool = False


BY_VALUE: Final = ("string", "integer", "long", "boolean")
"""The types of columns that can be partition columns: a field partitioner writes their values as Delta does."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How objects lie below `topics.dir`. `fields` are those of a field partitioner: their directories hold the records' own values.

    `quoted` says that directories are percent-encoded (`partition.value.encoding=percent`). `columns` are the directories that give
    columns, None: all.
    """

    topics_dir: str
    fields: frozenset[str] = frozenset()
    quoted: bool = False
    columns: frozenset[str] | None = None

    def folder(self, topic: str) -> str:
        """The folder of a topic's table, with a trailing slash."""
        return f"{topics_root(self.topics_dir, '/')}{topic}/"

    def path(self, file: DataFile) -> str:
        """The object's path in its table."""
        return self.path_of(file.topic, file.key)

    def path_of(self, topic: str, key: str) -> str:
        """The path of an object of that key in the topic's table."""
        return key.removeprefix(self.folder(topic))

    def directories(self, file: DataFile) -> dict[str, str | None]:
        """Return what the object's directories of the form `k=v` say: None for null, which only those of a field partitioner tell from
        text. A directory of another form says nothing.
        """
        pairs = [part.partition("=") for part in self.path(file).split("/")[:-1]]
        known = {*self.fields, SCHEMA_NAME} if self.fields else {name for name, _, _ in pairs}
        return {
            name: self._said(name, value)
            for name, sign, value in pairs
            if sign and name and name in known and (self.columns is None or name in self.columns)
        }

    def _said(self, name: str, value: str) -> str | None:
        if name in self.fields and value in (NULL, TEXT_NULL):
            return None if value == NULL else NULL
        return unquote(value) if self.quoted else value

    def partition_types(self, directories: Mapping[str, str | None], columns: TableColumns) -> dict[str, DeltaType]:
        """The partition columns of a table that begins with such a file, with their types.

        A directory gives a string, or what the file's own column of that name is where it holds the same values (a field partitioner's);
        where the file has a column of that name for something else, the directory gives none.
        """
        types: dict[str, DeltaType] = {}
        spelt = {name.lower() for name in columns.fields}
        for name in directories:
            own = columns.type_of(name)
            if own is None and is_name(name) and name.lower() not in spelt:
                types[name] = "string"
            elif name in self.fields and own in BY_VALUE:
                types[name] = own
            spelt.add(name.lower())
        return types

    def partition_values(self, directories: Mapping[str, str | None], footer: Footer) -> dict[str, str | None]:
        """The values of a file's partition columns: what the file itself holds, where it has such a column; a directory does not show
        where a value with a slash ends, nor in older objects null from the text `null`.
        """
        return {name: self._value(name, value, footer) for name, value in directories.items()}

    def _value(self, name: str, value: str | None, footer: Footer) -> str | None:
        ends = footer.ends.get(name, frozenset())
        if name not in self.fields or len(ends) != 1:
            return value
        (own,) = ends
        if own is None:
            return None
        return str(own).lower() if isinstance(own, bool) else str(own)

    def mixed(self, name: str, footer: Footer) -> bool:
        """Whether a file holds several values, null among them, of a column by which its table is partitioned."""
        return name in self.fields and len(footer.ends.get(name, ())) > 1


def in_table(file: DataFile) -> bool:
    """Whether an object belongs into a table: Parquet with values, not keys, headers, indexes, dead letters."""
    return file.role is Role.VALUE and file.format == "parquet"


def is_named_as_in_table(key: str) -> bool:
    """Whether an object of which no more than the key is known is one of those, by its extension."""
    return key.endswith(".parquet") and not any(f"{infix}." in key.rpartition("/")[2] for infix in INFIX.values())


THREADS: Final = 8
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
GONE: Final = "the object is gone (was it deleted, or a lifecycle rule?)"
WAY_ON: Final = {
    "new": "Add the columns to the table (ALTER TABLE ... ADD COLUMNS), or start once with {mode_key}=addNewColumns.",
    "other": "With errors.tolerance=all such files stay out of the table, and are named.",
}


@dataclass(slots=True)
class TablePlan:
    """The table's columns and partition columns once the files are in; files that stay out, by key, with the reason.

    `omitted` are columns of the files that Delta has no form for: they stay in the files alone. `own` are the columns that any of the
    files taken has itself.
    """

    columns: TableColumns
    partition_by: tuple[str, ...]
    files: list[TableFile] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    omitted: dict[str, None] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class TablePlanner:
    """How a sink's files are taken into tables. `tolerant`: a file that does not fit stays out; else it holds its table up.

    `columns_of` gives the columns that a file has in the tables' format, whose mode is set by `mode_key`; `unreadable` are characters
    of keys that its readers do not understand.
    """

    store: ObjectStore
    layout: TableLayout
    mode: Mode
    tolerant: bool
    columns_of: Callable[[pa.Schema], TableColumns] = file_columns
    mode_key: str = "delta.schema.evolution.mode"
    unreadable: frozenset[str] = frozenset()

    def plan(self, state: TableState | None, files: Sequence[DataFile], *, modified_ms: Mapping[str, int]) -> TablePlan:
        """What becomes of the files of one topic, in order. Raises TableRefused, StorageError; `modified_ms` by key."""
        footers = list(self._footers(files))
        plan = self._begun(footers) if state is None else TablePlan(state.columns, state.partition_by)
        if self.mode is Mode.RESCUE:
            plan.columns = rescuing(plan.columns)
        taken: list[tuple[DataFile, Footer]] = []
        for file, footer in footers:
            refused = GONE if footer is None else self._take(plan, file, footer)
            if refused:
                plan.left_out[file.key] = refused
            elif footer is not None:
                taken.append((file, footer))
        plan.files += [self._as_in(plan, file, footer, modified_ms[file.key]) for file, footer in taken]
        return plan

    def reasons_out(self, state: TableState, files: Sequence[DataFile]) -> dict[str, str]:
        """Return why objects cannot come into a table, by key; those that can are not among them. Raises StorageError."""
        plan, tolerant = TablePlan(state.columns, state.partition_by), replace(self, tolerant=True)
        reasons: dict[str, str] = {}
        for file, footer in self._footers(files):
            try:
                reason = GONE if footer is None else tolerant._take(plan, file, footer)
            except TableRefused as error:
                reason = str(error)
            if reason:
                reasons[file.key] = reason.rstrip(".")
        return reasons

    def _begun(self, footers: Sequence[tuple[DataFile, Footer | None]]) -> TablePlan:
        """A new table: the columns of the first file, and partition columns that no file has for something else."""
        present = [(file, self.columns_of(footer.schema)) for file, footer in footers if footer is not None]
        if not present:
            return TablePlan(TableColumns(), ())
        first, columns = present[0]
        own = TableColumns({name: one for _, other in reversed(present) for name, one in other.fields.items()})
        types = self.layout.partition_types(self.layout.directories(first), own)
        return TablePlan(TableColumns({**columns.fields, **TableColumns.of(types).fields}), tuple(types))

    def _footers(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, Footer | None]]:
        with ThreadPool(THREADS) as pool:
            yield from zip(files, pool.each(self._footer, files), strict=True)

    def _footer(self, file: DataFile) -> Footer | None:
        try:
            return read_footer(self.store, file.key, file.bytes)
        except ObjectMissing:
            return None

    def _take(self, plan: TablePlan, file: DataFile, footer: Footer) -> str:
        """Adds the file's columns to the plan, or gives the reason why it stays out."""
        columns, directories = self.columns_of(footer.schema), self.layout.directories(file)
        found = compare_columns(*aligned(plan.columns, columns))
        odd = sorted(self.unreadable.intersection(file.key))
        refusals = [
            *(
                [f"readers of such tables take what follows {' or '.join(odd)} in its name for no part of it"]
                if odd
                else []
            ),
            *_misplaced(plan, directories, columns, layout=self.layout, footer=footer),
            *found.refusals(self.mode),
        ]
        if refusals:
            return self._refused(file, refusals, "new" if found.new and self.mode is Mode.FAIL else "other")
        plan.omitted |= dict.fromkeys(columns.omitted)
        plan.own |= columns.fields.keys()
        if self.mode is Mode.ADD:
            plan.columns = found.columns
        return ""

    def _as_in(self, plan: TablePlan, file: DataFile, footer: Footer, modified_ms: int) -> TableFile:
        """The file as the table has it, with the names of its columns there."""
        directories, own = self.layout.directories(file), self.columns_of(footer.schema)
        values = self.layout.partition_values({name: directories[name] for name in plan.partition_by}, footer)
        called = footer.called(own, aligned(plan.columns, own, Newer.LEFT)[1])
        stats = _stats(called, plan, values).stats()
        return TableFile(self.layout.path(file), file.bytes, values, stats, modified_ms)

    def _refused(self, file: DataFile, refusals: Sequence[str], kind: str) -> str:
        text = "; ".join(refusals)
        if not self.tolerant or kind == "new":
            raise TableRefused(f"Object {file.key} does not fit: {text}. {WAY_ON[kind].format(mode_key=self.mode_key)}")
        return text


def _misplaced(
    plan: TablePlan,
    directories: Mapping[str, str | None],
    columns: TableColumns,
    *,
    layout: TableLayout,
    footer: Footer,
) -> Iterator[str]:
    """Why the file's directories do not go with the table's partition columns."""
    for name in plan.partition_by:
        type_ = plan.columns.type_of(name)
        if name not in directories:
            yield f"no directory {name}=..., by which the table is partitioned"
        elif type_ is None or not _readable(directories[name], type_):
            yield f"directory {name}={directories[name]} is no {shown(type_ or 'column')}, which the partition column is"
        elif columns.type_of(name) is not None and name not in layout.fields:
            yield f"column {name} of the file is not what its directory {name}=... says"
        elif layout.mixed(name, footer):
            yield f"its directory {name}=... holds several values of {name} (as null and the text null), and the table takes one"


def _readable(value: str | None, type_: DeltaType) -> bool:
    if type_ == "string" or value is None:
        return True
    if type_ == "boolean":
        return value in ("true", "false")
    return type_ in ("byte", "short", "integer", "long") and _WHOLE.fullmatch(value) is not None


def _stats(footer: Footer, plan: TablePlan, partition: Mapping[str, Any]) -> Footer:
    """Statistics of the table's own columns only."""
    kept = {name for name in plan.columns.fields if name not in partition}
    statistics = {
        group: {name: value for name, value in values.items() if name in kept} if isinstance(values, dict) else values
        for group, values in footer.statistics.items()
    }
    return replace(footer, statistics=statistics)
