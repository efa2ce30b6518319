"""Which version of a Delta table holds an entry's files? What the tables' own logs say of it, read back from their newest versions.

A version of a table never changes: each is read once. Readers wait for a first answer a moment at most; later ones come behind them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import pandas as pd

from kafka_s3.model.errors import StorageError
from kafka_s3.storage.store import ObjectStore
from reading.frames import data_files

NEWEST: Final = 300
KEPT_S: Final = 15.0
PATIENCE_S: Final = 1.0
REBUILT: Final = "rebuild"
THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Added:
    """A version of a table that holds the files of the entries `first` to `last`."""

    version: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TableLog:
    """What was read of a table's log: what its newest versions added, in their order.

    `last` is the key of the newest version, blank where there is none.
    """

    added: tuple[Added, ...] = ()
    last: str = ""

    def version_of(self, entry: int) -> int | None:
        """The first version that holds the files of an entry; None where none of those that were read does."""
        return next((one.version for one in self.added if one.first <= entry <= one.last), None)


@dataclass(slots=True)
class _Held:
    """The last answer about a table, None if there was none yet, and the one that is on its way."""

    asked_s: float
    coming: Future[TableLog]
    log: TableLog | None = None


class TableLogs:
    """The logs of a sink's tables, each asked again after KEPT_S seconds at the earliest; close it when done. Thread-safe."""

    def __init__(self, store: ObjectStore, sink: str, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._store, self._sink, self._clock_s = store, sink, clock_s
        self._tables = ThreadPoolExecutor(THREADS, thread_name_prefix=f"tables of {sink}")
        self._readers = ThreadPoolExecutor(THREADS, thread_name_prefix=f"versions of {sink}")
        self._held: dict[str, _Held] = {}
        self._lock = Lock()

    def of(self, folders: Iterable[str]) -> list[TableLog]:
        """What is known of the tables in these folders; empty logs where there are none, or they cannot be read (yet).

        Only the first answer is waited for, and not for long; later ones come with the next call.
        """
        held = [self._asked(folder) for folder in folders]
        return [_answer(one, one.asked_s + PATIENCE_S - self._clock_s()) for one in held]

    def close(self) -> None:
        """Ends the threads."""
        self._tables.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _asked(self, folder: str) -> _Held:
        with self._lock:
            held, now = self._held.get(folder), self._clock_s()
            if held is None:
                held = self._held[folder] = _Held(now, self._tables.submit(self._read, folder, TableLog()))
            elif now - held.asked_s > KEPT_S and held.coming.done():
                held.log = held.coming.result()
                held.asked_s, held.coming = now, self._tables.submit(self._read, folder, held.log)
            return held

    def _read(self, folder: str, before: TableLog) -> TableLog:
        try:
            return read_table(self._store, folder, self._sink, before=before, pool=self._readers)
        except StorageError:
            return before
        except RuntimeError:  # closed meanwhile: the pool takes no more work
            return before


def _answer(held: _Held, seconds: float) -> TableLog:
    if held.log is not None and not held.coming.done():
        return held.log
    try:
        return held.coming.result(max(seconds, 0))
    except TimeoutError:
        return TableLog()


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
    keys = [info.key for info in infos if _number(info.key) is not None][-NEWEST:]
    added = list(before.added)
    for key, content in zip(keys, pool.map(store.get, keys), strict=True):
        for action in _actions(content):
            added.extend(_added(action, sink, _number(key) or 0))
    return TableLog(tuple(added[-NEWEST:]), keys[-1] if keys else before.last)


def _number(key: str) -> int | None:
    """The version that a key names: `00000000000000000012.json`, and nothing else of the log."""
    stem, dot, kind = key.rpartition("/")[2].partition(".")
    return int(stem) if dot and kind == "json" and stem.isdigit() else None


def _actions(content: bytes) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        return []
    return [action for action in found if isinstance(action, dict)]


def _added(action: dict[str, Any], sink: str, number: int) -> list[Added]:
    """A commit of the sink, or of a rebuild, says in its user metadata which entries it holds."""
    try:
        note = json.loads(action["commitInfo"]["userMetadata"])
        return [Added(number, *note["entries"])] if note["kafka-s3"] in (sink, REBUILT) else []
    except (KeyError, TypeError, ValueError):
        return []
