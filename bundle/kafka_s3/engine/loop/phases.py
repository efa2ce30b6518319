"""How long did each phase of a round take? A stopwatch that sink and committer share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka_s3.model.protocols import RoundPhase


@dataclass
class PhaseTimes:
    """The seconds spent in each phase since the last round was told. `clock` gives seconds that never go back. Not thread-safe."""

    clock: Callable[[], float] = time.monotonic
    _spent: dict[RoundPhase, float] = field(default_factory=dict)

    @contextmanager
    def of(self, phase: RoundPhase) -> Iterator[None]:
        """Counts the body's time, also where it raises."""
        begun = self.clock()
        try:
            yield
        finally:
            self._spent[phase] = self._spent.get(phase, 0.0) + self.clock() - begun

    def taken(self) -> Mapping[RoundPhase, float]:
        """What was counted since the last call."""
        told, self._spent = self._spent, {}
        return told
