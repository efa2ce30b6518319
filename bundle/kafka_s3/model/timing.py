"""What time is it, how long is the next pause, how often is something logged, and how long did requests to the bucket take?"""

from __future__ import annotations

import bisect
import random
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, TypeVar


def now_ms() -> int:
    """The wall clock, epoch milliseconds: the only one. Whatever decides by time is given it as an argument."""
    return time.time_ns() // 1_000_000


def iso_time(ms: int, timespec: str = "milliseconds") -> str:
    """A time (epoch ms) as ISO 8601 in UTC: `2026-11-23T18:00:00.000Z`."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
"""The units in which durations are shown, each with its seconds."""


def duration_text(ms: float) -> str:
    """A duration for people: `850 ms`, `1.5 s`, `45 s`, `1 h 59 min`, `12 h`; below ten of a unit with the next smaller one."""
    if 0 < ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 10_000 and ms % 1000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for (unit, size), (smaller, part) in pairwise(UNITS):
        count, rest = divmod(seconds, size)
        if count:
            more = rest // part if count < 10 else 0
            return f"{count} {unit} {more} {smaller}" if more else f"{count} {unit}"
    return f"{seconds} s"


def age(ms: int) -> str:
    """How long ago something was, in whole seconds."""
    return duration_text(max(ms, 0) // 1000 * 1000)


MOST_DOUBLINGS: Final = 32  # the longest pause rules long before; an unbounded power would overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    """The first pause is `first_ms`; each further one is twice as long, `longest_ms` at most.

    A random part is taken off, so that sinks that lost the same service do not come back all at once; the share `least` is always
    waited. Where the first pause is the longest, every pause is exactly that long. `jitter` returns a number in [0, 1).
    """

    first_ms: int
    longest_ms: int
    jitter: Callable[[], float] = random.random
    least: float = 0.5

    def pause_ms(self, failures: int) -> int:
        """Milliseconds to wait after this many failures in a row, one or more."""
        if self.first_ms == self.longest_ms:
            return self.first_ms
        whole = min(self.longest_ms, self.first_ms << min(failures - 1, MOST_DOUBLINGS))
        return round(whole * (1 - self.jitter() * (1 - self.least)))


_RETRIES: Final = Backoff(1_000, 60_000)


def retry_pause_ms(failures: int) -> int:
    """Return how long to wait after so many failures in a row: not after the first, then a second, doubled up to a minute."""
    return 0 if failures < 2 else _RETRIES.pause_ms(failures - 1)


@dataclass(slots=True)
class RateLimiter:
    """Lets one of each kind through in `every_s` seconds, and counts the others. `clock` gives seconds that never go back."""

    every_s: float
    clock: Callable[[], float] = time.monotonic
    _shown_s: dict[Hashable, float] = field(default_factory=dict)
    _waiting: dict[Hashable, int] = field(default_factory=dict)

    def due(self, kind: Hashable = None, count: int = 1) -> int:
        """How many of this kind a line now counts, these and those that went before it unseen; 0: not yet."""
        waiting, now = self._waiting.pop(kind, 0) + count, self.clock()
        if kind in self._shown_s and now - self._shown_s[kind] < self.every_s:
            self._waiting[kind] = waiting
            return 0
        self._shown_s[kind] = now
        return waiting


K = TypeVar("K")
BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Durations (s) are counted by the first of these bounds that they do not exceed, or behind the last one."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long things took: `counts` by the place of their bound in BOUNDS_S, `seconds` in all."""

    counts: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def plus(self, other: Durations) -> Durations:
        """Both together."""
        return Durations(_sums(self.counts, other.counts), self.seconds + other.seconds)


def bound_of(seconds: float) -> int:
    """The place of the bound by which a duration is counted."""
    return bisect.bisect_left(BOUNDS_S, seconds)


def took(seconds: float) -> Durations:
    """One thing that took so long."""
    return Durations({bound_of(seconds): 1}, seconds)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to the bucket, by operation: how long they took and how many failed; and attempts `again` after a failure."""

    durations: Mapping[str, Durations] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    again: int = 0

    def plus(self, other: Requests) -> Requests:
        """Both together."""
        durations = dict(self.durations)
        for operation, more in other.durations.items():
            durations[operation] = durations.get(operation, Durations()).plus(more)
        return Requests(durations, _sums(self.failed, other.failed), self.again + other.again)


def _sums(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in {**left, **right}}
