"""Which files has a Delta table, and how many rows? Its newest checkpoint, and the versions behind it, as Delta's protocol has them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.store.store import ObjectInfo, ObjectStore

MOST_FILES: Final = 200_000
"""Of larger tables files and rows are not told: each takes some hundred bytes."""
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
        """Bytes of all files."""
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
    """The files of a table at its newest checkpoint, else before its first version; None where they cannot be told.

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
    """The actions of a version; what is no JSON says nothing."""
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
            kind = one["type"]
            yield str(one["name"]), kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))
    except (KeyError, TypeError, ValueError):
        return


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
