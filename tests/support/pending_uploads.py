"""Pending uploads that were begun long ago."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafka_s3.store.store import ListedUpload, ObjectStore
from kafka_s3_testing.faults import Fault, FaultyStore
from tests.support.memory_world import START_MS

DAY_MS = 86_400_000


class OldUploads(FaultyStore):
    """Another store, all of whose pending uploads were begun at `started_ms`, but for those in `starts`."""

    def __init__(self, inner: ObjectStore, plan: Sequence[Fault] = (), started_ms: int = START_MS - 2 * DAY_MS) -> None:
        super().__init__(inner, plan)
        self.started_ms = started_ms
        self.starts: dict[str, int] = {}

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        for upload in super().pending(prefix):
            yield replace(upload, started_ms=self.starts.get(upload.id, self.started_ms))
