"""How does pyiceberg reach the bucket? Through the sink's own store, so that every S3 setting holds for tables as it does for objects.

pyiceberg makes its file system by the name of a class, from properties that are texts; the store of a catalog is therefore found by a
number among those properties. Only small files go this way, each read and written in one piece: metadata, manifests and lists of them.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream

from kafka_s3.model.errors import ObjectMissing, PreconditionFailed
from kafka_s3.store.store import ObjectStore

NUMBER: Final = "kafka-s3.io"
SCHEMES: Final = ("s3", "s3a", "s3n")
Buckets = Callable[[str], ObjectStore]
"""The store of a bucket, by its name."""
_buckets: Final[dict[str, Buckets]] = {}
_numbers: Final = itertools.count()
_lock: Final = Lock()


def io_properties(buckets: Buckets) -> Mapping[str, str]:
    """The properties by which a catalog of pyiceberg uses these stores, as long as the process lives."""
    with _lock:
        number = str(next(_numbers))
        _buckets[number] = cache(buckets)
    return {PY_IO_IMPL: f"{BucketIO.__module__}.{BucketIO.__name__}", NUMBER: number}


class BucketIO(FileIO):
    """pyiceberg's way to files, by locations of the form `s3://bucket/key`."""

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return _Input(location, *self._store_and_key(location))

    def new_output(self, location: str) -> OutputFile:
        """A file to write."""
        return _Output(location, *self._store_and_key(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file."""
        store, key = self._store_and_key(location if isinstance(location, str) else location.location)
        store.delete(key)

    def _store_and_key(self, location: str) -> tuple[ObjectStore, str]:
        bucket, key = bucket_and_key(location)
        return _buckets[str(self.properties[NUMBER])](bucket), key


def bucket_and_key(location: str) -> tuple[str, str]:
    """The parts of a location. Raises ValueError where it is not in S3."""
    parts = urlsplit(location)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise ValueError(f"{location} is not in S3. Choose a warehouse of the form s3://bucket/folder.")
    return parts.netloc, location.split("://", 1)[1].partition("/")[2]


class _Input(InputFile):
    def __init__(self, location: str, store: ObjectStore, key: str) -> None:
        super().__init__(location)
        self._store, self._key = store, key

    def __len__(self) -> int:
        found = self._store.head(self._key)
        if found is None:
            raise FileNotFoundError(self.location)
        return found.size

    def exists(self) -> bool:
        return self._store.head(self._key) is not None

    def open(self, seekable: bool = True) -> InputStream:
        try:
            return io.BytesIO(bytes(self._store.get(self._key)))
        except ObjectMissing as error:
            raise FileNotFoundError(self.location) from error


class _Stream(io.BytesIO):
    """What is written becomes an object when it is closed, unless an error ends the writing."""

    def __init__(self, keep: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._keep = keep

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._keep(content)

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            super().close()


class _Output(OutputFile):
    def __init__(self, location: str, store: ObjectStore, key: str) -> None:
        super().__init__(location)
        self._store, self._key = store, key
        self._size: int | None = None

    def __len__(self) -> int:
        return len(self.to_input_file()) if self._size is None else self._size

    def exists(self) -> bool:
        return self._store.head(self._key) is not None

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store, self._key)

    def create(self, overwrite: bool = False) -> OutputStream:
        def keep(content: bytes) -> None:
            self._size = len(content)
            try:
                (self._store.put if overwrite else self._store.put_new)(self._key, content)
            except PreconditionFailed as error:
                raise FileExistsError(self.location) from error

        return _Stream(keep)
