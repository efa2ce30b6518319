"""How often is a storage request tried, and how long is the wait in between?

botocore's own retries are off, so that `s3.part.retries` and `s3.retry.backoff.ms` mean what they mean to the connector.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kafka_s3.model.errors import StorageUnavailable

T = TypeVar("T")

LONGEST_WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Retrier:
    """Tries a request up to `attempts` times in all, the first included (SEMANTICS A1.3); fewer than one counts as one.

    Between two attempts it waits a random share of `backoff_ms` doubled per failure, at most 20 s. `sleep` takes seconds; `jitter`
    returns the share, in [0, 1).
    """

    attempts: int
    backoff_ms: int
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def run(self, request: Callable[[], T]) -> T:
        """The answer of the first attempt that does not raise StorageUnavailable; the last one's error, with the count of attempts."""
        attempt = 1
        while True:
            try:
                return request()
            except StorageUnavailable as error:
                if attempt >= self.attempts:
                    raise type(error)(f"{error} Tried {attempt} times (s3.part.retries).") from None
            self.sleep(self.wait_s(attempt))
            attempt += 1

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after this many failures."""
        doublings = min(failures - 1, 32)  # beyond this the cap rules; an unbounded power would overflow a float
        return self.jitter() * min(LONGEST_WAIT_S, self.backoff_ms / 1000 * 2.0**doublings)
