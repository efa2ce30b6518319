"""How many records has a task read below the frontier that it reports? Counted independently of what becomes of them.

Between two batches a frontier can come to lie at two places only among the records that are read: where it is, if nothing closes, and
behind the last record that was written, if all that is open does. What was read behind that one is left out, rejected or filtered, and no
file ends there. So two counts stand for all of it, however many records a filter drops behind an open file, and whatever offsets they have.

Say the frontier is 3, and 3, 4 and 5 are read: 4 is written and its file stays open. A later frontier is 3 (no record below it), 5 (two of
them), or behind a record that is still to be read (three, and those below it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kafka_s3.connect.records.values import Longs
from kafka_s3.objects.format import Paused


@dataclass(slots=True)
class Examined:
    """The records read since the frontier of the assignment; `_before` has how many of them lie below a place of a later frontier."""

    _read: int = 0
    _before: Mapping[int, int] = field(default_factory=dict)

    def add(self, offsets: Longs, *, frontier: int, written: int) -> None:
        """Counts a batch when its records are written: those below the frontier are in closed files, the last one's offset is `written`."""
        before = {place: self.below(place) + self._among(offsets, place) for place in (frontier, written + 1)}
        self._read += len(offsets)
        self._before = before

    def below(self, frontier: int) -> int:
        """How many there are below a frontier."""
        return self._before.get(frontier, self._read)

    def pause(self, frontier: int) -> Paused:
        """What the next task counts on from, above the frontier that is reported now."""
        settled = self.below(frontier)
        before = [[place, count - settled] for place, count in self._before.items()]
        return {"read": self._read - settled, "before": before}

    def resume(self, paused: Paused) -> None:
        """Counts on."""
        self._read, self._before = paused["read"], {place: count for place, count in paused["before"]}

    def _among(self, offsets: Longs, place: int) -> int:
        """How many of a new batch lie below a place; none below one that was there before."""
        return 0 if place in self._before else int(np.searchsorted(offsets, place))
