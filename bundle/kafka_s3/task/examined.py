"""How many records has a task read below the frontier that it reports? Counted independently of what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_s3.formats.format import Paused
from kafka_s3.records.values import Longs


@dataclass(slots=True)
class Examined:
    """The records read since the committed frontier. Offsets are kept only while a frontier may still cut among them.

    `_settled` records lie below `_until`, and no frontier between the first of them and there is ever asked for.
    """

    _settled: int = 0
    _until: int = 0
    _offsets: list[Longs] = field(default_factory=list)

    def add(self, offsets: Longs, frontier: int) -> None:
        """Counts records that were read, where all below a frontier are in closed files."""
        self._offsets.append(offsets)
        while self._offsets and len(self._offsets[0]) and self._offsets[0][-1] < frontier:
            self._settled += len(self._offsets.pop(0))

    def below(self, frontier: int) -> int:
        """How many there are below a frontier."""
        settled = self._settled if frontier >= self._until else 0
        return settled + sum(int(np.searchsorted(offsets, frontier)) for offsets in self._offsets)

    def pause(self, frontier: int, written: int) -> Paused:
        """What the next task counts on from, above the frontier that is reported now; no later one lies at or below `written`."""
        later = [offset for offsets in self._offsets for offset in offsets[offsets > written].tolist()]
        return {"settled": self.below(written + 1) - self.below(frontier), "until": written + 1, "later": later}

    def resume(self, paused: Paused) -> None:
        """Counts on."""
        self._settled, self._until = paused["settled"], paused["until"]
        self._offsets = [np.array(paused["later"], np.int64)] if paused["later"] else []
