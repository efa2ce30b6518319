"""How does a sink run? The loop: look at the brokers, plan, read, commit, publish, follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kafka_s3.commit_entry import CommitEntry, Kind, Progress
from kafka_s3.commit_log import CommitLog
from kafka_s3.errors import (
    CommitError,
    KafkaUnavailable,
    OffsetsLost,
    RecordError,
    SourceError,
    StorageUnavailable,
    TopicRecreated,
)
from kafka_s3.followers import DeadLetterTopic, Follower
from kafka_s3.model import DataFile, DeadLetterCount, Gap, Reason, Role, TopicPartition, Totals
from kafka_s3.planner import Readiness, Standing, assignment, committed, delivered, in_turns, plan
from kafka_s3.recovery import rewrite_from_kafka
from kafka_s3.source import Brokers, Source
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tagging import Tagging
from kafka_s3.worker import Assignment, TaskReport


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the loop itself needs of the configuration. `reset`: earliest, latest or none; `lost`: fail or gap."""

    sink: str
    topics: tuple[str, ...]
    topics_regex: str | None
    readiness: Readiness
    tasks_max: int
    reset: str
    lost: str
    refresh_ms: int
    record_timestamps: bool


@dataclass(frozen=True, slots=True)
class Round:
    """What one step of the loop did, for progress displays and logs. Times in epoch ms, lag in records."""

    version: int
    started_ms: int
    ended_ms: int
    read: int
    totals: Totals
    files: tuple[DataFile, ...]
    frontier: dict[TopicPartition, int]
    lag: dict[TopicPartition, int]


class Observer(Protocol):
    """Is told what the loop does."""

    def started(self, sink: Sink) -> None:
        """The log is claimed and the topics are known."""
        ...

    def round_done(self, done: Round) -> None:
        """A round was committed, published and followed."""
        ...

    def warned(self, text: str) -> None:
        """Something failed that the sink tries again."""
        ...


class Silent:
    """An observer that does nothing."""

    def started(self, sink: Sink) -> None:
        """Nothing."""

    def round_done(self, done: Round) -> None:
        """Nothing."""

    def warned(self, text: str) -> None:
        """Nothing."""


@dataclass
class Sink:
    """One sink: the driver's state and its loop. Not thread-safe; one per process and name."""

    behaviour: Behaviour
    brokers: Brokers
    source: Source
    store: ObjectStore
    log: CommitLog
    clock_ms: Callable[[], int]
    followers: Sequence[Follower] = ()
    tagging: Tagging | None = None
    observer: Observer = field(default_factory=Silent)
    standings: dict[TopicPartition, Standing] = field(default_factory=dict)
    _refreshed_ms: int | None = None
    _unpublished: CommitEntry | None = None

    def open(self) -> None:
        """Claims the log, publishes what the last driver left, finds the topics. Raises CommitError, SourceError, StorageError."""
        cluster = self.brokers.cluster_id()
        known = self.log.load().cluster_id
        if known and cluster and known != cluster:
            raise SourceError(
                f"Sink {self.behaviour.sink} was fed by Kafka cluster {known}, but this is cluster {cluster}: its offsets mean other "
                "records. Check kafka.bootstrap.servers, or use a new sink name."
            )
        self.log.claim(cluster_id=cluster, rewrite=self._rewrite)
        self.refresh()
        self._follow()
        self.observer.started(self)

    def refresh(self) -> None:
        """Looks topics and partitions up; new ones get their first position, recreated topics stop the sink."""
        now = self.clock_ms()
        topics = self.brokers.describe(self._topic_names())
        known = self.log.state
        for topic in topics.values():
            before = known.topic_ids.get(topic.name)
            if before is not None and before != topic.id:
                self._recreated(topic.name)
        found = [TopicPartition(topic.name, partition) for topic in topics.values() for partition in topic.partitions]
        fresh = [tp for tp in found if tp not in known.progress]
        ids = {topic.name: topic.id for topic in topics.values() if known.topic_ids.get(topic.name) != topic.id}
        if fresh or ids:
            positions = self._first_positions(fresh)
            self._commit(self.log.new_entry(Kind.POSITION, progress=positions, topic_ids=ids))
        rules = self.behaviour.readiness.rules
        for tp in found:
            if tp not in self.standings:
                progress = self.log.state.progress[tp]
                self.standings[tp] = Standing(
                    tp, progress.frontier, rules.next_rotation(now), progress.recorded, grown_ms=now
                )
        self._refreshed_ms = now

    def cycle(self) -> bool:
        """Looks and works off what is due. False where Kafka or the bucket did not answer; the next cycle goes on from there."""

        def look_and_work() -> None:
            self.look()
            while self.step():
                pass

        return self._tried(look_and_work)

    def try_drain(self, *, close: Reason | None = None) -> bool:
        """Drains; False where Kafka or the bucket did not answer and it has to be called again."""
        return self._tried(lambda: self.drain(close=close))

    def look(self) -> None:
        """One delivery: notes the heads of all topic-partitions."""
        now = self.clock_ms()
        if self._refreshed_ms is None or now - self._refreshed_ms >= self.behaviour.refresh_ms:
            self.refresh()
        heads = self.brokers.heads(self.standings)
        for tp, head in heads.items():
            standing = self.standings[tp]
            if head < standing.frontier:
                self._beyond_head(tp, standing.frontier, head)
            self.standings[tp] = delivered(standing, now, head, self.behaviour.readiness)

    def step(self) -> bool:
        """Plans and works off what is due; returns whether anything was."""
        self._publish()
        now = self.clock_ms()
        due = []
        reached = self._intervals_reached()
        for tp, standing in self.standings.items():
            planned = plan(standing, now, self.behaviour.readiness, interval_reached=tp in reached)
            if planned is not None:
                due.append(planned)
        return self.work(due)

    def drain(self, *, close: Reason | None = None) -> None:
        """Works until nothing that was delivered can close a file any more; with `close` the open tail is closed too."""
        while self.step():
            pass
        self.work([assignment(s) for s in self.standings.values() if s.unexamined])
        while close is not None:
            pending = [assignment(s, close=close) for s in self.standings.values() if s.head > s.frontier]
            if not self.work(pending):
                return

    def work(self, due: Sequence[Assignment]) -> bool:
        """Reads the assignments, `tasks.max` at a time, and commits each turn; returns whether anything was read."""
        due = self._still_there(due)
        for turn in in_turns(due, self.behaviour.tasks_max):
            started = self.clock_ms()
            reports = self.source.read(turn)
            self._stop_at_failures(reports)
            entry = self._entry(reports)
            if entry is not None:
                self.log.append(entry)
                self._unpublished = entry
            for report in reports:
                standing = self.standings[report.topic_partition]
                self.standings[report.topic_partition] = committed(standing, report, self.clock_ms())
            self._publish()
            self._tell(started, reports, entry)
        return bool(due)

    def lag(self) -> dict[TopicPartition, int]:
        """Per topic-partition the records between the frontier and the newest known head."""
        return {tp: max(standing.head - standing.frontier, 0) for tp, standing in self.standings.items()}

    def _tried(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (KafkaUnavailable, StorageUnavailable) as error:
            self.observer.warned(str(error))
            return False
        return True

    # ------------------------------------------------------------ commit

    def _entry(self, reports: Sequence[TaskReport]) -> CommitEntry | None:
        changed = [r for r in reports if r.frontier != r.start or r.files]
        if not changed:
            return None
        progress = {r.topic_partition: self._progress(r) for r in changed}
        files = tuple(file for report in changed for file in report.files)
        values = [file for file in files if file.role is Role.VALUE]
        written, dead = sum(file.records for file in values), sum(len(r.dead) for r in changed)
        skipped = sum(r.skipped for r in changed)
        totals = Totals(
            written + dead + skipped, written, dead, skipped, len(values), sum(file.bytes for file in values)
        )
        return self.log.new_entry(
            Kind.DATA,
            progress=progress,
            files=files,
            dead_letters={r.topic_partition: DeadLetterCount(len(r.dead), r.stages) for r in changed if len(r.dead)},
            skipped={r.topic_partition: r.skipped for r in changed if r.skipped},
            totals=totals,
        )

    def _progress(self, report: TaskReport) -> Progress:
        """Where a topic-partition stands after the report, once its records add up."""
        before = self.log.state.progress[report.topic_partition]
        values = [file for file in report.files if file.role is Role.VALUE]
        dead = before.recorded.plus(report.dead)
        settled = sum(file.records for file in values) + len(dead.before(report.frontier)) + report.skipped
        if settled != report.rows:
            raise CommitError(
                f"{report.topic_partition} [{report.start}, {report.frontier}): {report.rows} records read, but {settled} written, "
                "dead-lettered or skipped. Nothing was committed. This is a defect of kafka-s3; please report it."
            )
        written = max((file.last_offset + 1 for file in values), default=before.written)
        return Progress(report.frontier, written, dead.since(report.frontier))

    def _commit(self, entry: CommitEntry) -> None:
        self.log.append(entry)
        self._unpublished = entry
        self._publish()

    def _publish(self) -> None:
        """Publishes the last entry, if that is still to be done: no entry is written behind an unpublished one."""
        entry = self._unpublished
        if entry is None:
            return
        self.log.publish(entry, rewrite=self._rewrite)
        self._unpublished = None
        if self.tagging is not None:
            self.tagging.tag(entry.files, self.store)
        self.log.checkpoint()
        self._follow()

    def _follow(self) -> None:
        for follower in self.followers:
            try:
                follower.catch_up(self.log)
            except SourceError as error:  # the objects are there all the same; a follower never stops the sink
                self.observer.warned(f"{follower.name}: {error} It catches up after the next entry.")

    def _rewrite(self, entry: CommitEntry, gone: list[DataFile]) -> list[DataFile]:
        return rewrite_from_kafka(entry, gone, brokers=self.brokers, source=self.source)

    def _tell(self, started: int, reports: Sequence[TaskReport], entry: CommitEntry | None) -> None:
        done = Round(
            version=self.log.state.version,
            started_ms=started,
            ended_ms=self.clock_ms(),
            read=sum(report.read for report in reports),
            totals=entry.totals if entry is not None else Totals(),
            files=entry.files if entry is not None else (),
            frontier=self.log.state.frontier,
            lag=self.lag(),
        )
        self.observer.round_done(done)

    def _stop_at_failures(self, reports: Sequence[TaskReport]) -> None:
        failed = [report for report in reports if report.failure is not None]
        if not failed:
            return
        for report in reports:
            for file in report.files:
                self.store.abort_upload(file.upload.key, file.upload.id)
        letters = [report.letter for report in failed if report.letter is not None]
        topics = [follower for follower in self.followers if isinstance(follower, DeadLetterTopic)]
        for topic in topics if letters else []:
            topic.send(letters)
        first = failed[0]
        raise RecordError(
            f"Sink {self.behaviour.sink} stops at {first.failure} Nothing of this batch was committed; the sink stands at "
            f"{first.topic_partition} offset {first.start}. To go on without such records set errors.tolerance=all "
            "(and errors.deadletterqueue.topic.name to keep them in a topic), or correct the configuration."
        )

    # ------------------------------------------------------------ topics and positions

    def _topic_names(self) -> list[str]:
        if self.behaviour.topics_regex is None:
            return list(self.behaviour.topics)
        pattern = re.compile(self.behaviour.topics_regex)
        return [name for name in self.brokers.topic_names() if pattern.fullmatch(name)]

    def _first_positions(self, fresh: Sequence[TopicPartition]) -> dict[TopicPartition, Progress]:
        """Partitions found at the start follow the reset policy; those that appear later begin at their first record, lest it be lost."""
        if not fresh:
            return {}
        policy = self.behaviour.reset if self._refreshed_ms is None else "earliest"
        if policy == "none":
            raise OffsetsLost(
                f"Sink {self.behaviour.sink} has no position for {', '.join(map(str, fresh))} and auto.offset.reset is none. "
                "Set consumer.override.auto.offset.reset to earliest or latest."
            )
        offsets = self.brokers.starts(fresh) if policy == "earliest" else self.brokers.heads(fresh)
        return {tp: Progress(offset) for tp, offset in offsets.items()}

    def _still_there(self, due: Sequence[Assignment]) -> list[Assignment]:
        """The assignments whose first record Kafka still has; for the others the sink stops, or records a gap."""
        if not due:
            return []
        starts = self.brokers.starts([a.topic_partition for a in due])
        lost = {a.topic_partition: starts[a.topic_partition] for a in due if starts[a.topic_partition] > a.start}
        if not lost:
            return list(due)
        details = "; ".join(
            f"{tp}: wanted {self.standings[tp].frontier}, available from {start}" for tp, start in sorted(lost.items())
        )
        if self.behaviour.lost == "fail":
            raise OffsetsLost(
                f"Sink {self.behaviour.sink}: records that must be read are no longer in Kafka ({details}). Restore them, or set "
                "behavior.on.lost.offsets=gap to go on and record the gap."
            )
        self.observer.warned(f"records lost to retention, gap recorded: {details}")
        self._jump({tp: start for tp, start in lost.items()}, cause="retention")
        return [a for a in due if a.topic_partition not in lost]

    def _beyond_head(self, tp: TopicPartition, wanted: int, head: int) -> None:
        if self.behaviour.lost == "fail":
            raise OffsetsLost(
                f"Sink {self.behaviour.sink}: {tp} ends at {head}, but {wanted} is wanted next: the partition was truncated or its "
                "topic recreated. Set behavior.on.lost.offsets=gap to go on at its end, or use a new sink name."
            )
        self._jump({tp: head}, cause="truncated")

    def _recreated(self, topic: str) -> None:
        if self.behaviour.lost == "fail":
            raise TopicRecreated(
                f"Sink {self.behaviour.sink}: topic {topic} was deleted and created again; its offsets begin anew, and so would its object "
                "names. Use a new sink name with another topics.dir, or set behavior.on.lost.offsets=gap to go on from its first record "
                "(objects of the old topic with the same names are overwritten)."
            )
        partitions = [tp for tp in self.log.state.progress if tp.topic == topic]
        self._jump(self.brokers.starts(partitions), cause="recreated")

    def _jump(self, positions: dict[TopicPartition, int], *, cause: str) -> None:
        """Moves frontiers over what is gone, as an entry of the log."""
        state = self.log.state
        gaps = [
            Gap(*tp, state.progress[tp].frontier, max(position - 1, state.progress[tp].frontier), cause)
            for tp, position in positions.items()
        ]
        progress = {tp: Progress(position, state.progress[tp].written) for tp, position in positions.items()}
        self._commit(self.log.new_entry(Kind.POSITION, progress=progress, gaps=tuple(gaps)))
        for tp, position in positions.items():
            if tp in self.standings:
                self.standings[tp] = replace(
                    self.standings[tp],
                    frontier=position,
                    examined=position,
                    examined_ms=None,
                    recorded=Progress(0).recorded,
                )

    def _intervals_reached(self) -> set[TopicPartition]:
        """Topic-partitions where the brokers' time index shows a record past the rotation interval of the open tail."""
        interval = self.behaviour.readiness.rules.interval_ms
        if interval <= 0 or not self.behaviour.record_timestamps:
            return set()
        wanted = {
            tp: standing.tail.base_ms + interval
            for tp, standing in self.standings.items()
            if standing.tail.base_ms is not None and standing.unexamined
        }
        found = self.brokers.offsets_at(wanted)
        return {tp for tp, offset in found.items() if offset is not None and offset < self.standings[tp].head}
