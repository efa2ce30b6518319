"""What do the logs of a sink's Delta tables say? Their versions, the entries that each holds, files and rows, columns, what was left out.

A version of a table never changes: each is read once, the newest ones of a long log, and files from its newest checkpoint on. Readers wait
for a first answer a moment at most; later ones come behind them.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.engine.task.table_guard.columns import RESCUED
from kafka_s3.followers.delta.planner import APP
from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.store.store import ObjectInfo, ObjectStore
from kafka_s3_dashboard.reading.background import Answers
from kafka_s3_dashboard.reading.frames import data_files

MOST_FILES: Final = 200_000
"""Of larger tables files and rows are not counted: each takes some hundred bytes."""
MOST_LISTED: Final = 20_000
_COLUMNS: Final = ("add.path", "add.size", "add.stats", "txn.appId", "txn.version", "metaData.schemaString")
Files = dict[str, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a table at a version: path, bytes, rows (None where the table does not say).

    `positions` and `types` are what a checkpoint says of applications and columns; blank where there was none.
    """

    version: int
    files: Files
    positions: Mapping[str, int] = field(default_factory=dict)
    types: tuple[tuple[str, str], ...] = ()

    @property
    def rows(self) -> int | None:
        """Rows of all files, None where one does not say."""
        counts = [rows for _, rows in self.files.values()]
        return None if None in counts else sum(rows or 0 for rows in counts)

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    def after(self, version: int, actions: Iterable[dict[str, Any]]) -> TableFiles | None:
        """The files after the next version, None where they are too many to be held."""
        files = dict(self.files)
        for action in actions:
            match action:
                case {"remove": {"path": str(path)}}:
                    files.pop(path, None)
                case {"add": {"path": str(path), "size": int(size)} as add}:
                    files[path] = (size, rows_of(stats_of(add)))
        return TableFiles(version, files) if len(files) <= MOST_FILES else None


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The Parquet objects below a table's folder: how many, their bytes, and the keys; `whole` is false where there are more."""

    keys: tuple[str, ...]
    bytes: int
    whole: bool


def list_folder(store: ObjectStore, folder: str) -> FolderFiles:
    """What lies below a table's folder, in the table or not, but for its log; at most MOST_LISTED objects. Raises StorageError."""
    keys: list[str] = []
    size = 0
    for info in _objects(store, folder):
        if len(keys) == MOST_LISTED:
            return FolderFiles(tuple(keys), size, whole=False)
        keys.append(info.key)
        size += info.size
    return FolderFiles(tuple(keys), size, whole=True)


def _objects(store: ObjectStore, folder: str) -> Iterator[ObjectInfo]:
    log = f"{folder}_delta_log/"
    for start in ("", f"{folder}_delta_log0"):  # the log may be long, and is passed over
        for info in store.list(folder, start_after=start):
            if info.key.startswith(log) and not start:
                break
            if info.key.endswith(".parquet") and (start or info.key < log):
                yield info
        else:
            if not start:
                return


def begun(store: ObjectStore, folder: str, *, first: int) -> TableFiles | None:
    """The files of a table at its newest checkpoint, else before its first version; None where they are not known.

    `first` is the lowest version that is there. Raises StorageError.
    """
    log = f"{folder}_delta_log/"
    try:
        last = json.loads(store.get(f"{log}_last_checkpoint"))
        version = int(last["version"])
        if not last.get("parts") and not last.get("v2Checkpoint"):
            return read_checkpoint(store.get(f"{log}{version:020d}.checkpoint.parquet"), version)
    except ObjectMissing:
        return TableFiles(-1, {}) if first == 0 else None
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        pass
    except StorageError as error:
        if "larger than" not in str(error):
            raise
    return None


def read_checkpoint(content: bytes, version: int) -> TableFiles | None:
    """A checkpoint's files, None where there are more than MOST_FILES. Raises pyarrow's own error where it is damaged."""
    file = pq.ParquetFile(io.BytesIO(content))
    if file.metadata.num_rows > MOST_FILES:
        return None
    files: Files = {}
    positions: dict[str, int] = {}
    types: tuple[tuple[str, str], ...] = ()
    for batch in file.iter_batches(columns=list(_COLUMNS)):
        for row in batch.to_pylist():
            add, txn, meta = row.get("add"), row.get("txn"), row.get("metaData")
            if add and add.get("path"):
                files[add["path"]] = (add["size"], rows_of(stats_of(add)))
            if txn and txn.get("appId"):
                positions[txn["appId"]] = txn["version"]
            if meta and meta.get("schemaString"):
                types = tuple(types_of(meta["schemaString"]))
    return TableFiles(version, files, positions, types)


def actions_of(content: bytes) -> Iterator[dict[str, Any]]:
    """The actions of a version; what is not a JSON says nothing."""
    for line in content.splitlines():
        try:
            action = json.loads(line)
        except ValueError:
            continue
        if isinstance(action, dict):
            yield action


def types_of(schema: str) -> Iterator[tuple[str, str]]:
    """The columns of a schema as Delta writes it: names, and types as texts."""
    try:
        for one in json.loads(schema)["fields"]:
            yield str(one["name"]), type_text(one)
    except (KeyError, TypeError, ValueError):
        return


def type_text(field: Any) -> str:
    """The type of a column as Delta writes it, as a text."""
    kind = field["type"]
    return kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))


def stats_of(add: dict[str, Any]) -> dict[str, Any]:
    """What the table says of a file's rows."""
    try:
        found = json.loads(add.get("stats") or "{}")
    except (ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def rows_of(stats: dict[str, Any]) -> int | None:
    """The number of rows."""
    rows = stats.get("numRecords")
    return rows if isinstance(rows, int) else None


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
    table (-1: none). `files` are those of the table now, None where they are not known.
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


class _Reading:
    """A table's log as it is read on, version by version."""

    def __init__(self, sink: str, before: TableLog, base: TableFiles | None) -> None:
        self.sink, self.versions, self.columns = sink, list(before.versions), list(before.columns)
        self.position = max(before.position, base.positions.get(f"{APP}{sink}", -1) if base else -1)
        self.files = base or before.files
        if base is not None and base.types:
            self.columns.append(ColumnsAt(base.version, base.types))

    def skip(self, first: int) -> None:
        """The versions below this one are not read: files are known only from a checkpoint at or behind them."""
        if self.files is not None and self.files.version + 1 < first:
            self.files = None

    def take(self, number: int, actions: list[dict[str, Any]]) -> None:
        found = TableVersion(number)
        for action in actions:
            found = self._action(found, action)
        self.versions.append(found)
        if self.files is not None and number > self.files.version:
            self.files = self.files.after(number, actions)

    def log(self, last: str) -> TableLog:
        return TableLog(tuple(self.versions[-NEWEST:]), tuple(self.columns[-NEWEST:]), self.position, self.files, last)

    def _action(self, found: TableVersion, action: dict[str, Any]) -> TableVersion:
        match action:
            case {"commitInfo": dict(info)}:
                return _described(found, info, self.sink)
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


def _described(found: TableVersion, info: dict[str, Any], sink: str) -> TableVersion:
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
