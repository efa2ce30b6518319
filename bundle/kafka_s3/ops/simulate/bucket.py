"""What does a sink ask of its bucket? A store in memory that counts requests, and forgets the content of objects that are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from kafka_s3.model.files import Upload
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import Body, ObjectInfo

READING: Final = frozenset({"get", "head"})
FREE: Final = frozenset({"delete", "abort"})
"""What S3 does not charge for; everything that is neither counts as writing, listings too."""


class CountingStore(MemoryStore):
    """The contract is `store.ObjectStore`'s, but for the content of completed uploads: it is gone. `requests` counts calls by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    @property
    def writes(self) -> int:
        """Requests at the price of writing."""
        return sum(count for kind, count in self.requests.items() if kind not in READING | FREE)

    @property
    def reads(self) -> int:
        """Requests at the price of reading."""
        return sum(self.requests[kind] for kind in READING)

    def put(self, key: str, data: Body) -> str:
        """As `store.ObjectStore`."""
        self.requests["put"] += 1
        return super().put(key, data)

    def put_new(self, key: str, data: bytes) -> str:
        """As `store.ObjectStore`."""
        self.requests["put"] += 1
        return super().put_new(key, data)

    def get(self, key: str) -> bytes:
        """As `store.ObjectStore`."""
        self.requests["get"] += 1
        return super().get(key)

    def head(self, key: str) -> ObjectInfo | None:
        """As `store.ObjectStore`."""
        self.requests["head"] += 1
        return super().head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """As `store.ObjectStore`; one page."""
        self.requests["list"] += 1
        return super().list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        """As `store.ObjectStore`."""
        self.requests["delete"] += 1
        super().delete(key)

    def create_upload(self, key: str) -> str:
        """As `store.ObjectStore`."""
        self.requests["create upload"] += 1
        return super().create_upload(key)

    def upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """As `store.ObjectStore`."""
        self.requests["upload part"] += 1
        return super().upload_part(key, upload_id, number, data)

    def complete_upload(self, upload: Upload) -> None:
        """As `store.ObjectStore`; then the content is forgotten."""
        self.requests["complete upload"] += 1
        super().complete_upload(upload)
        super().put(upload.key, b"")

    def upload_exists(self, key: str, upload_id: str) -> bool:
        """As `store.ObjectStore`."""
        self.requests["list"] += 1
        return super().upload_exists(key, upload_id)

    def abort_upload(self, key: str, upload_id: str) -> None:
        """As `store.ObjectStore`."""
        self.requests["abort"] += 1
        super().abort_upload(key, upload_id)

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        """As `store.ObjectStore`."""
        self.requests["tag"] += 1
        super().tag(key, tags)
