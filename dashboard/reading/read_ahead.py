"""How are many small objects read quickly? Ahead of who asks, in parallel; commit entries and checkpoints once: they never change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from kafka_s3.engine.log.entry import CommitEntry, read_entry
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.store.store import ObjectInfo, ObjectStore

THREADS: Final = 16
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
) -> tuple[list[CommitEntry], list[Damage]]:
    """The entries of these versions, and those that are missing or damaged; `first` comes before each. Raises StorageError where the
    bucket refuses.
    """

    def read(version: int) -> CommitEntry | Damage:
        first()
        return _entry_or_damage(store, paths, version)

    found = list(pool.map(read, versions))
    return [one for one in found if not isinstance(one, Damage)], [one for one in found if isinstance(one, Damage)]


def _entry_or_damage(store: ObjectStore, paths: StatePaths, version: int) -> CommitEntry | Damage:
    key = paths.commit(version)
    try:
        entry = read_entry(store.get(key), key=key)
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
