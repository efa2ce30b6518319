"""What did a store's requests cost? Counted beside the requests, and taken away by whoever tells it on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from kafka_s3.model.errors import ObjectMissing, PreconditionFailed, UploadMissing
from kafka_s3.model.timing import Requests, took


class RequestTally:
    """The requests since the last look. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._now = Requests()

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Counts one request, which the body sends. That something is missing, or there already, is an answer and no failure."""
        begun, failed = time.monotonic(), {operation: 1}
        try:
            yield
            failed = {}
        except (ObjectMissing, UploadMissing, PreconditionFailed):
            failed = {}
            raise
        finally:
            self._add(Requests({operation: took(time.monotonic() - begun)}, failed))

    def again(self) -> None:
        """Counts an attempt after a failed one."""
        self._add(Requests(again=1))

    def taken(self) -> Requests:
        """What was counted since the last call."""
        with self._lock:
            told, self._now = self._now, Requests()
        return told

    def _add(self, more: Requests) -> None:
        with self._lock:
            self._now = self._now.plus(more)
