"""How many requests went to the bucket, how long did they take, and how many failed? Counts that tasks report and that add up."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

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
        """How many there were."""
        return sum(self.counts.values())

    def plus(self, other: Durations) -> Durations:
        """Both together."""
        return Durations(_sums(self.counts, other.counts), self.seconds + other.seconds)


def took(seconds: float) -> Durations:
    """One thing that took so long."""
    return Durations({bisect.bisect_left(BOUNDS_S, seconds): 1}, seconds)


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
