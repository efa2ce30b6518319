"""Tell which facts of the log still hold for an offset: an offset alone does not identify a record.

The offsets of a topic-partition have *incarnations*. An entry begins another one when the topic was created again (all offsets), when the
log was cut and the sink reads it again (from the cut on), or when an operator sets the position back (from there on). A claim that an entry
makes on an offset holds until a later entry begins another incarnation at that offset or before it (`Incarnations.end_of`).

Only the first two change what Kafka has at an offset: `Reset.cut` says from where on. Facts about records, such as erased offsets, end
there; facts about objects, tables and states end with every incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.engine.log.entry import LAST_OFFSET, CommitEntry, EntryKind
from kafka_s3.model.offsets import OffsetSet, TopicPartition

EVERYTHING: Final = OffsetSet(((0, LAST_OFFSET),))


@dataclass(frozen=True, slots=True)
class Reset:
    """A position of a topic-partition that an entry sets: `to_read` are the offsets that are read from here on.

    Dead letters of earlier entries at these offsets no longer count. `before` is the position until then, None if there was none.
    `cut` is the offset from which on Kafka has other records than before, None if the log is the same; `recreated` says that the whole
    topic is another one.
    """

    topic_partition: TopicPartition
    version: int
    before: int | None
    frontier: int
    to_read: OffsetSet
    cut: int | None = None
    recreated: bool = False

    @property
    def goes_back(self) -> bool:
        """Return whether another incarnation begins at `frontier`."""
        return self.recreated or (self.before is not None and self.frontier < self.before)

    def supersedes(self, until: int) -> bool:
        """Return whether claims of earlier entries on offsets before `until` end, at least in part."""
        return self.goes_back and (self.recreated or self.frontier < until)

    def replaces_records(self, until: int) -> bool:
        """Return whether Kafka has other records at some offsets before `until`."""
        return self.cut is not None and (self.recreated or self.cut < until)


def resets_of(
    entry: CommitEntry, frontier: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> Iterator[Reset]:
    """Yield the positions that an entry sets, given frontiers and topic ids before it.

    Without `cuts`, a driver goes back only because the log was cut there, and an operator goes back in the same log.
    """
    new = {topic for topic, id_ in entry.topic_ids.items() if id_ and (topic_ids.get(topic) or id_) != id_}
    for tp in [tp for tp in frontier if tp.topic in new] if new else ():
        yield Reset(tp, entry.version, frontier[tp], 0, EVERYTHING, cut=0, recreated=True)
    if entry.kind is EntryKind.DATA:
        return
    for tp, progress in entry.progress.items():
        before = None if tp.topic in new else frontier.get(tp)
        back = before is not None and progress.frontier < before
        inferred = progress.frontier if back and not entry.by_hand else None
        yield Reset(tp, entry.version, before, progress.frontier, progress.to_read, cut=entry.cuts.get(tp, inferred))


@dataclass(frozen=True, slots=True)
class Incarnations:
    """The entries since which claims hold: steps `(first offset, version)` of each topic-partition, both ascending."""

    steps: Mapping[TopicPartition, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def after(self, resets: Iterable[Reset]) -> Incarnations:
        """Return the incarnations after some resets of one entry."""
        steps = dict(self.steps)
        for reset in resets:
            if reset.goes_back:
                earlier = (step for step in steps.get(reset.topic_partition, ()) if step[0] < reset.frontier)
                steps[reset.topic_partition] = (*earlier, (reset.frontier, reset.version))
        return Incarnations(steps)

    @property
    def newest(self) -> int:
        """Return the last entry that began an incarnation, -1 if none did."""
        return max((version for steps in self.steps.values() for _, version in steps), default=-1)

    def latest(self, topic_partition: TopicPartition) -> int:
        """Return the entry that began the newest incarnation, -1 if there is only one."""
        return max((version for _, version in self.steps.get(topic_partition, ())), default=-1)

    def latest_of(self, topic: str) -> int:
        """Return the same for all partitions of a topic."""
        return max((self.latest(tp) for tp in self.steps if tp.topic == topic), default=-1)

    def end_of(self, topic_partition: TopicPartition, *, since: int) -> int:
        """Return the offset before which the claims of entry `since` still hold."""
        firsts = (first for first, version in self.steps.get(topic_partition, ()) if version > since)
        return min(firsts, default=LAST_OFFSET + 1)

    def document(self) -> list[Any]:
        """Return the JSON form for a checkpoint."""
        return [[*tp, steps] for tp, steps in self.steps.items()]

    @staticmethod
    def of(document: Iterable[Any]) -> Incarnations:
        """Return the incarnations of a checkpoint."""
        return Incarnations(
            {
                TopicPartition(topic, partition): tuple((first, version) for first, version in steps)
                for topic, partition, steps in document
            }
        )
