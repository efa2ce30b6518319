"""A bucket in S3 whose objects have the times of a test's clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import Body, ObjectInfo


class ClockedS3(S3Store):
    """A store that says of what it has put itself that it was put by the clock's time."""

    def __init__(self, options: StoreOptions, clock_ms: Callable[[], int]) -> None:
        super().__init__(options)
        self._clock_ms = clock_ms
        self._put_ms: dict[str, int] = {}

    def put(self, key: str, data: Body) -> str:
        self._put_ms[key] = self._clock_ms()
        return super().put(key, data)

    def put_new(self, key: str, data: bytes) -> str:
        self._put_ms[key] = self._clock_ms()
        return super().put_new(key, data)

    def head(self, key: str) -> ObjectInfo | None:
        info = super().head(key)
        return None if info is None else replace(info, modified_ms=self._put_ms.get(key, info.modified_ms))
