"""Where in Kafka is something? Topic-partitions, offset ranges, gaps, the frontier, and sets of offsets in little space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class TopicPartition(NamedTuple):
    """One partition of one Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`topic-partition`, as Kafka's own tools print it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets `[start, until)` of one topic-partition."""

    topic_partition: TopicPartition
    start: int
    until: int

    def __str__(self) -> str:
        """`topic-partition [start, until)`."""
        return f"{self.topic_partition} [{self.start}, {self.until})"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `first..last` (inclusive) that hold no record for the sink, and why."""

    topic: str
    partition: int
    first: int
    last: int
    cause: str

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it is."""
        return TopicPartition(self.topic, self.partition)


Frontier = Mapping[TopicPartition, int]
"""Per topic-partition the next offset to write: everything below is in objects, dead letters, skips or gaps."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """An offset of a topic-partition's log and the leader epoch that it had when it reached there; None: not known."""

    offset: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """A set of offsets as ranges `(first, last)`, both inclusive, ascending and disjoint."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, offsets: Iterable[int]) -> OffsetSet:
        """The set of these offsets, in any order."""
        return cls().plus(OffsetSet(tuple((offset, offset) for offset in sorted(offsets))))

    @property
    def until(self) -> int:
        """One past the last offset; 0 where there is none."""
        return self.ranges[-1][1] + 1 if self.ranges else 0

    def plus(self, other: OffsetSet) -> OffsetSet:
        """The union."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(self.ranges + other.ranges):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return OffsetSet(tuple(joined))

    def since(self, offset: int) -> OffsetSet:
        """The offsets at or after `offset`."""
        return OffsetSet(tuple((max(first, offset), last) for first, last in self.ranges if last >= offset))

    def before(self, offset: int) -> OffsetSet:
        """The offsets before `offset`."""
        return OffsetSet(tuple((first, min(last, offset - 1)) for first, last in self.ranges if first < offset))

    def overlaps(self, other: OffsetSet) -> bool:
        """Return whether the two sets share an offset."""
        return len(self.plus(other)) < len(self) + len(other)

    def mask(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these ascending offsets are in the set."""
        import numpy as np  # nothing else here needs it, and every command imports this module

        inside = np.zeros(len(offsets), bool)
        for first, last in self.ranges:
            inside[np.searchsorted(offsets, first) : np.searchsorted(offsets, last, side="right")] = True
        return inside

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is in the set."""
        return any(first <= offset <= last for first, last in self.ranges)

    def __len__(self) -> int:
        """How many offsets there are."""
        return sum(last - first + 1 for first, last in self.ranges)
