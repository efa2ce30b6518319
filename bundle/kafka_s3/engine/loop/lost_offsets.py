"""What does a sink do where Kafka no longer has what it wants, or has other records there?

Retention passed the position, a log was truncated, a topic was deleted and created again: the topic-partition stops, or goes on behind a
recorded gap, as `behavior.on.lost.offsets` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.behaviour import Behaviour
from kafka_s3.engine.loop.committer import nothing_more
from kafka_s3.engine.loop.partition_state import PartitionState, cut_off
from kafka_s3.model.errors import OffsetsLost, SinkError, TopicRecreated
from kafka_s3.model.offsets import Gap, LogEnd, TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, Topic

Stop = Callable[[Mapping[TopicPartition, SinkError]], None]
"""Learns which topic-partitions stop, and why; those that have stopped already stay as they are."""


@dataclass(frozen=True)
class LostOffsets:
    """The moves over what is gone, each an entry of the log. `partition_states` are those of `Topics`, which it changes.

    Under `fail` nothing moves: `stop` learns which topic-partitions stop, with OffsetsLost or TopicRecreated.
    """

    behaviour: Behaviour
    brokers: Brokers
    log: CommitLog
    commit: Callable[[CommitEntry, Callable[[], None]], None]
    observer: Observer
    partition_states: dict[TopicPartition, PartitionState]
    stop: Stop

    def by_retention(self, starts: Mapping[TopicPartition, int]) -> bool:
        """Kafka begins only behind the frontiers: the records between are gone. False where the topic-partitions stop."""
        details = "; ".join(
            f"{tp}: wanted {self.partition_states[tp].frontier}, available from {start}"
            for tp, start in sorted(starts.items())
        )
        if self.behaviour.lost == "fail":
            error = OffsetsLost(
                f"Sink {self.behaviour.sink}: records that must be read are no longer in Kafka ({details}). Restore them, or set "
                "behavior.on.lost.offsets=gap to go on and record the gap."
            )
            self.stop(dict.fromkeys(starts, error))
            return False
        self.observer.warned(f"records lost to retention, gap recorded: {details}")
        self._jump(starts, cause="retention")
        return True

    def above_frontier(self, state: PartitionState, same: int, head: int) -> None:
        """The log is what it was only up to an offset above the frontier: nothing that was written is gone, so that is believed.

        Open files and dead letters of what is gone are dropped: whatever has these offsets now is read.
        """
        tp, progress = state.topic_partition, self.log.state.progress[state.topic_partition]
        left, letters = cut_off(state, same), progress.recorded.since(same)
        files = "" if left.open_state is state.open_state else "open files"
        dead = f"{len(letters)} recorded dead letters" if letters.ranges else ""
        dropped = " and ".join(filter(None, (files, dead)))
        self.observer.warned(
            f"{tp} was truncated at {same}, above the sink's position {state.frontier}: it had reached to {state.seen}, and ends at "
            f"{head} now." + (f" The {dropped} of what is gone are dropped, and it is read again." if dropped else "")
        )
        if dead:
            moved = replace(progress, recorded=progress.recorded.before(same))
            self.commit(self.log.new_entry(EntryKind.POSITION, progress={tp: moved}), nothing_more)
        self.partition_states[tp] = left

    def below_frontier(self, tp: TopicPartition, wanted: int, same: int, head: int) -> None:
        """The log is what it was only up to an offset before the frontier, whether it has grown again since or not."""
        if self.behaviour.lost == "fail":
            grown = (
                f"was truncated at {same}, before {wanted}, which is wanted next, and has grown again to {head}: the records from {same} "
                "on are others than those that were written. Set behavior.on.lost.offsets=gap to write them, too (objects of the same "
                "names are overwritten), or use a new sink name."
            )
            short = (
                f"ends at {head}, but {wanted} is wanted next: the partition was truncated or its topic recreated. Set "
                "behavior.on.lost.offsets=gap to go on at its end, or use a new sink name."
            )
            text = grown if same < head else short
            self.stop({tp: OffsetsLost(f"Sink {self.behaviour.sink}: {tp} {text}")})
            return
        self.observer.warned(f"{tp} was truncated at {same}, before {wanted}: the sink goes on at {same}.")
        self._jump({tp: same}, cause="truncated")

    def look_for_recreated(self, topics: Iterable[Topic]) -> set[str]:
        """The names of the topics that are not those that the log knows; their topic-partitions stop, or begin anew."""
        again = [topic for topic in topics if self.log.state.is_recreated(topic.name, topic.id)]
        for topic in again:
            self._recreated(topic)
        return {topic.name for topic in again}

    def _recreated(self, topic: Topic) -> None:
        before = [tp for tp in self.log.state.progress if tp.topic == topic.name]
        if self.behaviour.lost == "fail":
            error = TopicRecreated(
                f"Sink {self.behaviour.sink}: topic {topic.name} was deleted and created again; its offsets and object names begin anew. "
                "Use a new sink name with another topics.dir, or set behavior.on.lost.offsets=gap to go on from its first record "
                "(objects of the old topic with the same names are overwritten)."
            )
            own = [TopicPartition(topic.name, partition) for partition in topic.partitions]
            self.stop(dict.fromkeys([*before, *own], error))
            return
        still = [tp for tp in before if tp.partition in topic.partitions]
        for gone in set(self.partition_states).intersection(before).difference(still):
            del self.partition_states[gone]
        # a partition that the new topic does not have yet would begin at its first offset, too
        positions = dict.fromkeys(before, 0) | self.brokers.starts(still)
        self._jump(positions, cause="recreated", topic_ids={topic.name: topic.id})

    def _jump(
        self, positions: Mapping[TopicPartition, int], *, cause: str, topic_ids: Mapping[str, str] | None = None
    ) -> None:
        """Moves frontiers over what is gone, as an entry of the log."""
        before = self.log.state.progress
        gaps = [
            gap for tp, position in positions.items() for gap in _gaps(tp, before[tp], position=position, cause=cause)
        ]
        progress = {
            tp: _moved(before[tp], position, cause=cause, state=self.partition_states.get(tp))
            for tp, position in positions.items()
        }
        entry = self.log.new_entry(EntryKind.POSITION, progress=progress, gaps=tuple(gaps), topic_ids=topic_ids or {})
        self.commit(entry, partial(self._moved_to, progress, cause))

    def _moved_to(self, progress: Mapping[TopicPartition, Progress], cause: str) -> None:
        """The states after an entry that moved them."""
        for tp in self.partition_states.keys() & progress.keys():
            partition_state, position = self.partition_states[tp], progress[tp].frontier
            kept = tuple(d for d in partition_state.deliveries if d.until > position) if cause == "retention" else ()
            self.partition_states[tp] = replace(
                partition_state,
                frontier=position,
                examined=position,
                examined_ms=None,
                recorded=progress[tp].recorded,
                deliveries=kept,
                open_state=None,
                leader_epoch=progress[tp].leader_epoch,
            )


def _gaps(tp: TopicPartition, before: Progress, *, position: int, cause: str) -> Iterator[Gap]:
    """What is passed over on the way to a position: going back, nothing; dead letters that are recorded already are not lost."""
    at = before.frontier
    for first, last in (*before.recorded.before(position).ranges, (position, position)):
        if at < first:
            yield Gap(*tp, at, first - 1, cause)
        at = max(at, last + 1)


def _moved(before: Progress, position: int, *, cause: str, state: PartitionState | None) -> Progress:
    """The progress at another position. What retention left is as it was; elsewhere offsets mean other records now.

    The leader epoch is that of the last look, if the log reached to there then; that of an earlier log says nothing of a new one.
    """
    end = None if state is None or cause == "recreated" else LogEnd(state.head, state.leader_epoch)
    if cause == "retention":
        return replace(before, frontier=position, recorded=before.recorded.since(position)).within(end)
    return Progress(position, None if before.written is None else min(before.written, position)).within(end)
