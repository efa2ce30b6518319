"""What did a sink do lately? Counts by steps of time, of which only the newest are kept; and how late records were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.model.files import DataFile, Role

POINTS: Final = 4
"""A file tells the times of its first and last record; those between are taken to be spread evenly, at so many points."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read in a step of time from `at_ms` on: records, and how many of them were written or became dead letters."""

    at_ms: int
    read: int = 0
    written: int = 0
    dead_letters: int = 0


NOTHING: Final = Tally(0)


@dataclass(frozen=True, slots=True)
class Delay:
    """How long records took from their own time to the commit (ms): half of them no longer, 95 % of them no longer."""

    median_ms: int
    slow_ms: int


def added(tallies: Iterable[Tally], more: Tally, *, step_ms: int, most: int) -> tuple[Tally, ...]:
    """The tallies, oldest first, with one more; its `at_ms` is any time in its step. At most the newest `most` steps are kept."""
    start = more.at_ms // step_ms * step_ms
    known = {tally.at_ms: tally for tally in tallies}
    here = known.get(start, Tally(start))
    known[start] = replace(
        here,
        read=here.read + more.read,
        written=here.written + more.written,
        dead_letters=here.dead_letters + more.dead_letters,
    )
    return since(known.values(), start - (most - 1) * step_ms)


def since(tallies: Iterable[Tally], from_ms: int) -> tuple[Tally, ...]:
    """The tallies of the steps that begin at a time or later, oldest first."""
    return tuple(sorted((tally for tally in tallies if tally.at_ms >= from_ms), key=lambda tally: tally.at_ms))


def delay(files: Iterable[DataFile], committed_ms: int) -> Delay | None:
    """How late the records of data files were when they were committed; None where no file tells the time of its records."""
    points = []
    for file in files:
        if file.role is Role.VALUE and file.min_timestamp is not None and file.max_timestamp is not None:
            first, span = file.min_timestamp, file.max_timestamp - file.min_timestamp
            points += [
                (max(committed_ms - first - span * place // POINTS, 0), file.records) for place in range(POINTS + 1)
            ]
    return Delay(_share(points, 0.5), _share(points, 0.95)) if points else None


def _share(points: list[tuple[int, int]], share: float) -> int:
    """The value that this share of the weight does not exceed."""
    points = sorted(points)
    left = share * sum(weight for _, weight in points)
    for value, weight in points:
        left -= weight
        if left <= 0:
            return value
    return points[-1][0]
