"""What happened, from the first entry on? The log's closed stretches as tables, and the entries behind them as they are.

Tables are never the truth: those that are missing, damaged or of another log cost time only, and a line says why.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import takewhile
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.manifest import AGAIN, Manifest, Stretch, read_manifest
from kafka_s3.engine.log.reading import read_entries
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.log.tables import SCHEMAS, Tables, entries_of
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore

AHEAD: Final = 2
"""Stretches that are fetched before they are asked for."""
_log = logging.getLogger(__name__)


def read_history(store: ObjectStore, paths: StatePaths, *, after: int = -1) -> Iterator[tuple[str, CommitEntry]]:
    """The entries with a version above `after` and their keys, in order; those of closed stretches have no ids of uploads.

    Raises LogDamaged where an entry itself cannot be read, StorageError.
    """
    done = after
    for stretch, tables in closed_stretches(store, paths, after=after):
        if tables is None:
            yield from _one_by_one(store, paths, after=done, until=stretch.last)
        else:
            yield from ((paths.commit(one.version), one) for one in entries_of(tables) if one.version > after)
        done = stretch.last
    yield from read_entries(store, paths, after=done)


def _one_by_one(store: ObjectStore, paths: StatePaths, *, after: int, until: int) -> Iterator[tuple[str, CommitEntry]]:
    return takewhile(lambda one: one[1].version <= until, read_entries(store, paths, after=after))


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
    """What a manifest tells of an object's bytes."""
    return hashlib.sha256(content).hexdigest()


def _read(store: ObjectStore, paths: StatePaths, stretch: Stretch, name: str) -> pa.Table:
    key = paths.log_table(name, stretch.first, last=stretch.last)
    remedy = AGAIN.format(folder=paths.log_tables())
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
