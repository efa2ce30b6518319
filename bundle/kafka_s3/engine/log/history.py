"""What happened, from the first entry on? The log's closed stretches as tables, and the entries behind them as they are.

Rows are of entries, of files and of dead letter files, with columns named as the members of an entry (docs/log-tables.md). Everything of
an entry is in them but the ids of its uploads, which mean nothing once it is published. What a column has no form for (a time beyond the
year 9999, an order of rows, a log that was changed by hand) is in `as_logged` as the log has it. Tables are never the truth: those that are
missing, damaged or of another log cost time only, and a line says why.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, committed_ms, file_document, file_of, read_entry
from kafka_s3.engine.log.reading import REMEDY, Manifest, Stretch, read_manifest, scan_entries
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.files import REASONS, ROLES, DataFile, Role, Upload, counted
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore

Tables = Mapping[str, pa.Table]
"""The three tables of some entries, by their names."""
ENTRIES: Final = "entries"
FILES: Final = "files"
DEAD_LETTER_FILES: Final = "dead_letter_files"

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, beyond which query engines have no time."""
_TIME: Final = pa.timestamp("ms", tz="UTC")
_ABOUT: Final = [("version", pa.int64()), ("committed_at", _TIME)]
_FILE: Final = [
    *_ABOUT, ("number", pa.int32()), ("key", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
    ("first_offset", pa.int64()), ("last_offset", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64()),
    ("min_timestamp", _TIME), ("max_timestamp", _TIME), ("encoded_partition", pa.string()), ("schema", pa.string()),
    ("format", pa.string()), ("reason", pa.string()), ("role", pa.string()), ("parts", pa.list_(pa.string())),
    ("as_logged", pa.string()),
]  # fmt: skip
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    ENTRIES: pa.schema([
        *_ABOUT, ("commit_id", pa.string()), ("epoch", pa.int64()), ("kind", pa.string()), ("driver", pa.string()),
        ("read", pa.int64()), ("written", pa.int64()), ("dead_letters", pa.int64()), ("skipped", pa.int64()), ("files", pa.int64()),
        ("bytes", pa.int64()), ("objects", pa.int64()), ("document", pa.string()),
    ]),
    FILES: pa.schema([*_FILE, ("counted", pa.bool_())]),
    DEAD_LETTER_FILES: pa.schema([*_FILE, ("stages", pa.map_(pa.string(), pa.int64()))]),
}  # fmt: skip
RESTORE: Final = "Restore the objects from bucket versions or a backup."
_MADE: Final[Callable[..., DataFile]] = DataFile
_READ_BACK: Final = [name for name, _ in _FILE if name != "committed_at"]


def tables_of(entries: Sequence[CommitEntry]) -> Tables:
    """The rows of some entries, which can be had back from them. Raises LogDamaged where one has what no table can hold."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
    for entry in entries:
        _add(entry, rows)
    try:
        found = {name: _table(schema, rows[name]) for name, schema in SCHEMAS.items()}
    except (pa.ArrowException, OverflowError) as error:
        raise LogDamaged(f"{_span(entries)} hold what no entry can ({error}). {RESTORE}") from error
    if list(entries_of(found)) != [without_upload_ids(entry) for entry in entries]:
        raise LogDamaged(
            f"{_span(entries)} do not come back from their rows. This is a defect of kafka-s3; please report it."
        )
    return found


def joined(some: Sequence[Tables]) -> Tables:
    """The tables of several stretches of entries, in their order, as one."""
    return {name: pa.concat_tables([tables[name] for tables in some]).combine_chunks() for name in SCHEMAS}


def entries_of(tables: Tables) -> Iterator[CommitEntry]:
    """The entries of some tables in their order, without the ids of uploads. Raises LogDamaged where a row cannot be read."""
    files: dict[int, list[tuple[int, DataFile]]] = {}
    for name in (FILES, DEAD_LETTER_FILES):
        for version, number, file in _files(tables[name]):
            files.setdefault(version, []).append((number, file))
    columns = tables[ENTRIES].select(["version", "document"]).to_pydict()
    for version, document in zip(columns["version"], columns["document"], strict=True):
        entry = read_entry(document.encode(), key=f"{version} of the tables")
        own = files.pop(version, [])
        yield replace(entry, files=tuple(file for _, file in sorted(own, key=lambda one: one[0])))


def without_upload_ids(entry: CommitEntry) -> CommitEntry:
    """The entry as it comes back from tables."""
    return replace(entry, files=tuple(map(_without_upload_id, entry.files)))


def _without_upload_id(file: DataFile) -> DataFile:
    return replace(file, upload=replace(file.upload, id="", token=""))


def _add(entry: CommitEntry, rows: Mapping[str, list[tuple[Any, ...]]]) -> None:
    at_ms = committed_ms(entry)
    rows[ENTRIES].append(_entry_row(entry, at_ms))
    own = {file.key for file in counted(entry.files) if entry.kind is not EntryKind.REWRITE}
    for number, file in enumerate(entry.files):
        row = (entry.version, at_ms, number, *_file_row(file))
        if file.role is Role.DEAD_LETTER:
            count = entry.dead_letters.get(file.topic_partition)
            rows[DEAD_LETTER_FILES].append((*row, list(count.stages.items()) if count else []))
        else:
            rows[FILES].append((*row, file.key in own))


def _span(entries: Sequence[CommitEntry]) -> str:
    return f"Commit entries {entries[0].version} to {entries[-1].version}"


def _entry_row(entry: CommitEntry, at_ms: int) -> tuple[Any, ...]:
    totals = entry.totals
    return (
        entry.version, at_ms, entry.commit_id, entry.epoch, str(entry.kind), entry.driver,
        totals.read, totals.written, totals.dead_letters, totals.skipped, totals.files, totals.bytes,
        len(entry.files), replace(entry, files=()).to_json().decode(),
    )  # fmt: skip


def _file_row(file: DataFile) -> tuple[Any, ...]:
    times = [_time(file.min_timestamp), _time(file.max_timestamp)]
    plain = times == [file.min_timestamp, file.max_timestamp] and not file.sorted_by and not file.slices
    plain = plain and (file.upload.key, file.upload.size) == (file.key, file.bytes)
    as_logged = None if plain else json.dumps(file_document(_without_upload_id(file)))
    return (
        file.key, file.topic, file.partition, file.first_offset, file.last_offset, file.records, file.bytes, *times,
        file.encoded_partition, file.schema, file.format, str(file.reason), str(file.role), file.upload.parts, as_logged,
    )  # fmt: skip


def _time(ms: int | None) -> int | None:
    return ms if ms is not None and _FIRST_MS <= ms <= _LAST_MS else None


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for field, column in zip(schema, columns, strict=True)], schema=schema
    )


def _files(table: pa.Table) -> Iterable[tuple[int, int, DataFile]]:
    """Version, number and file of each row."""
    numbers = {name: pa.int64() for name, kind in _FILE if kind == _TIME}
    columns = [(table[name].cast(numbers[name]) if name in numbers else table[name]).to_pylist() for name in _READ_BACK]
    for version, number, *row, parts, as_logged in zip(*columns, strict=True):
        if as_logged is not None:
            yield version, number, file_of(json.loads(as_logged))
            continue
        *plain, reason, role = row
        upload = Upload(plain[0], "", tuple(parts), plain[6])
        yield version, number, _MADE(*plain, REASONS[reason], upload, ROLES[role])


AHEAD: Final = 2
"""Stretches that are fetched before they are asked for."""
_log = logging.getLogger(__name__)


def read_history(store: ObjectStore, paths: StatePaths, *, after: int = -1) -> Iterator[CommitEntry]:
    """The entries with a version above `after`, in order; those of closed stretches have no ids of uploads.

    Raises LogDamaged where an entry itself cannot be read, StorageError.
    """
    for _, entry in scan_history(store, paths, after=after):
        if isinstance(entry, LogDamaged):
            raise entry
        yield entry


def scan_history(
    store: ObjectStore, paths: StatePaths, *, after: int = -1
) -> Iterator[tuple[str, CommitEntry | LogDamaged]]:
    """The same with their keys, for those who go on behind a damaged entry: the error comes in its place."""
    done = after
    for stretch, tables in closed_stretches(store, paths, after=after):
        if tables is None:
            yield from _scan_until(store, paths, after=done, until=stretch.last)
        else:
            yield from ((paths.commit(one.version), one) for one in entries_of(tables) if one.version > after)
        done = stretch.last
    yield from scan_entries(store, paths, after=done)


def _scan_until(
    store: ObjectStore, paths: StatePaths, *, after: int, until: int
) -> Iterator[tuple[str, CommitEntry | LogDamaged]]:
    end = paths.commit(until)
    return takewhile(lambda one: one[0] <= end, scan_entries(store, paths, after=after))


def closed_stretches(
    store: ObjectStore, paths: StatePaths, *, after: int = -1
) -> Iterator[tuple[Stretch, Tables | None]]:
    """The stretches with a version above `after` in order, with None where a stretch has to be read from its entries.

    Few are in memory at a time. Raises StorageError.
    """
    wanted = [stretch for stretch in known_stretches(store, paths).stretches if stretch.last > after]
    with ThreadPool(AHEAD) as pool:
        coming = [pool.submit(tables_or_none, store, paths, stretch) for stretch in wanted[:AHEAD]]
        for number, stretch in enumerate(wanted):
            tables = coming.pop(0).result()
            if number + AHEAD < len(wanted):
                coming.append(pool.submit(tables_or_none, store, paths, wanted[number + AHEAD]))
            yield stretch, tables


def known_stretches(store: ObjectStore, paths: StatePaths) -> Manifest:
    """The manifest of a log; empty, with a line why, where it is of no use. Raises StorageError."""
    try:
        return read_manifest(store, paths)
    except LogDamaged as error:
        _log.warning("The log is read entry by entry: %s", error)
        return Manifest()


def tables_or_none(store: ObjectStore, paths: StatePaths, stretch: Stretch) -> Tables | None:
    """A stretch's tables; None, with a line why, where they are of no use. Raises StorageError."""
    try:
        return read_tables(store, paths, stretch)
    except LogDamaged as error:
        _log.warning("Commit entries %d to %d are read one by one: %s", stretch.first, stretch.last, error)
        return None


def read_tables(store: ObjectStore, paths: StatePaths, stretch: Stretch) -> Tables:
    """A stretch's tables as they were written. Raises LogDamaged where they are not, StorageError."""
    return {name: _read(store, paths, stretch, name) for name in SCHEMAS}


def parquet_of(tables: Tables) -> Mapping[str, bytes]:
    """The tables as Parquet objects, which say the same as they do."""
    return {name: _parquet(table) for name, table in tables.items()}


def digest(content: bytes) -> str:
    """What a manifest has of an object's bytes."""
    return hashlib.sha256(content).hexdigest()


def _read(store: ObjectStore, paths: StatePaths, stretch: Stretch, name: str) -> pa.Table:
    key = paths.log_table(name, stretch.first, last=stretch.last)
    remedy = REMEDY.format(folder=paths.log_tables())
    try:
        content = store.get(key)
        if digest(content) != stretch.sha256[name]:
            raise LogDamaged(f"{key} is not what was written there. {remedy}")
        table = pq.read_table(BytesIO(content))
        return table.select(SCHEMAS[name].names).cast(SCHEMAS[name])
    except ObjectMissing as error:
        raise LogDamaged(f"{key} is missing. {remedy}") from error
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise LogDamaged(f"{key} cannot be read ({type(error).__name__}). {remedy}") from error


def _parquet(table: pa.Table) -> bytes:
    content = BytesIO()
    pq.write_table(table, content, compression="zstd", row_group_size=max(len(table), 1))
    return content.getvalue()
