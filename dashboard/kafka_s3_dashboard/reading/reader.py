"""How does the dashboard read a bucket that may be slow, silent or full of large objects? Through one reader that bounds each request.

A request gives up after seconds, not after a minute as the sink's, and an object of more than MOST_BYTES is refused. The reader knows how
long a request has waited: that is the dashboard's own blindness, and says nothing of the sinks. Many small objects are read ahead of who
asks, in parallel; commit entries and checkpoints once: they never change.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from threading import Lock
from typing import Any, Final

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing, StorageError
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import ObjectInfo, ObjectStore
from kafka_s3_dashboard.reading.frames import EntryRows, read_rows

CONNECT_S: Final = 2.0
READ_S: Final = 4.0
ATTEMPTS: Final = 2
MOST_BYTES: Final = 64 << 20
SILENT_S: Final = 1.5
"""A request that takes longer is reported: the bucket does not answer."""


def bounded(options: StoreOptions) -> StoreOptions:
    """The options of a store whose requests give up soon."""
    return replace(options, connect_timeout_s=CONNECT_S, read_timeout_s=READ_S, part_retries=ATTEMPTS)


class BucketReader:
    """A store for reading only. Thread-safe."""

    def __init__(
        self, store: ObjectStore, *, clock_s: Callable[[], float] = time.monotonic, most_bytes: int = MOST_BYTES
    ):
        self._store, self._clock_s, self._most_bytes = store, clock_s, most_bytes
        self._numbers = itertools.count()
        self._under_way: dict[int, float] = {}

    @property
    def options(self) -> StoreOptions | None:
        """How the bucket is reached, None where it is one of memory."""
        return getattr(self._store, "options", None)

    @property
    def waiting_s(self) -> float:
        """How long the oldest request under way has been waited for; 0 where there is none."""
        began = min(list(self._under_way.values()), default=None)
        return 0.0 if began is None else self._clock_s() - began

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing; StorageError where it is larger than MOST_BYTES."""
        with self._asking():
            content = _range(self._store, key, self._most_bytes)
        if len(content) > self._most_bytes:
            raise StorageError(
                f"{key} is larger than the {self._most_bytes:,} bytes that the dashboard reads of an object."
            )
        return content

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """The object's bytes from `first` to `last`, both included, or up to its end. Raises ObjectMissing."""
        with self._asking():
            return self._store.get_range(key, first, last)

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, None where there is none."""
        with self._asking():
            return self._store.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects below `prefix` in ascending key order, beginning after `start_after`."""
        found = iter(self._store.list(prefix, start_after=start_after))
        while True:
            with self._asking():
                info = next(found, None)
            if info is None:
                return
            yield info

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly below `prefix`, folders with a slash behind, in ascending order."""
        with self._asking():
            return iter(tuple(self._store.names(prefix)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name}: the dashboard only reads.")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        number = next(self._numbers)
        self._under_way[number] = self._clock_s()
        try:
            yield
        finally:
            del self._under_way[number]


def _range(store: ObjectStore, key: str, most_bytes: int) -> bytes:
    try:
        return store.get_range(key, 0, most_bytes)
    except StorageError as error:
        if "InvalidRange" in str(error):  # an object without a byte has no range
            return b""
        raise


THREADS: Final = 8
TOGETHER: Final = 8
"""Entries that a thread reads one after the other: to hand each over would cost as much as to take it apart."""
KEPT: Final = 512
"""More than the entries between two checkpoints and one look back."""


@dataclass(frozen=True, slots=True)
class Damage:
    """An entry that cannot be read, and why."""

    version: int
    text: str


class ReadAhead:
    """A store for reading only: what a listing of commit entries shows is fetched at once, and remembered."""

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor) -> None:
        self._store, self._pool, self._lock = store, pool, Lock()
        self._held: OrderedDict[str, Future[bytes]] = OrderedDict()
        self._newest = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """As the store's; entries are on their way once they are listed."""
        if prefix.endswith("/checkpoints/"):
            yield from self._checkpoints(prefix, start_after)
            return
        found = self._store.list(prefix, start_after=start_after)
        if not prefix.endswith("/commits/"):
            yield from found
            return
        infos = list(found)
        if len(infos) <= KEPT:
            for info in infos:
                self._fetch(info.key)
        yield from infos

    def _checkpoints(self, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """From the newest checkpoint that is known on: a long log has thousands, and only the last one counts."""
        if self._newest and not start_after:
            found = list(self._store.list(prefix, start_after=self._newest[:-1]))
            if found:
                self._newest = found[-1].key
                yield from found
                return
        self._newest = ""
        for info in self._store.list(prefix, start_after=start_after):
            self._newest = info.key
            yield info

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing."""
        if not _is_fixed(key):
            return self._store.get(key)
        if (held := self._coming(key)) is not None:
            return held.result()
        content = self._store.get(key)  # here: a thread of the pool that waits for another one may wait for ever
        done: Future[bytes] = Future()
        done.set_result(content)
        self._hold(key, done)
        return content

    def _fetch(self, key: str) -> None:
        if self._coming(key) is None:
            self._hold(key, self._pool.submit(self._store.get, key))

    def _coming(self, key: str) -> Future[bytes] | None:
        """What is held of an object, None where it has to be asked (again)."""
        with self._lock:
            held = self._held.get(key)
        return None if held is None or (held.done() and held.exception() is not None) else held

    def _hold(self, key: str, content: Future[bytes]) -> None:
        with self._lock:
            self._held[key] = content
            self._held.move_to_end(key)
            while len(self._held) > KEPT:
                self._held.popitem(last=False)

    def forget(self) -> None:
        """Drops what is remembered: another log has begun."""
        with self._lock:
            self._held.clear()
            self._newest = ""


def _is_fixed(key: str) -> bool:
    return "/commits/" in key or "/checkpoints/" in key


def entries_of(
    store: ObjectStore,
    paths: StatePaths,
    versions: Sequence[int],
    *,
    pool: ThreadPoolExecutor,
    first: Callable[[], None] = lambda: None,
) -> tuple[list[EntryRows], list[Damage]]:
    """The rows of these entries, and the versions that are missing or damaged; `first` comes before a few. Raises StorageError where the
    bucket refuses.
    """

    def read(some: Sequence[int]) -> list[EntryRows | Damage]:
        first()
        return [_entry_or_damage(store, paths, version) for version in some]

    pieces = [versions[at : at + TOGETHER] for at in range(0, len(versions), TOGETHER)]
    found = [row for rows in pool.map(read, pieces) for row in rows]
    found.sort(key=attrgetter("version"))
    return [one for one in found if not isinstance(one, Damage)], [one for one in found if isinstance(one, Damage)]


def _entry_or_damage(store: ObjectStore, paths: StatePaths, version: int) -> EntryRows | Damage:
    key = paths.commit(version)
    try:
        entry = read_rows(store.get(key), key=key)
    except ObjectMissing:
        return Damage(version, f"Commit entry {key} is missing. Restore the object from a bucket version or backup.")
    except LogDamaged as error:
        return Damage(version, str(error))
    if entry.version != version:
        return Damage(
            version, f"Commit entry {key} calls itself entry {entry.version}. Restore the object from a backup."
        )
    return entry


def versions_listed(infos: Iterable[ObjectInfo]) -> list[int]:
    """The versions that the keys of commit entries name."""
    stems = (info.key.rpartition("/")[2].removesuffix(".json") for info in infos)
    return [int(stem) for stem in stems if stem.isdigit()]
