"""What keeps a sink from going on for a while, and for how long is that waited for? Kafka, the bucket, the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_s3.driver.behaviour import Behaviour
from kafka_s3.model.errors import (
    CommitUnknown,
    KafkaUnavailable,
    OffsetsLost,
    RegistryUnavailable,
    SinkError,
    StorageUnavailable,
    UploadMissing,
)
from kafka_s3.model.observer import Observer


@dataclass
class Patience:
    """Remembers since when (epoch ms) nobody answers. Kafka and the bucket are waited for without limit, as in the original; a schema
    registry as long as `errors.retry.timeout` says (SEMANTICS A1.4).
    """

    behaviour: Behaviour
    observer: Observer
    clock_ms: Callable[[], int]
    _registry_down_since: int | None = None
    _troubled_since: int | None = None

    def tried(self, work: Callable[[], None]) -> bool:
        """Works; False, after a warning, where that has to be tried again later. Raises what waiting does not mend."""
        try:
            work()
        except (KafkaUnavailable, StorageUnavailable, UploadMissing, CommitUnknown) as error:
            return self._in_trouble(error)
        except OffsetsLost as error:  # between plan and read
            if self.behaviour.lost == "fail":
                raise
            return self._in_trouble(error)
        except RegistryUnavailable as error:
            self._wait_for_registry(error)
            return self._in_trouble(error)
        self._registry_down_since = None
        if self._troubled_since is not None:
            self.observer.recovered(self.clock_ms() - self._troubled_since)
            self._troubled_since = None
        return True

    def within(self, pause_ms: int) -> int:
        """The pause, or what is left until a registry that is away has used up `errors.retry.timeout`, if that is less."""
        if self._registry_down_since is None or self.behaviour.retry_timeout_ms < 0:
            return pause_ms
        return max(0, min(pause_ms, self._registry_down_since + self.behaviour.retry_timeout_ms - self.clock_ms()))

    def _in_trouble(self, error: SinkError) -> bool:
        """False, after a warning; how long it lasts is told when it is over."""
        if self._troubled_since is None:
            self._troubled_since = self.clock_ms()
        self.observer.warned(str(error))
        return False

    def _wait_for_registry(self, error: RegistryUnavailable) -> None:
        """Raises the error once the registry has been away for `errors.retry.timeout`."""
        now, patience = self.clock_ms(), self.behaviour.retry_timeout_ms
        if self._registry_down_since is None:
            self._registry_down_since = now
        if 0 <= patience <= now - self._registry_down_since:
            raise error
