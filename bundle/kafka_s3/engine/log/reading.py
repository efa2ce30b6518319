"""How are many entries of a log read? In order, several requests at a time, with little of them in memory."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry, read_entry
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectInfo, ObjectStore

READ_THREADS: Final = 8
AHEAD: Final = 256
AHEAD_BYTES: Final = 8 << 20
"""What is fetched before it is asked for: so many entries at most, and so much JSON but for a single entry that is larger."""


def read_entries(
    store: ObjectStore, paths: StatePaths, *, after: int = -1
) -> Generator[tuple[str, CommitEntry], None, None]:
    """The entries with a version above `after` and their keys, in order, each as it lies in the bucket. Raises LogDamaged, StorageError."""

    def read(info: ObjectInfo) -> tuple[str, CommitEntry]:
        return info.key, read_entry(store.get(info.key), key=info.key)

    start = paths.commit(after) if after >= 0 else ""
    found = store.list(f"{paths.root}commits/", start_after=start)
    with ThreadPool(READ_THREADS) as pool:
        for window in _windows(found):
            yield from pool.each(read, window)


def _windows(found: Iterable[ObjectInfo]) -> Iterator[list[ObjectInfo]]:
    window: list[ObjectInfo] = []
    size = 0
    for info in found:
        if window and (len(window) == AHEAD or size + info.size > AHEAD_BYTES):
            yield window
            window, size = [], 0
        window.append(info)
        size += info.size
    if window:
        yield window
