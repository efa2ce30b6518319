"""Which tags does an object carry? First and last offset, record count, and the configured pairs (SEMANTICS A10.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kafka_s3.model.errors import StorageError
from kafka_s3.model.files import DataFile, Role
from kafka_s3.storage.store import ObjectStore

THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Tagging:
    """`pairs` win over the sink's own tags of the same name; `must_succeed` is `s3.object.behavior.on.tagging.error=fail`."""

    pairs: Mapping[str, str]
    must_succeed: bool

    def tag(self, files: Iterable[DataFile], store: ObjectStore) -> None:
        """Tags the value objects. Raises StorageError where that must succeed; the objects are complete all the same."""
        values = [file for file in files if file.role is Role.VALUE]
        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            errors = [error for error in pool.map(lambda file: self._tag(file, store), values) if error is not None]
        if errors and self.must_succeed:
            raise errors[0]

    def _tag(self, file: DataFile, store: ObjectStore) -> StorageError | None:
        own = {
            "startOffset": str(file.first_offset),
            "endOffset": str(file.last_offset),
            "recordCount": str(file.records),
        }
        try:
            store.tag(file.key, {**own, **self.pairs})
        except StorageError as error:
            return error
        return None
