"""By when has the sink read all that is in Kafka? From what its polls and commits show: how much waits, is read, and arrives.

Between two polls the heads stay as they were, so what is unread only falls; at a poll it rises by what has arrived since the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.model.timing import duration_text

BEHIND_MS: Final = 60_000
"""A sink that needs longer than this for what one poll found is behind."""
ARRIVALS_MS: Final = 3_600_000
"""What arrives is counted over this time."""
MOST_ARRIVALS: Final = 60


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A sink that is behind since `since_ms`: so many records are `unread`, so many are read and arrive in a second (None: not known yet).

    `until_ms` is when it has caught up at this pace, None where it does not, or the pace is not known yet. Times are epoch ms.
    """

    since_ms: int
    unread: int
    read_per_s: float | None = None
    arriving_per_s: float | None = None
    until_ms: int | None = None

    @property
    def measured(self) -> bool:
        """Whether the pace is known."""
        return self.read_per_s is not None

    def text(self, now_ms: int) -> str:
        """All of it in a line."""
        behind = (
            f"{self.unread:,} records unread, behind for {duration_text(max(now_ms - self.since_ms, 0) // 1000 * 1000)}"
        )
        if self.read_per_s is None:
            return f"{behind}; how quickly they are read is not known yet"
        arriving = "unknown how many arrive" if self.arriving_per_s is None else f"{self.arriving_per_s:,.0f} arrive"
        return f"{behind}; {self.read_per_s:,.0f} are read each second, {arriving}; {self.until_text(now_ms)}"

    def until_text(self, now_ms: int) -> str:
        """By when: `caught up in 3 h`."""
        if self.until_ms is None:
            return "not caught up at this pace" if self.measured else "unknown"
        return f"caught up in {duration_text(max(self.until_ms - now_ms, 0) // 1000 * 1000)}"


@dataclass(slots=True)
class _Work:
    """What a poll found and is read since: when it began, how much there was, how much is left, and when some of it was committed last."""

    began_ms: int
    found: int
    left: int
    committed_ms: int

    @property
    def per_s(self) -> float | None:
        """The pace, None where nothing was committed yet."""
        spent_ms, read = self.committed_ms - self.began_ms, self.found - self.left
        return read * 1000 / spent_ms if spent_ms > 0 and read > 0 else None


class CatchUpMeter:
    """Is shown what is unread after each poll and commit, and when all that was due is done; says how it goes on."""

    def __init__(self) -> None:
        self._work: _Work | None = None
        self._over = True  # the work is done: what it left waits for its time
        self._behind_ms: int | None = None
        self._per_s: float | None = None  # of the last work that had a pace
        self._arrived: list[tuple[int, int]] = []  # time, and records since the first of them

    def started(self, now_ms: int, backlog: int, *, before_ms: int, before: int) -> None:
        """A run begins with a backlog; the one before saw `before` records wait at its last look: the others have arrived since."""
        if now_ms > before_ms:
            self._arrived = [(before_ms, 0), (now_ms, max(backlog - before, 0))]

    def seen(self, now_ms: int, unread: int) -> None:
        """After a poll of the brokers or a commit."""
        work = self._work
        if work is None or self._over:
            self._arrive(now_ms, 0 if work is None else unread - work.left)
            self._work, self._over = _Work(now_ms, unread, unread, now_ms), False
        elif unread > work.left:  # more topic-partitions
            self._work = replace(work, found=work.found + unread - work.left, left=unread)
        elif unread < work.left:
            self._work = replace(work, left=unread, committed_ms=now_ms)

    def worked(self, now_ms: int) -> None:
        """All that was due is done."""
        self._note(now_ms)
        self._over = True
        self._note(now_ms)

    def rested(self) -> None:
        """The sink does nothing: it does not catch up."""
        self._over, self._behind_ms = True, None

    def estimate(self, now_ms: int) -> CatchUp | None:
        """How it goes on; None where the sink is not behind."""
        self._note(now_ms)
        if self._behind_ms is None or self._work is None:
            return None
        left, left_s = self._left(self._work, now_ms), self._left_s(self._work, now_ms)
        until_ms = None if left_s is None else now_ms + round(left_s * 1000)
        return CatchUp(self._behind_ms, round(left), self._work.per_s or self._per_s, self._arriving(), until_ms)

    def _note(self, now_ms: int) -> None:
        """Whether the sink is behind: by work that takes long, until what is to come will not."""
        work = self._work
        if work is None:
            return
        self._per_s = work.per_s or self._per_s
        if not self._over:
            if now_ms - work.began_ms >= BEHIND_MS and self._behind_ms is None:
                self._behind_ms = work.began_ms
            return
        left_s = self._left_s(work, now_ms)
        if left_s is not None and left_s * 1000 < BEHIND_MS:
            self._behind_ms = None

    def _left(self, work: _Work, now_ms: int) -> float:
        """What is unread now: what of the poll's is left, and what has arrived since."""
        return (0 if self._over else work.left) + (self._arriving() or 0) * (now_ms - work.began_ms) / 1000

    def _left_s(self, work: _Work, now_ms: int) -> float | None:
        """Seconds until nothing is left; None where that is not known, or never."""
        pace, arriving = work.per_s or self._per_s, self._arriving() or 0
        return None if pace is None or pace <= arriving else self._left(work, now_ms) / (pace - arriving)

    def _arriving(self) -> float | None:
        """Records that arrive in a second, None where only one poll was made."""
        if len(self._arrived) < 2:
            return None
        (first_ms, first), (last_ms, last) = self._arrived[0], self._arrived[-1]
        return (last - first) * 1000 / max(last_ms - first_ms, 1)

    def _arrive(self, now_ms: int, more: int) -> None:
        """Counts what has arrived since the last poll, by the minute."""
        total = (self._arrived[-1][1] if self._arrived else 0) + max(more, 0)
        if len(self._arrived) > 1 and self._arrived[-1][0] - self._arrived[-2][0] < ARRIVALS_MS // MOST_ARRIVALS:
            self._arrived.pop()
        while len(self._arrived) > 1 and self._arrived[1][0] < now_ms - ARRIVALS_MS:  # polls may be hours apart
            self._arrived.pop(0)
        self._arrived.append((now_ms, total))
