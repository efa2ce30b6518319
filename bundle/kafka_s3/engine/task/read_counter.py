"""How many records has a task read below the frontier that it reports? Counted independently of what becomes of them.

Between two batches a frontier can come to lie at two offsets only among the records that are read: where it is, if nothing closes, and
behind the last record that was written, if all that is open does. What was read behind that one is left out, rejected or filtered, and no
file ends there. So two counts are enough, however many records a filter drops behind an open file, and whatever offsets they have.

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
class ReadCounter:
    """The records read since the frontier of the assignment; `_below` has how many of them lie below the two that may be the next one."""

    _read: int = 0
    _below: Mapping[int, int] = field(default_factory=dict)

    def add(self, offsets: Longs, *, frontier: int, written: int) -> None:
        """Counts a batch when its records are written: those below the frontier are in closed files, the last one's offset is `written`."""
        likely, known = (frontier, written + 1), self._below
        new = {
            one: 0 if one in known else int(np.searchsorted(offsets, one)) for one in likely
        }  # none below a known one
        self._below = {one: self.below(one) + new[one] for one in likely}
        self._read += len(offsets)

    def below(self, frontier: int) -> int:
        """How many there are below a frontier."""
        return self._below.get(frontier, self._read)

    def pause(self, frontier: int) -> Paused:
        """What the next task counts on from, above the frontier that is reported now."""
        settled = self.below(frontier)
        before = [[offset, count - settled] for offset, count in self._below.items()]
        return {"read": self._read - settled, "before": before}

    def resume(self, paused: Paused) -> None:
        """Counts on."""
        self._read, self._below = paused["read"], {offset: count for offset, count in paused["before"]}
