"""Choose which objects from before a sink's first position may hold records that its log accounts for, too.

They are of the writer before this sink. A Connect sink, and this one, close all open files of a topic-partition together. So everything
that began at or before a file has ended where its directory has a later one. What is left may reach past the position, and has to be
counted: in most layouts the last object, or the last of a few directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from kafka_s3.model.offsets import TopicPartition

KEPT: Final = 50
"""Objects of a topic-partition that are counted at most, the nearest to its first position."""


@dataclass(frozen=True, slots=True, order=True)
class EarlierObject:
    """An object that begins before the first position; `until` is one past its last offset if its name says that."""

    start: int
    encoded_partition: str
    topic_partition: TopicPartition
    key: str
    size: int
    until: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class EarlierObjects:
    """The objects of one topic-partition that may reach its first position. `add` takes them in the order of a listing."""

    _nearest: list[EarlierObject] = field(default_factory=list)
    _previous: EarlierObject | None = None
    _ended: int = -1
    _left_out: int = -1

    def add(self, item: EarlierObject) -> None:
        """Take the next object. Of those that share directory and start, keys and headers among them, the shortest key counts."""
        previous, self._previous = self._previous, item
        if previous is None:
            return
        if previous.encoded_partition == item.encoded_partition:
            if previous.start == item.start:
                self._previous = min(previous, item, key=lambda one: len(one.key))
                return
            self._ended = max(self._ended, min(previous.start, item.start))
        self._keep(previous)

    def close(self) -> tuple[list[EarlierObject], bool]:
        """Return the objects that have to be counted, by their starts, and whether these are all."""
        if self._previous is not None:
            self._keep(self._previous)
            self._previous = None
        return sorted(one for one in self._nearest if one.start > self._ended), self._left_out <= self._ended

    def _keep(self, item: EarlierObject) -> None:
        if item.start > self._ended:
            heappush(self._nearest, item)
        while self._nearest and self._nearest[0].start <= self._ended:
            heappop(self._nearest)
        if len(self._nearest) > KEPT:
            self._left_out = max(self._left_out, heappop(self._nearest).start)
