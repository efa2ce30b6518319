"""How often is a storage request tried, and how long is the wait in between?

botocore's own retries are off, so that `s3.part.retries` and `s3.retry.backoff.ms` mean what they mean to the connector.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.timing import Backoff, RateLimiter

T = TypeVar("T")

LONGEST_WAIT_MS: Final = 20_000
WARNINGS_S: Final = 60
_log = logging.getLogger(__name__)
_warnings = RateLimiter(WARNINGS_S)


@dataclass(frozen=True, slots=True)
class Retrier:
    """Tries a request up to `attempts` times in all, the first included (SEMANTICS A1.3); fewer than one counts as one.

    Between two attempts it waits a random share of `backoff_ms` doubled per failure, at most 20 s. `sleep` takes seconds; `jitter`
    returns the share, in [0, 1). `again` is called before each further attempt.
    """

    attempts: int
    backoff_ms: int
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    again: Callable[[], None] = lambda: None

    def run(self, request: Callable[[], T]) -> T:
        """The answer of the first attempt that does not raise StorageUnavailable; the last one's error, with the count of attempts."""
        attempt = 1
        while True:
            try:
                return request()
            except StorageUnavailable as error:
                if attempt >= self.attempts:
                    raise type(error)(f"{error} Tried {attempt} times (s3.part.retries).") from None
                reason = str(error)
            wait_s = self.wait_s(attempt)
            _log.log(
                logging.WARNING if _warnings.due() else logging.INFO,
                "request is tried again",
                extra={"facts": {"attempt": attempt, "wait_s": round(wait_s, 3), "reason": reason}},
            )
            self.sleep(wait_s)
            self.again()
            attempt += 1

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after this many failures."""
        backoff = Backoff(self.backoff_ms, LONGEST_WAIT_MS, lambda: 1 - self.jitter(), least=0.0)
        return backoff.pause_ms(failures) / 1000
