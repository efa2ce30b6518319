"""Which topic-partitions does a sink read, and where does each stand?

Finds topics and partitions while the sink runs, gives new ones their first position, notes the heads, and sees what Kafka no longer has
(`lost_offsets.py` does what is to be done then).
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.behaviour import Behaviour
from kafka_s3.engine.loop.committer import nothing_more
from kafka_s3.engine.loop.lost_offsets import LostOffsets, Stop
from kafka_s3.engine.loop.partition_state import PartitionState, cut_off, delivered
from kafka_s3.engine.loop.planner import assignment, closing_held
from kafka_s3.model.errors import OffsetsLost, TopicMissing
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, Topic
from kafka_s3.model.tasks import Assignment, TaskReport

_log = logging.getLogger(__name__)
Resume: TypeAlias = Callable[[TopicPartition], int | None]
LIKE: Final = 0.7
"""How much of two names must be the same for one to be a misspelling of the other."""


def _nowhere(topic_partition: TopicPartition) -> None:
    """There was no sink before."""


@dataclass
class Topics:
    """The partition_state of every topic-partition of a sink. `commit` writes an entry to the log and publishes it.

    `resume` gives a new topic-partition the offset at which the sink that this one replaces would go on, None where there is none.
    `silent` are topic-partitions that no broker answers for. `missing` says of each topic of the configuration that is not in Kafka what is
    the matter; of a pattern that fits no topic it does so under an empty name.
    """

    behaviour: Behaviour
    brokers: Brokers
    log: CommitLog
    commit: Callable[[CommitEntry, Callable[[], None]], None]
    observer: Observer
    stop: Stop
    has_stopped: Callable[[TopicPartition], bool]
    resume: Resume = _nowhere
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    _refreshed_ms: int | None = None
    _damaged: dict[TopicPartition, int] = field(default_factory=dict)
    silent: frozenset[TopicPartition] = frozenset()
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def _lost(self) -> LostOffsets:
        return LostOffsets(
            self.behaviour, self.brokers, self.log, self.commit, self.observer, self.partition_states, self.stop
        )

    def refresh(self, now: int) -> None:
        """Looks topics and partitions up; new ones get their first position, recreated topics stop, deleted ones rest."""
        names = self._topic_names()
        self._damaged = {}  # perhaps it is mended
        topics = self.brokers.describe(names)
        self._note_missing(names, topics)
        self._lost.look_for_recreated(topics.values())
        found = [TopicPartition(topic.name, partition) for topic in topics.values() for partition in topic.partitions]
        positions = self._first_positions([tp for tp in found if tp not in self.log.state.progress])
        ids = self._new_ids(names, topics)
        if positions or ids:
            _log.info(
                "first positions", extra={"facts": {"positions": {str(tp): p.frontier for tp, p in positions.items()}}}
            )
            self.commit(self.log.new_entry(EntryKind.POSITION, progress=positions, topic_ids=ids), nothing_more)
        self._forget([tp for tp in self.partition_states if tp not in found])
        rules, most = self.behaviour.readiness.rules, self.behaviour.readiness.task_records
        for tp in found:
            if tp not in self.partition_states and tp in self.log.state.progress:
                progress = self.log.state.progress[tp]
                self.partition_states[tp] = PartitionState(
                    tp,
                    progress.frontier,
                    rules.next_rotation(now),
                    progress.recorded,
                    grown_ms=now,
                    leader_epoch=progress.leader_epoch,
                    limit=most,
                    least_limit=most,
                )
        self._refreshed_ms = now

    def poll(self, now: int) -> None:
        """One delivery: notes the heads of all topic-partitions. Those that nobody leads are left out until someone does."""
        if self._refreshed_ms is None or not 0 <= now - self._refreshed_ms < self.behaviour.refresh_ms:
            self.refresh(now)
        ends = self.brokers.ends(self.partition_states)
        heads = {tp: min(end.offset, self._damaged.get(tp, end.offset)) for tp, end in ends.items()}
        self._note_silent(self.partition_states.keys() - heads.keys())
        short = {tp.topic for tp, head in heads.items() if head < self.partition_states[tp].seen}
        again = self._lost.look_for_recreated(self.brokers.describe(sorted(short)).values())
        cut = self._cut_logs(ends, again)
        for tp, head in heads.items():
            if tp not in self.partition_states:
                continue
            state, same = self.partition_states[tp], min(head, cut.get(tp, head))
            if self.has_stopped(tp):  # only how far it is behind is of interest
                self.partition_states[tp] = delivered(state, now, head, self.behaviour.readiness)
                continue
            if tp.topic not in again and same < state.frontier:
                self._lost.below_frontier(tp, state.frontier, same, head)
            elif same < state.seen:
                self._lost.above_frontier(state, same, head)
            looked, epoch = self.partition_states[tp], ends[tp].epoch
            if (looked.leader_epoch, looked.open_epoch) != (epoch, epoch):
                looked = replace(looked, leader_epoch=epoch, open_epoch=epoch)
            self.partition_states[tp] = delivered(looked, now, head, self.behaviour.readiness)

    def _cut_logs(self, ends: Mapping[TopicPartition, LogEnd], again: Set[str]) -> dict[TopicPartition, int]:
        """Up to which offset the logs are what was known of them, of those that were cut: a new leader may not have all of it."""
        known = {tp: self.partition_states[tp].known for tp in ends.keys() & self.partition_states.keys()}
        cut: dict[TopicPartition, int] = {}
        for proof in range(max(map(len, known.values()), default=0)):
            asked = {
                tp: proofs[proof]
                for tp, proofs in known.items()
                if tp.topic not in again and proof < len(proofs) and proofs[proof].epoch not in (None, ends[tp].epoch)
            }
            for tp, at in self.brokers.cut_before(asked).items():
                cut[tp] = min(at, cut.get(tp, at))
        return cut

    def without_damage(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """The reports of what could be read. A topic-partition with damage is read up to there, until topics are looked up again."""
        for report in reports:
            if report.damaged is not None:
                tp = report.topic_partition
                self.observer.warned(f"{report.damage} Until then {tp} is read up to there, and the others go on.")
                self._damaged[tp] = report.damaged
                self.partition_states[tp] = cut_off(self.partition_states[tp], report.damaged)
        return [report for report in reports if report.damaged is None]

    @property
    def leader_epochs(self) -> dict[TopicPartition, int | None]:
        """The leader epochs of the logs when they were last looked at."""
        return {tp: state.leader_epoch for tp, state in self.partition_states.items()}

    @property
    def standing(self) -> tuple[str, ...]:
        """What is the matter with topics and topic-partitions, as long as it lasts."""
        silent = ", ".join(map(str, sorted(self.silent)))
        damage = [
            f"what Kafka holds of {tp} from offset {offset} on is damaged" for tp, offset in self._damaged.items()
        ]
        return (*self.missing.values(), *damage, *([f"no broker answers for {silent}"] if silent else []))

    def check_all_found(self) -> None:
        """Raises TopicMissing where a topic of the list is not in Kafka, and never was while this sink looked for it."""
        never = [text for name, text in self.missing.items() if name and not self._was_there(name)]
        if never:
            text = "; ".join(never)
            raise TopicMissing(
                f"{text[:1].upper()}{text[1:]}. Correct the key topics, create the topic, or grant DESCRIBE and READ on it. What was in "
                "Kafka of the other topics has been read."
            )

    def _note_missing(self, names: Sequence[str], topics: Mapping[str, Topic]) -> None:
        """Warns once of topics that are to be read and never were there; they are looked for at each refresh."""
        before, at_work = self.missing, {tp.topic for tp in self.partition_states}
        gone = [name for name in names if name not in topics] if names else [""]
        self.missing = {name: before.get(name) or self._what_is_missing(name) for name in gone}
        # that a topic which was read until now is gone, `_forget` says
        fresh = [text for name, text in self.missing.items() if name not in before and name not in at_work]
        if fresh and (names or not at_work):
            self.observer.warned(f"{'; '.join(fresh)}. Looked for again every {self.behaviour.refresh_ms / 1000:g} s.")

    def _what_is_missing(self, name: str) -> str:
        if not name:
            return f"no topic has a name that topics.regex={self.behaviour.topics_regex} fits"
        text = f"topic {name} is not in Kafka, or may not be described"
        like = [] if self._was_there(name) else names_like(name, self.brokers.topic_names())
        return f"{text}; names like it: {', '.join(like)}" if like else text

    def _was_there(self, topic: str) -> bool:
        state = self.log.state
        return bool(state.topic_ids.get(topic)) or any(tp.topic == topic for tp in state.progress)

    def _new_ids(self, names: Sequence[str], topics: Mapping[str, Topic]) -> dict[str, str]:
        """The ids of topics that the log does not know; blank for those that are not there yet, where that matters later."""
        known = self.log.state.topic_ids
        ids = {topic.name: topic.id for topic in topics.values() if known.get(topic.name) != topic.id}
        if self.behaviour.reset != "earliest":
            ids |= {name: "" for name in names if name not in topics and name not in known}
        return ids

    def _note_silent(self, silent: Set[TopicPartition]) -> None:
        """Warns once of topic-partitions that cannot be asked; the others go on."""
        fresh = silent - self.silent
        if fresh:
            names = ", ".join(map(str, sorted(fresh)))
            self.observer.warned(f"{names}: no broker answers for it (no leader, or deleted). Left out until one does.")
        for tp in sorted(self.silent - silent):
            _log.info("answers again", extra={"facts": {"partition": str(tp)}})
        self.silent = frozenset(silent)

    def _topic_names(self) -> list[str]:
        if self.behaviour.topics_regex is None:
            return list(self.behaviour.topics)
        pattern = re.compile(self.behaviour.topics_regex)
        return [name for name in self.brokers.topic_names() if pattern.fullmatch(name)]

    def _first_positions(self, fresh: Sequence[TopicPartition]) -> dict[TopicPartition, Progress]:
        """Partitions found at the first start follow the reset policy; later ones begin at their first record, lest it be lost.

        Those that no broker answers for get theirs when one does.
        """
        if not fresh:
            return {}
        known = {tp: offset for tp in fresh if (offset := self.resume(tp)) is not None}
        fresh = [tp for tp in fresh if tp not in known]
        late = [tp for tp in fresh if self._appeared_later(tp.topic)]
        first = [tp for tp in fresh if tp not in late]
        policy = self.behaviour.reset
        if first and policy == "none":
            raise OffsetsLost(
                f"Sink {self.behaviour.sink} has no position for {', '.join(map(str, first))} and auto.offset.reset is none. "
                "Set consumer.override.auto.offset.reset to earliest or latest."
            )
        offsets = self.brokers.starts(late) | (self.brokers.heads if policy == "latest" else self.brokers.starts)(first)
        ends = self.brokers.ends([*known, *offsets])
        return {tp: Progress(offset).within(ends.get(tp)) for tp, offset in {**known, **offsets}.items()}

    def _appeared_later(self, topic: str) -> bool:
        """Whether a topic-partition without a position came after the sink's first start, also while the sink was down.

        Of a topic in the list that the log never heard of, that cannot be told: it may be old and new in the configuration.
        """
        state = self.log.state
        if self._refreshed_ms is not None or topic in state.topic_ids:
            return True
        return self.behaviour.topics_regex is not None and bool(state.topic_ids)

    def still_there(self, due: Sequence[Assignment]) -> list[Assignment]:
        """The assignments whose first unread record Kafka still has; the others stop, or go on behind a recorded gap."""
        topics = self.brokers.describe(sorted({a.topic_partition.topic for a in due}))
        # a topic that was created again since the last refresh may have grown past the frontier: its offsets then look well
        again = self._lost.look_for_recreated(topics.values())
        due = [a for a in due if a.topic_partition.topic in topics and a.topic_partition.topic not in again]
        if not due:
            return []
        starts = self.brokers.starts([a.topic_partition for a in due])
        self._note_silent(self.silent | ({a.topic_partition for a in due} - starts.keys()))
        return self._without_losses([a for a in due if a.topic_partition in starts], starts)

    def _without_losses(self, due: Sequence[Assignment], starts: Mapping[TopicPartition, int]) -> list[Assignment]:
        """What can be done of the assignments, given where Kafka's logs begin.

        Where open files hold what came before a loss, they are closed first, and the loss is for the next time: whatever becomes of the
        sink then, they are written.
        """
        lost = [a for a in due if a.first_unread < min(a.until, starts[a.topic_partition])]
        gone = {a.topic_partition: starts[a.topic_partition] for a in lost}
        there = [a for a in due if a.topic_partition not in gone]
        held = [closing_held(a) for a in lost if a.state is not None]
        if held or not lost:
            return held + there
        if not self._lost.by_retention(gone):
            return there
        states = [(self.partition_states[a.topic_partition], a.close) for a in lost]
        return there + [assignment(state, close=close) for state, close in states if state.head > state.frontier]

    def _forget(self, gone: Sequence[TopicPartition]) -> None:
        """Leaves out what Kafka does not have any more; the log keeps its position, in case it was the brokers that did not know it yet."""
        for tp in gone:
            partition_state = self.partition_states.pop(tp)
            unread = (
                f", {partition_state.head - partition_state.frontier} offsets before its end"
                if partition_state.head > partition_state.frontier
                else ""
            )
            self.observer.warned(
                f"{tp} is not in Kafka any more: left out. The sink stands at {partition_state.frontier}{unread}."
            )

    def intervals_reached(self) -> set[TopicPartition]:
        """Topic-partitions where the brokers' time index shows a record past the rotation interval of the open tail."""
        interval = self.behaviour.readiness.rules.interval_ms
        if interval <= 0 or not self.behaviour.record_timestamps:
            return set()
        wanted = {
            tp: partition_state.tail.base_ms + interval
            for tp, partition_state in self.partition_states.items()
            if partition_state.tail.base_ms is not None and partition_state.unexamined
        }
        found = self.brokers.offsets_at(wanted)
        return {tp for tp, offset in found.items() if offset is not None and offset < self.partition_states[tp].head}

    def ends_before(self, due: Sequence[Assignment]) -> bool:
        """Whether a topic-partition ends before what shall be read of it: it was truncated since it was looked at."""
        heads = self.brokers.heads([a.topic_partition for a in due])
        return any(heads.get(a.topic_partition, a.until) < a.until for a in due)


def names_like(name: str, names: Iterable[str]) -> list[str]:
    """The names, at most three, of which this one may be a misspelling; the nearest first."""
    by_lower = {one.lower(): one for one in names}
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=LIKE)]
