"""How does the dashboard read a bucket that may be slow, silent or full of large objects? Through one reader that bounds each request.

A request gives up after seconds, not after a minute as the sink's, and an object of more than MOST_BYTES is refused. The reader knows how
long a request has waited: that is the dashboard's own blindness, and says nothing of the sinks.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, Final

from kafka_s3.model.errors import StorageError
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import ObjectInfo, ObjectStore

CONNECT_S: Final = 2.0
READ_S: Final = 4.0
ATTEMPTS: Final = 2
MOST_BYTES: Final = 64 << 20
SILENT_S: Final = 1.5
"""A request that takes longer is told: the bucket does not answer."""


def bounded(options: StoreOptions) -> StoreOptions:
    """The options of a store whose requests give up soon."""
    return replace(options, connect_timeout_s=CONNECT_S, read_timeout_s=READ_S, part_retries=ATTEMPTS)


class BucketReader:
    """A store for reading only. Thread-safe."""

    def __init__(
        self, store: ObjectStore, *, clock_s: Callable[[], float] = time.monotonic, most_bytes: int = MOST_BYTES
    ):
        self._store, self._clock_s, self._most_bytes = store, clock_s, most_bytes
        self._lock, self._numbers = Lock(), itertools.count()
        self._under_way: dict[int, float] = {}

    @property
    def options(self) -> StoreOptions | None:
        """How the bucket is reached, None where it is one of memory."""
        return getattr(self._store, "options", None)

    @property
    def waiting_s(self) -> float:
        """How long the oldest request under way has been waited for; 0 where there is none."""
        with self._lock:
            began = min(self._under_way.values(), default=None)
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
        with self._lock:
            self._under_way[number] = self._clock_s()
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[number]


def _range(store: ObjectStore, key: str, most_bytes: int) -> bytes:
    try:
        return store.get_range(key, 0, most_bytes)
    except StorageError as error:
        if "InvalidRange" in str(error):  # an object without a byte has no range
            return b""
        raise
