"""What do the logs of a sink's Delta tables say? Their versions, the entries that each holds, files and rows, columns, what was left out.

A version of a table never changes: each is read once, the newest ones of a long log, and files from its newest checkpoint on. Readers wait
for a first answer a moment at most; later ones come behind them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from kafka_s3.engine.task.table_guard.columns import RESCUED
from kafka_s3.followers.delta.planner import APP
from kafka_s3.model.errors import StorageError
from kafka_s3.store.store import ObjectStore
from reading.answers import Answers
from reading.delta_files import TableFiles, actions_of, begun, rows_of, stats_of, types_of
from reading.frames import data_files

NEWEST: Final = 300
KEPT_S: Final = 15.0
REBUILT: Final = "rebuild"
THREADS: Final = 8
MOST_TABLES: Final = 64


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table: what was done, at epoch ms, and by which entries of the sink's log (`first` is -1 where by none).

    `rows` and `bytes` are those of the `added` files, `rescued` of these rows have data without a column; `left_out` are objects that the
    sink kept out of the table.
    """

    version: int
    at_ms: int = -1
    operation: str = ""
    first: int = -1
    last: int = -1
    added: int = 0
    removed: int = 0
    rows: int = 0
    bytes: int = 0
    rescued: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnsAt:
    """The columns of a table from a version on, by name, with their types."""

    version: int
    types: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableLog:
    """What was read of a table's log: its newest versions, in their order, and the columns where they changed.

    `last` is the key of the newest version, blank where there is none. `position` is the entry up to which the sink's objects are in the
    table (-1: none). `files` are those of the table now, None where they cannot be told.
    """

    versions: tuple[TableVersion, ...] = ()
    columns: tuple[ColumnsAt, ...] = ()
    position: int = -1
    files: TableFiles | None = None
    last: str = ""

    def version_of(self, entry: int) -> int | None:
        """The first version that holds the files of an entry; None where none of those that were read does."""
        return next((one.version for one in self.versions if one.first <= entry <= one.last), None)


class TableLogs:
    """The logs of a sink's tables, each asked again after KEPT_S seconds at the earliest; close it when done. Thread-safe."""

    def __init__(self, store: ObjectStore, sink: str, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._store, self._sink = store, sink
        self._answers = Answers(f"tables of {sink}", threads=THREADS, most=MOST_TABLES, clock_s=clock_s)
        self._readers = ThreadPoolExecutor(THREADS, thread_name_prefix=f"versions of {sink}")
        self._known: dict[str, TableLog] = {}

    def of(self, folders: Iterable[str]) -> list[TableLog]:
        """What is known of the tables in these folders; empty logs where there are none, or they cannot be read (yet).

        Only the first answer is waited for, and not for long; later ones come with the next call.
        """
        asked = [(folder, lambda folder=folder: self._read(folder)) for folder in folders]
        return [self._answers.of(folder, read, again_s=KEPT_S) or TableLog() for folder, read in asked]

    def ready(self, folder: str) -> bool:
        """Whether nothing is on its way of a table."""
        return self._answers.ready(folder)

    def close(self) -> None:
        """Ends the threads."""
        self._answers.close()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _read(self, folder: str) -> TableLog:
        before = self._known.get(folder, TableLog())
        try:
            found = read_table(self._store, folder, self._sink, before=before, pool=self._readers)
        except (StorageError, RuntimeError):  # not to be read, or closed meanwhile: the pool takes no more work
            return before
        self._known[folder] = found
        return found


def folders(files: pd.DataFrame) -> dict[str, str]:
    """The folder of each topic's Parquet objects, `<topics.dir>/<topic>/`."""
    rows = data_files(files, "topic", "encoded", "folder", "format")
    newest = rows[(rows["format"] == "parquet").to_numpy()].drop_duplicates("topic", keep="last")
    made = {}
    for row in newest.itertuples():
        folder, encoded = str(row.folder), str(row.encoded).strip("/")
        made[str(row.topic)] = folder.removesuffix(f"{encoded}/")
    return made


def read_table(store: ObjectStore, folder: str, sink: str, *, before: TableLog, pool: ThreadPoolExecutor) -> TableLog:
    """What is new in a table's log behind `before`; of a long log the newest versions. Raises StorageError where it may not be read."""
    infos = store.list(f"{folder}_delta_log/", start_after=before.last)
    keys = [info.key for info in infos if _number(info.key) is not None]
    made = _Reading(
        sink, before, begun(store, folder, first=_number(keys[0]) or 0) if keys and not before.last else None
    )
    if len(keys) > NEWEST:
        made.skip(_number(keys[-NEWEST]) or 0)
        keys = keys[-NEWEST:]
    for key, content in zip(keys, pool.map(store.get, keys), strict=True):
        made.take(_number(key) or 0, list(actions_of(content)))
    return made.log(keys[-1] if keys else before.last)


@dataclass(slots=True)
class _Reading:
    """A table's log as it is read on, version by version."""

    sink: str
    before: TableLog
    base: TableFiles | None
    versions: list[TableVersion] = field(init=False)
    columns: list[ColumnsAt] = field(init=False)
    position: int = field(init=False)
    files: TableFiles | None = field(init=False)

    def __post_init__(self) -> None:
        self.versions, self.columns = list(self.before.versions), list(self.before.columns)
        self.position = max(self.before.position, self.base.positions.get(f"{APP}{self.sink}", -1) if self.base else -1)
        self.files = self.base or self.before.files
        if self.base is not None and self.base.types:
            self.columns.append(ColumnsAt(self.base.version, self.base.types))

    def skip(self, first: int) -> None:
        """The versions below this one are not read: files can be told only from a checkpoint at or behind them."""
        if self.files is not None and self.files.version + 1 < first:
            self.files = None

    def take(self, number: int, actions: list[dict[str, Any]]) -> None:
        """The next version."""
        found = TableVersion(number)
        for action in actions:
            found = self._action(found, action)
        self.versions.append(found)
        if self.files is not None and number > self.files.version:
            self.files = self.files.after(number, actions)

    def log(self, last: str) -> TableLog:
        """What was read."""
        return TableLog(tuple(self.versions[-NEWEST:]), tuple(self.columns[-NEWEST:]), self.position, self.files, last)

    def _action(self, found: TableVersion, action: dict[str, Any]) -> TableVersion:
        match action:
            case {"commitInfo": dict(info)}:
                return _told(found, info, self.sink)
            case {"add": dict(add)}:
                stats = stats_of(add)
                rows = rows_of(stats) or 0
                rescued = rows - _nulls(stats, rows)
                return replace(
                    found, added=found.added + 1, rows=found.rows + rows, bytes=found.bytes + int(add.get("size", 0)),
                    rescued=found.rescued + rescued,
                )  # fmt: skip
            case {"remove": dict()}:
                return replace(found, removed=found.removed + 1)
            case {"metaData": {"schemaString": str(text)}}:
                self._columns(found.version, text)
            case {"txn": {"appId": str(name), "version": int(position)}} if name == f"{APP}{self.sink}":
                self.position = max(self.position, position)
        return found

    def _columns(self, number: int, schema: str) -> None:
        types = tuple(types_of(schema))
        if types and (not self.columns or self.columns[-1].types != types):
            self.columns.append(ColumnsAt(number, types))


def _told(found: TableVersion, info: dict[str, Any], sink: str) -> TableVersion:
    """What a commit says of itself; one of the sink, or of a rebuild, says in its user metadata which entries it holds."""
    at = info.get("timestamp")
    found = replace(found, operation=str(info.get("operation", "")), at_ms=at if isinstance(at, int) else -1)
    try:
        note = json.loads(info["userMetadata"])
        if note["kafka-s3"] not in (sink, REBUILT):
            return found
        first, last = map(int, note["entries"])
        return replace(found, first=first, last=last, left_out=tuple(map(str, note.get("left_out", ()))))
    except (KeyError, TypeError, ValueError):
        return found


def _nulls(stats: dict[str, Any], rows: int) -> int:
    counts = stats.get("nullCount")
    nulls = counts.get(RESCUED) if isinstance(counts, dict) else None
    return nulls if isinstance(nulls, int) else rows


def _number(key: str) -> int | None:
    """The version that a key names: `00000000000000000012.json`, and nothing else of the log."""
    stem, dot, kind = key.rpartition("/")[2].partition(".")
    return int(stem) if dot and kind == "json" and stem.isdigit() else None
