"""A bucket in which each object is as a log claims it: the log lies in a folder, objects are listed from its tables and have no content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from kafka_s3.engine.log.history import FILES, read_tables
from kafka_s3.engine.log.reading import read_entries, read_manifest
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.store.store import ObjectInfo, etag_of


class ListedBucket:
    """As much of a store as an audit asks that reads no object."""

    def __init__(self, folder: Path, paths: StatePaths) -> None:
        self._folder, self._paths = folder, paths

    def get(self, key: str) -> bytes:
        try:
            return (self._folder / key).read_bytes()
        except FileNotFoundError:
            raise ObjectMissing(key) from None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        if prefix.startswith(self._paths.root):
            names = (
                str(path.relative_to(self._folder)) for path in (self._folder / prefix).glob("*") if path.is_file()
            )
            yield from (ObjectInfo(key, 1, "", 0) for key in sorted(names) if key > start_after)
            return
        manifest = read_manifest(self, self._paths)  # type: ignore[arg-type]
        for stretch in manifest.stretches:
            table = read_tables(self, self._paths, stretch)[FILES]  # type: ignore[arg-type]
            table = table.filter(pc.starts_with(table["key"], prefix))
            rows = zip(table["key"].to_pylist(), table["bytes"].to_pylist(), table["parts"].to_pylist(), strict=True)
            yield from (ObjectInfo(key, size, etag_of(parts), 0) for key, size, parts in rows)
        for _, entry in read_entries(self, self._paths, after=manifest.last):  # type: ignore[arg-type]
            for file in entry.files:
                if file.key.startswith(prefix):
                    yield ObjectInfo(file.key, file.bytes, etag_of(file.upload.parts), 0)

    def head(self, key: str) -> ObjectInfo | None:
        return None
