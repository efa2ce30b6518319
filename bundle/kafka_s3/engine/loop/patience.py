"""What keeps a sink from going on for a while, and for how long is that waited for? Kafka, the bucket, the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_s3.engine.loop.behaviour import Behaviour
from kafka_s3.engine.loop.failures import PASSING
from kafka_s3.model.errors import CommitUnknown, OffsetsLost, SinkError
from kafka_s3.model.protocols import Observer


@dataclass
class Patience:
    """Remembers since when (epoch ms) nobody answers. Kafka and the bucket are waited for without limit, as in the original; a schema
    registry as long as `errors.retry.timeout` says (SEMANTICS A1.4): `is_final` tells that a wait is over.
    """

    behaviour: Behaviour
    observer: Observer
    clock_ms: Callable[[], int]
    is_final: Callable[[SinkError], bool]
    _troubled_since: int | None = None

    def tried(self, work: Callable[[], None]) -> bool:
        """Works; False, after a warning, where that has to be tried again later. Raises what waiting does not mend."""
        try:
            work()
        except (*PASSING, CommitUnknown) as error:
            if self.is_final(error):
                raise
            return self._in_trouble(error)
        except OffsetsLost as error:  # between plan and read
            if self.behaviour.lost == "fail":
                raise
            return self._in_trouble(error)
        if self._troubled_since is not None:
            self.observer.recovered(self.clock_ms() - self._troubled_since)
            self._troubled_since = None
        return True

    def _in_trouble(self, error: SinkError) -> bool:
        """False, after a warning; how long it lasts is told when it is over."""
        if self._troubled_since is None:
            self._troubled_since = self.clock_ms()
        self.observer.warned(str(error))
        return False
