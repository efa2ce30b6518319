"""The uploads of a bucket in memory, as S3 lists them."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_s3.model.errors import StorageError
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ListedUpload
from tests.support.memory_world import START_MS

DAY_MS = 86_400_000


class Listing:
    """S3's listing of uploads over a bucket in memory; all began at `started_ms`, but for those in `starts`."""

    def __init__(self, bucket: MemoryStore, started_ms: int = START_MS - 2 * DAY_MS) -> None:
        self.bucket = bucket
        self.started_ms = started_ms
        self.starts: dict[str, int] = {}
        self.refusal: StorageError | None = None

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        if self.refusal is not None:
            raise self.refusal
        for upload_id, upload in self.bucket.uploads.items():
            if upload.key.startswith(prefix):
                yield ListedUpload(upload.key, upload_id, self.starts.get(upload_id, self.started_ms))
