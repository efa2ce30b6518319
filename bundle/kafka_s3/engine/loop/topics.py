"""Which topic-partitions does a sink read, what is known of each, and what is done where Kafka no longer has what was known?

Finds topics and partitions while the sink runs, gives new ones their first position, notes the heads, and sees what Kafka no longer has:
retention passed the position, a log was truncated, a topic was deleted and created again. Then the topic-partition stops, or goes on behind
a recorded gap, as `behavior.on.lost.offsets` says.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from kafka_s3.connect.java.regex import compile_pattern
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import undivided
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.committer import nothing_more
from kafka_s3.engine.loop.planner import (
    Behaviour,
    PartitionState,
    assignment,
    closing_held,
    cut_off,
    delivered,
    new_incarnation,
)
from kafka_s3.model.errors import OffsetsLost, SinkError, SourceError, TopicMissing, TopicRecreated
from kafka_s3.model.offsets import Gap, LogEnd, OffsetSet, TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, Topic, TopicBacklog
from kafka_s3.model.tasks import Assignment, TaskReport

Resume: TypeAlias = Callable[[TopicPartition], int | None]
Stop: TypeAlias = Callable[[Mapping[TopicPartition, SinkError]], None]
"""Learns which topic-partitions stop, and why; those that have stopped already stay as they are."""
LIKE: Final = 0.7
"""How much of two names must be the same for one to be a misspelling of the other."""
_log = logging.getLogger(__name__)


@dataclass
class Backlog:
    """Remembers, of each topic-partition with open files, at which frontier and since when (epoch ms) they have been seen open."""

    _open: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def by_topic(self, states: Iterable[PartitionState], now_ms: int) -> dict[str, TopicBacklog]:
        """The backlog of each topic, over its topic-partitions."""
        found: dict[str, TopicBacklog] = {}
        before, self._open = self._open, {}
        for one in states:
            tp, open_ms = one.topic_partition, None
            if one.tail.records and one.lag:
                frontier, since_ms = before.get(tp, (one.frontier, now_ms))
                open_ms = since_ms if frontier == one.frontier else now_ms
                self._open[tp] = one.frontier, open_ms
            here, rest = (
                TopicBacklog(one.lag, one.waiting_ms, open_ms, one.unexamined),
                found.get(tp.topic, TopicBacklog(0)),
            )
            found[tp.topic] = TopicBacklog(
                rest.records + here.records,
                _earlier(rest.unread_since_ms, here.unread_since_ms),
                _earlier(rest.open_since_ms, here.open_since_ms),
                rest.unread + here.unread,
            )
        return found


def _earlier(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


@dataclass
class Topics:
    """The state of every topic-partition of a sink. `commit` writes an entry to the log and publishes it.

    `resume` gives a new topic-partition the offset at which the sink that this one replaces would go on, None where there is none.
    `silent` are topic-partitions that no broker answers for. `missing` says of each topic of the configuration that is not in Kafka what is
    the matter; of a pattern that fits no topic it does so under an empty name. `stop` learns which topic-partitions stop, with OffsetsLost
    or TopicRecreated, where Kafka no longer has what was known and `behavior.on.lost.offsets` is fail.
    """

    behaviour: Behaviour
    brokers: Brokers
    log: CommitLog
    commit: Callable[[CommitEntry, Callable[[], None]], None]
    observer: Observer
    stop: Stop
    has_stopped: Callable[[TopicPartition], bool]
    resume: Resume | None = None
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    _refreshed_ms: int | None = None
    _damaged: dict[TopicPartition, int] = field(default_factory=dict)
    silent: frozenset[TopicPartition] = frozenset()
    missing: dict[str, str] = field(default_factory=dict)
    _backlog: Backlog = field(default_factory=Backlog)

    def refresh(self, now: int) -> None:
        """Looks topics and partitions up; new ones get their first position, recreated topics stop, deleted ones rest."""
        names = self._topic_names()
        self._damaged = {}  # perhaps it is mended
        topics = self.brokers.describe(names)
        self._note_missing(names, topics)
        self._stop_recreated(topics.values())
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
        short = {tp.topic for tp, head in heads.items() if head < self._seen(self.partition_states[tp])}
        recreated = self._stop_recreated(self.brokers.describe(sorted(short)).values())
        cut = self._cut_logs(ends, recreated)
        for tp, head in heads.items():
            if tp not in self.partition_states:
                continue
            state, same = self.partition_states[tp], min(head, cut.get(tp, head))
            if self.has_stopped(tp):  # only how far it is behind is of interest
                self.partition_states[tp] = delivered(state, now, head, self.behaviour.readiness)
                continue
            if tp.topic not in recreated and same < state.frontier:
                self._lost_below_frontier(tp, state.frontier, same, head)
            elif same < self._seen(state):
                self._lost_above_frontier(state, same, head)
            state, epoch = self.partition_states[tp], ends[tp].epoch
            if (state.leader_epoch, state.open_epoch) != (epoch, epoch):
                state = replace(state, leader_epoch=epoch, open_epoch=epoch)
            self.partition_states[tp] = delivered(state, now, head, self.behaviour.readiness)

    def _cut_logs(self, ends: Mapping[TopicPartition, LogEnd], recreated: Set[str]) -> dict[TopicPartition, int]:
        """Up to which offset the logs are what was known of them, of those that were cut: a new leader may not have all of it."""
        known = {tp: self._proofs(self.partition_states[tp]) for tp in ends.keys() & self.partition_states.keys()}
        cut: dict[TopicPartition, int] = {}
        for proof in range(max(map(len, known.values()), default=0)):
            asked = {
                tp: proofs[proof]
                for tp, proofs in known.items()
                if tp.topic not in recreated
                and proof < len(proofs)
                and proofs[proof].epoch not in (None, ends[tp].epoch)
            }
            for tp, at in self.brokers.cut_before(asked).items():
                cut[tp] = min(at, cut.get(tp, at))
        return cut

    def _seen(self, state: PartitionState) -> int:
        """Return one past the highest offset that is known to have been there, erased ones included."""
        return max(state.seen, self._erased(state.topic_partition).until)

    def _proofs(self, state: PartitionState) -> tuple[LogEnd, ...]:
        """Return offsets with leader epochs that prove that a log is still the same."""
        erased = self._erased(state.topic_partition).until
        return (*state.known, *([LogEnd(erased, state.leader_epoch)] if erased > state.seen else []))

    def _erased(self, tp: TopicPartition) -> OffsetSet:
        return self.log.state.erased.get(tp, OffsetSet())

    def without_damage(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """The reports of what could be read. A topic-partition with damage is read up to there, until topics are refreshed."""
        for report in reports:
            if report.damaged is not None:
                tp = report.topic_partition
                self.observer.warned(f"{report.damage} Until then {tp} is read up to there, and the others go on.")
                self._damaged[tp] = report.damaged
                self.partition_states[tp] = cut_off(self.partition_states[tp], report.damaged)
        return [report for report in reports if report.damaged is None]

    @property
    def leader_epochs(self) -> dict[TopicPartition, int | None]:
        """The leader epochs of the logs at the last poll."""
        return {tp: state.leader_epoch for tp, state in self.partition_states.items()}

    @property
    def open_problems(self) -> tuple[str, ...]:
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
        pattern = compile_pattern(self.behaviour.topics_regex)
        return [name for name in self.brokers.topic_names() if pattern.fullmatch(name)]

    def _first_positions(self, fresh: Sequence[TopicPartition]) -> dict[TopicPartition, Progress]:
        """Partitions found at the first start follow the reset policy; later ones begin at their first record, lest it be lost.

        Those that no broker answers for get theirs when one does.
        """
        if not fresh:
            return {}
        resume = self.resume or (lambda _: None)
        known = {tp: offset for tp in fresh if (offset := resume(tp)) is not None}
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

        Of a topic in the list that is not in the log, that cannot be known: it may be old and new in the configuration.
        """
        state = self.log.state
        if self._refreshed_ms is not None or topic in state.topic_ids:
            return True
        return self.behaviour.topics_regex is not None and bool(state.topic_ids)

    def still_there(self, due: Sequence[Assignment]) -> list[Assignment]:
        """The assignments whose first unread record Kafka still has; the others stop, or go on behind a recorded gap."""
        topics = self.brokers.describe(sorted({a.topic_partition.topic for a in due}))
        # a topic that was created again since the last refresh may have grown past the frontier: its offsets then look well
        self._stop_recreated(topics.values())
        due = [a for a in due if a.topic_partition.topic in topics and self._holds(a)]
        if not due:
            return []
        starts = self.brokers.starts([a.topic_partition for a in due])
        self._note_silent(self.silent | ({a.topic_partition for a in due} - starts.keys()))
        return self._without_losses([a for a in due if a.topic_partition in starts], starts)

    def _holds(self, planned: Assignment) -> bool:
        """Return whether the offsets of an assignment still are of the incarnation for which it was planned."""
        state = self.partition_states.get(planned.topic_partition)
        return state is not None and state.incarnation == planned.incarnation

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
        if not self._lost_to_retention(gone):
            return there
        states = [(self.partition_states[a.topic_partition], a.close) for a in lost]
        return there + [assignment(state, close=close) for state, close in states if state.head > state.frontier]

    def _forget(self, gone: Sequence[TopicPartition]) -> None:
        """Leaves out what Kafka does not have any more; the log keeps its position, in case it was the brokers that did not know it yet."""
        for tp in gone:
            state = self.partition_states.pop(tp)
            unread = f", {state.lag} offsets before its end" if state.lag else ""
            self.observer.warned(f"{tp} is not in Kafka any more: left out. The sink is at {state.frontier}{unread}.")

    def intervals_reached(self) -> set[TopicPartition]:
        """Topic-partitions where the brokers' time index shows a record past the rotation interval of the open tail."""
        interval = self.behaviour.readiness.rules.interval_ms
        if interval <= 0 or not self.behaviour.record_timestamps:
            return set()
        wanted = {
            tp: state.tail.base_ms + interval
            for tp, state in self.partition_states.items()
            if state.tail.base_ms is not None and state.unexamined
        }
        found = self.brokers.offsets_at(wanted)
        return {tp for tp, offset in found.items() if offset is not None and offset < self.partition_states[tp].head}

    def ends_before(self, wanted: Assignment) -> bool:
        """Whether a topic-partition ends before what shall be read of it: it was truncated since the last poll."""
        return self.brokers.heads([wanted.topic_partition]).get(wanted.topic_partition, wanted.until) < wanted.until

    def lag(self) -> dict[TopicPartition, int]:
        """Per topic-partition the records between the frontier and the newest known head; none for those that no broker answers for."""
        return {tp: state.lag for tp, state in self.partition_states.items() if tp not in self.silent}

    def backlog(self, now_ms: int) -> dict[str, TopicBacklog]:
        """What of each topic is not in objects; nothing of topic-partitions that no broker answers for."""
        return self._backlog.by_topic((s for tp, s in self.partition_states.items() if tp not in self.silent), now_ms)

    # ------------------------------------------------------------ what Kafka no longer has

    def _lost_to_retention(self, starts: Mapping[TopicPartition, int]) -> bool:
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

    def _lost_above_frontier(self, state: PartitionState, same: int, head: int) -> None:
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
        cuts = {tp: same} if self._erased(tp).until > same else {}
        if dead or cuts:
            moved = replace(progress, recorded=progress.recorded.before(same))
            self.commit(self.log.new_entry(EntryKind.POSITION, progress={tp: moved}, cuts=cuts), nothing_more)
        self.partition_states[tp] = left

    def _lost_below_frontier(self, tp: TopicPartition, wanted: int, same: int, head: int) -> None:
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
            self._begin_incarnations([tp])
            self.stop({tp: OffsetsLost(f"Sink {self.behaviour.sink}: {tp} {text}")})
            return
        position = undivided(self.log.entries(), {tp: same}, self.brokers.starts([tp])).get(tp, same)
        self.observer.warned(f"{tp} was truncated at {same}, before {wanted}: the sink goes on at {position}.")
        cuts = {tp: same} if self._erased(tp).since(position).before(same).ranges else {}
        self._jump({tp: position}, cause="truncated", cuts=cuts)

    def _stop_recreated(self, topics: Iterable[Topic]) -> set[str]:
        """The names of the topics that are not those that the log knows; their topic-partitions stop, or start from the beginning."""
        recreated = [topic for topic in topics if self.log.state.is_recreated(topic.name, topic.id)]
        for topic in recreated:
            self._recreated(topic)
        return {topic.name for topic in recreated}

    def _recreated(self, topic: Topic) -> None:
        before = [tp for tp in self.log.state.progress if tp.topic == topic.name]
        if self.behaviour.lost == "fail":
            error = TopicRecreated(
                f"Sink {self.behaviour.sink}: topic {topic.name} was deleted and created again; its offsets and object names start again. "
                "Use a new sink name with another topics.dir, or set behavior.on.lost.offsets=gap to go on from its first record "
                "(objects of the old topic with the same names are overwritten)."
            )
            own = [TopicPartition(topic.name, partition) for partition in topic.partitions]
            self._begin_incarnations([*before, *own])
            self.stop(dict.fromkeys([*before, *own], error))
            return
        still = [tp for tp in before if tp.partition in topic.partitions]
        for gone in set(self.partition_states).intersection(before).difference(still):
            del self.partition_states[gone]
        # a partition that the new topic does not have yet would begin at its first offset, too
        positions = dict.fromkeys(before, 0) | self.brokers.starts(still)
        self._jump(positions, cause="recreated", topic_ids={topic.name: topic.id})

    def _begin_incarnations(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Let nothing count that was planned or read so far."""
        for tp in self.partition_states.keys() & set(topic_partitions):
            self.partition_states[tp] = replace(self.partition_states[tp], incarnation=new_incarnation())

    def _jump(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        cause: str,
        topic_ids: Mapping[str, str] | None = None,
        cuts: Mapping[TopicPartition, int] | None = None,
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
        entry = self.log.new_entry(
            EntryKind.POSITION, progress=progress, gaps=tuple(gaps), topic_ids=topic_ids or {}, cuts=cuts or {}
        )
        self.commit(entry, partial(self._moved_to, progress, cause))

    def _moved_to(self, progress: Mapping[TopicPartition, Progress], cause: str) -> None:
        """The states after an entry that moved them."""
        for tp in self.partition_states.keys() & progress.keys():
            state, position = self.partition_states[tp], progress[tp].frontier
            kept = tuple(d for d in state.deliveries if d.until > position) if cause == "retention" else ()
            self.partition_states[tp] = replace(
                state,
                frontier=position,
                examined=position,
                examined_ms=None,
                recorded=progress[tp].recorded,
                deliveries=kept,
                open_state=None,
                leader_epoch=progress[tp].leader_epoch,
                incarnation=new_incarnation(),
            )


def names_like(name: str, names: Iterable[str]) -> list[str]:
    """The names, at most three, of which this one may be a misspelling; the nearest first."""
    by_lower = {one.lower(): one for one in names}
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=LIKE)]


def is_another(known: str, found: str) -> bool:
    """Whether two cluster ids are of different clusters; a blank one says nothing."""
    return bool(known) and bool(found) and known != found


def check_cluster(known: str, found: str, *, sink: str, remedy: str) -> None:
    """Raises SourceError where the log knows another cluster (`known`) than the one that was reached (`found`)."""
    if is_another(known, found):
        raise SourceError(
            f"Sink {sink} was fed by Kafka cluster {known}, but this is cluster {found}: its offsets mean other records. "
            f"Check kafka.bootstrap.servers, or {remedy}."
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

    The leader epoch is that of the last poll, if the log reached to there then; that of an earlier log says nothing of a new one.
    """
    end = None if state is None or cause == "recreated" else LogEnd(state.head, state.leader_epoch)
    if cause == "retention":
        return replace(before, frontier=position, recorded=before.recorded.since(position)).within(end)
    return Progress(position, None if before.written is None else min(before.written, position)).within(end)
