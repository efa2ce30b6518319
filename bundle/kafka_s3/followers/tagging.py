"""Which tags does an object carry? First and last offset, record count, and the configured pairs (SEMANTICS A10.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.progress import FollowerPosition
from kafka_s3.model.errors import ObjectMissing, StorageError, StorageUnavailable
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore

THREADS: Final = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tagging:
    """`pairs` win over the sink's own tags of the same name; `must_succeed` is `s3.object.behavior.on.tagging.error=fail`."""

    pairs: Mapping[str, str]
    must_succeed: bool

    def tag(self, files: Iterable[DataFile], store: ObjectStore) -> list[StorageError]:
        """Tags the value objects that are there, and gives the errors; the objects are complete all the same."""
        values = [file for file in files if file.role is Role.VALUE]
        with ThreadPool(THREADS) as pool:
            return [error for error in pool.each(lambda file: self._tag(file, store), values) if error is not None]

    def _tag(self, file: DataFile, store: ObjectStore) -> StorageError | None:
        offsets = {"startOffset": str(file.first_offset), "endOffset": str(file.last_offset)}
        own = {**({} if file.slices else offsets), "recordCount": str(file.records)}
        try:
            store.tag(file.key, {**own, **self.pairs})
        except ObjectMissing:
            _log.info("object is gone, its tags with it", extra={"facts": {"key": file.key}})
        except StorageError as error:
            return error
        return None


@dataclass(frozen=True, slots=True)
class ObjectTags:
    """The follower that tags the objects of each entry, from the first entry after tags were switched on.

    What did not answer is tried again, also by the next driver: how far it has come is an object beside the log. What is refused stops
    the sink where tags must succeed, and else is a warning.
    """

    tagging: Tagging
    warn: Callable[[str], None]
    name: str = "object tags"

    @property
    def must_succeed(self) -> bool:
        """Whether the sink stops where objects cannot be tagged."""
        return self.tagging.must_succeed

    def catch_up(self, log: CommitLog) -> None:
        """Tags the objects of every entry since the last one noted. Raises StorageError."""
        position = FollowerPosition(log.store, log.paths, "tags")
        for entry in position.new_entries(log):
            if not entry.files:
                continue
            errors = self.tagging.tag(entry.files, log.store)
            away = [error for error in errors if isinstance(error, StorageUnavailable)]
            if away or (errors and self.must_succeed):
                raise (away or errors)[0]
            if errors:
                self.warn(f"{self.name}: {len(errors)} objects of entry {entry.version} stay without: {errors[0]}")
            position.note(entry.version)
