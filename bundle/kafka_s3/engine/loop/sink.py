"""How does a sink run? The loop: look at the brokers, plan, read, commit, publish, follow.

A topic-partition that fails costs itself only. Its siblings' reports are committed, and it is tried again alone, beside the loop, with
pauses of its own (`failures`, `retries`); what it left in the bucket is removed first (`leftovers`). Where all of them fail, the service
behind them is away: then the loop itself waits (`patience`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, replace
from functools import partial, reduce
from typing import Final

from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import Rewrite
from kafka_s3.engine.loop.behaviour import Behaviour
from kafka_s3.engine.loop.cluster import check_cluster
from kafka_s3.engine.loop.committer import Committer, nothing_more
from kafka_s3.engine.loop.dead_letter_limit import stops_above_limit
from kafka_s3.engine.loop.dead_letter_reporters import REPORTERS
from kafka_s3.engine.loop.entries import entry_of, portions, stop_errors, tell
from kafka_s3.engine.loop.failures import PartitionFailures
from kafka_s3.engine.loop.follower import Follower
from kafka_s3.engine.loop.group_offsets import GroupMirror
from kafka_s3.engine.loop.leftovers import Leftovers
from kafka_s3.engine.loop.open_states import OpenStates
from kafka_s3.engine.loop.partition_state import PartitionState, committed
from kafka_s3.engine.loop.patience import Patience
from kafka_s3.engine.loop.phases import PhaseTimes
from kafka_s3.engine.loop.planner import assignment, in_turns, plan
from kafka_s3.engine.loop.recovery import Recovery
from kafka_s3.engine.loop.retries import Background, Retries, Retry, at_once
from kafka_s3.engine.loop.topics import Resume, Topics
from kafka_s3.engine.loop.waiting import Waits
from kafka_s3.model.errors import (
    ConfigError,
    Fenced,
    KafkaUnavailable,
    OffsetsLost,
    SinkError,
    StorageError,
    UploadMissing,
)
from kafka_s3.model.files import Reason, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, RoundPhase, RoundSummary, Source, Start, Waiting
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, TaskReport
from kafka_s3.model.timing import Requests
from kafka_s3.store.store import ObjectStore, abort_uploads

RETRY_LOOK_MS: Final = 250
"""How often the loop looks whether a read beside it has ended."""
_log = logging.getLogger(__name__)


def always() -> bool:
    """Nothing keeps the sink from going on."""
    return True


@dataclass
class Sink:
    """One sink: the driver's state and its loop. Not thread-safe; one per process and name."""

    behaviour: Behaviour
    brokers: Brokers
    source: Source
    store: ObjectStore
    log: CommitLog
    clock_ms: Callable[[], int]
    followers: InitVar[Sequence[Follower]]
    data_keys: InitVar[DataKeys]
    group: InitVar[Follower | None] = None
    observer: Observer = field(default_factory=Observer)
    resume: Resume | None = None
    replays_again: InitVar[Rewrite | None] = None
    open_states: OpenStates | None = None
    background: InitVar[Background] = at_once
    topics: Topics = field(init=False)
    looked_ms: int | None = None
    committer: Committer = field(init=False)
    patience: Patience = field(init=False)
    failures: PartitionFailures = field(init=False)
    leftovers: Leftovers = field(init=False)
    retries: Retries = field(init=False)
    _phases: PhaseTimes = field(default_factory=PhaseTimes)
    _waits: Waits = field(default_factory=Waits)
    _mirror: GroupMirror = field(init=False)
    _untold: Callable[[], None] = nothing_more

    def __post_init__(
        self,
        followers: Sequence[Follower],
        data_keys: DataKeys,
        group: Follower | None,
        replays_again: Rewrite | None,
        background: Background,
    ) -> None:
        """Topics are found when the sink is opened."""
        behaviour = self.behaviour
        self.failures = PartitionFailures(self.clock_ms, behaviour.backoff, behaviour.retry_timeout_ms, behaviour.lost)
        self.leftovers = Leftovers(self.store, self.log, data_keys, self.observer, self.clock_ms)
        self.retries = Retries(self.source, background)
        recovery = Recovery(self.brokers, self.source, self.store, behaviour.lost, replays_again)
        waits = lambda tp, error: self._note_failures({tp: error})  # noqa: E731
        self.committer = Committer(self.log, recovery, followers, self.observer, self._phases, waits)
        self._mirror = GroupMirror(group, self.log, self.observer)
        self.patience = Patience(behaviour, self.observer, self.clock_ms, self.failures.is_final)
        self.topics = Topics(
            behaviour,
            self.brokers,
            self.log,
            self.committer.commit,
            self.observer,
            stop=self._note_stops,
            has_stopped=lambda tp: tp in self.failures.stopped,
        )
        if self.resume is not None:
            self.topics.resume = self.resume

    @property
    def partition_states(self) -> dict[TopicPartition, PartitionState]:
        """Where each topic-partition stands."""
        return self.topics.partition_states

    def open(self) -> None:
        """Claims the log, publishes what the last driver left, finds the topics. Raises CommitError, SourceError, StorageError."""
        cluster = self.brokers.cluster_id()
        check_cluster(self.log.load().cluster_id, cluster, sink=self.behaviour.sink, remedy="use a new sink name")
        self.committer.claim(cluster)
        self.topics.refresh(self.clock_ms())
        if self.open_states is not None:
            self.topics.partition_states = self.open_states.restored(self.partition_states, self.log)
        self.leftovers.suspect_earlier_driver(self.partition_states)
        self._raise_stop()
        for text in self.failures.problems:
            self.observer.warned(text)
        self.committer.follow()
        self._mirror.tell()
        self.observer.started(self._start())

    def cycle(self, go_on: Callable[[], bool] = always) -> bool:
        """Looks and works off what is due. False where Kafka or the bucket did not answer; the next cycle goes on from there.

        `go_on` is asked before each turn, and ends the work early, with all turns so far committed. Raises what stops the sink.
        """

        def poll_and_work() -> None:
            self._finish()
            self._publish_waiting()
            self.committer.follow_late()
            self.poll()
            while self.step(go_on):
                pass
            self._raise_outage()

        return self.patience.tried(poll_and_work)

    def try_drain(self, go_on: Callable[[], bool] = always, *, close: Reason | None = None) -> bool:
        """Drains; False where something did not answer or fails, and it has to be called again (see `cycle`)."""
        return self.patience.tried(lambda: self.drain(go_on, close=close)) and not self.failures.passing

    def rest_ms(self, pause_ms: int) -> int:
        """The pause, or less where something is tried again before."""
        next_ms = self.clock_ms() + RETRY_LOOK_MS if self.retries.running else self.failures.next_ms()
        return pause_ms if next_ms is None else max(0, min(pause_ms, next_ms - self.clock_ms()))

    @property
    def problems(self) -> tuple[str, ...]:
        """What is the matter with topics and topic-partitions, as long as it lasts."""
        return (*self.topics.standing, *self.failures.problems)

    def end(self) -> None:
        """Takes leave of reads that still run beside the loop: nothing of them counts. Raises where topic-partitions have stopped."""
        for one in self.retries.finished():
            if one.outcomes.exception() is None:
                self._abandon([report for report in one.outcomes.result() if isinstance(report, TaskReport)])
        if self.failures.stopped:
            raise self.failures.some_stopped(self.behaviour.sink)

    def poll(self) -> None:
        """One delivery: notes the heads of all topic-partitions, and looks topics up when that is due."""
        now = self.clock_ms()
        self.topics.poll(now)
        self.leftovers.look_again()
        self.failures.forget(self.failures.known.keys() - self.partition_states.keys())
        self._note_open_files()
        self.leftovers.clean(self.partition_states, busy=self.retries.busy)
        self.looked_ms = now
        self._raise_stop()
        self.observer.looked(self._waiting)

    def step(self, go_on: Callable[[], bool] = always) -> bool:
        """Plans and works off what is due; returns whether there may be more to do."""
        self._finish()
        self._try_again()
        now, reached = self.clock_ms(), self.topics.intervals_reached()
        due = [
            plan(one, now, self.behaviour.readiness, interval_reached=one.topic_partition in reached)
            for one in self._ready()
        ]
        return self.work([planned for planned in due if planned is not None], go_on)

    def drain(self, go_on: Callable[[], bool] = always, *, close: Reason | None = None) -> None:
        """Works until nothing that was delivered can close a file any more; with `close` the open tail is closed too."""
        self._finish()
        self._publish_waiting()
        while self.step(go_on):
            pass
        while self.work([assignment(s) for s in self._ready() if s.unexamined], go_on):
            pass
        while close is not None:
            pending = [assignment(s, close=close) for s in self._ready() if s.head > s.frontier]
            if not self.work(pending, go_on):
                break
        self._raise_outage()

    def _ready(self) -> list[PartitionState]:
        """The topic-partitions that the loop reads itself: those that do not fail, or all that may pass where none goes on."""
        apart = (
            {one.file.topic_partition for one in self.log.waiting} | self.retries.busy | self.failures.stopped.keys()
        )
        if not self._all_fail():
            apart |= self.failures.known.keys()
        return [one for tp, one in self.partition_states.items() if tp not in apart]

    def _all_fail(self) -> bool:
        """Whether no topic-partition goes on: what is behind all of them is away."""
        asked = self.partition_states.keys() - self.topics.silent - self.failures.stopped.keys()
        return bool(asked) and asked <= self.failures.passing.keys()

    def work(self, due: Sequence[Assignment], go_on: Callable[[], bool] = always) -> bool:
        """Reads the assignments, `tasks.max` at a time, and commits each turn; False where nothing was to be read, or `go_on` said no."""
        due = self.topics.still_there(due)
        for turn in in_turns(due, self.behaviour.tasks_max):
            if not go_on():
                return False
            started = self.clock_ms()
            with self._phases.of(RoundPhase.READ):
                outcomes = self._read(self._equipped(turn))
            self._settle(outcomes, started)
            self._raise_outage()
        self._mirror.tell()
        return bool(due)

    def _equipped(self, turn: Iterable[Assignment]) -> list[Assignment]:
        """The assignments with what all of them are told."""
        epoch = self.log.state.epoch if self.open_states is not None and self.open_states.keeps else None
        most, apart = self.behaviour.max_files, self.failures.takes_along
        return [replace(one, max_files=most, keep=epoch, apart=apart(one.topic_partition)) for one in turn]

    def _read(self, turn: Sequence[Assignment]) -> list[TaskOutcome]:
        """How the assignments of a turn ended."""
        try:
            return self.source.read(turn)
        except (Fenced, ConfigError):
            raise
        except SinkError as error:
            return [TaskFailure(one.topic_partition, error) for one in turn]

    # ------------------------------------------------------------ how assignments ended

    def _settle(self, outcomes: Sequence[TaskOutcome], started: int) -> None:
        """Commits what was reported, and notes what failed. Raises what stops the sink, once its other work is committed."""
        failed = {one.topic_partition: self._reason(one) for one in outcomes if isinstance(one, TaskFailure)}
        reports = self.topics.without_damage([one for one in outcomes if isinstance(one, TaskReport)])
        stops = self._stops(reports)
        ended = [report for report in reports if report.topic_partition in stops]
        good = [report for report in reports if report.topic_partition not in stops and not report.postponed]
        self.leftovers.suspect([*failed, *stops])
        self._note_failures({**failed, **stops})
        try:
            self._check_owner(failed.values())
        except Fenced:
            self._abandon(reports)
            raise
        self._abandon(ended)
        self._report_letters(ended)
        beside_others = self._some_go_on()
        for report in good:
            self.failures.succeeded(report.topic_partition, beside_others=beside_others)
        self._commit(good, started)
        self._raise_stop()

    def _check_owner(self, errors: Iterable[SinkError]) -> None:
        """Raises Fenced where uploads that went away under a task's hands were ended by a driver that has taken over."""
        if any(isinstance(error, UploadMissing) for error in errors):
            with suppress(StorageError):  # the next entry tells
                self.log.check_owner(self.log.state.version)

    def _note_failures(self, failures: Mapping[TopicPartition, SinkError]) -> None:
        """Notes what failed, and warns where others go on; where nothing does, the error itself is raised."""
        texts = self.failures.note(failures)
        if self._some_go_on():
            for text in texts:
                self.observer.warned(text)

    def _note_stops(self, errors: Mapping[TopicPartition, SinkError]) -> None:
        """Notes what stops; what has stopped already stays as it is."""
        self._note_failures({tp: error for tp, error in errors.items() if tp not in self.failures.stopped})

    def _some_go_on(self) -> bool:
        """Whether any topic-partition does not fail."""
        return bool(self.partition_states.keys() - self.topics.silent - self.failures.known.keys())

    def _reason(self, failure: TaskFailure) -> SinkError:
        """Why an assignment failed; a log that was truncated meanwhile is believed by the next look."""
        tp, error = failure.topic_partition, failure.error
        state = self.partition_states.get(tp)
        try:
            if isinstance(error, OffsetsLost) and state is not None and self.topics.ends_before([assignment(state)]):
                return KafkaUnavailable(f"A log was truncated while it was to be read. {error}")
        except KafkaUnavailable as away:  # so nobody can tell
            return away
        return error

    def _stops(self, reports: Sequence[TaskReport]) -> dict[TopicPartition, SinkError]:
        """The topic-partitions that stop at a record, or at too many bad ones."""
        behaviour = self.behaviour
        stops = dict[TopicPartition, SinkError](stop_errors(reports, sink=behaviour.sink))
        others = [report for report in reports if report.topic_partition not in stops]
        return stops | stops_above_limit(others, sink=behaviour.sink, ratio=behaviour.dead_letter_ratio)

    def _report_letters(self, reports: Sequence[TaskReport]) -> None:
        """Tells those who are told of dead letters of the records at which topic-partitions stop."""
        letters = [report.letter for report in reports if report.letter is not None]
        reporters = (follower for follower in self.committer.followers if isinstance(follower, REPORTERS) and letters)
        for reporter in reporters:
            try:
                reporter.send(letters)
            except SinkError as failed:  # what stops the topic-partition is the record
                self.observer.warned(f"{reporter.name}: {failed}")

    def _raise_stop(self) -> None:
        """Raises what stops the sink: that a topic-partition has stopped, where that is its scope, or that all have."""
        stopped, every = self.failures.stopped, self.partition_states.keys()
        if stopped and (self.behaviour.stop_scope == "sink" or every <= stopped.keys()):
            texts = self.failures.problems
            for text in texts if len(texts) > 1 else ():
                self.observer.warned(text)
            raise next(iter(stopped.values())).error

    def _raise_outage(self) -> None:
        """Raises why nothing goes on, where nothing does; also what stops the sink."""
        self._raise_stop()
        if self._all_fail():
            raise next(iter(self.failures.passing.values())).error

    # ------------------------------------------------------------ what fails is tried again

    def _publish_waiting(self) -> None:
        """Tries again to make files visible that could not be: those whose pause is over, or all where nothing else goes on."""
        waiting = {one.file.topic_partition for one in self.log.waiting}
        if not waiting:
            return
        due = waiting - self.failures.known.keys() | waiting.intersection(self.failures.due())
        self.committer.publish_waiting(waiting if self._all_fail() else due)
        for tp in waiting.difference(one.file.topic_partition for one in self.log.waiting):
            self.failures.succeeded(tp, beside_others=not self._all_fail())

    def _try_again(self) -> None:
        """Takes what reads beside the loop have brought, and begins those that are due."""
        self._take_finished()
        if self._all_fail():
            return
        waiting = {one.file.topic_partition for one in self.log.waiting}
        due = [tp for tp in self.failures.due() if tp not in waiting and tp not in self.retries.busy]
        if due and self.retries.room > 0:
            self._begin_again(due)
            self._take_finished()

    def _take_finished(self) -> None:
        for one in self.retries.finished():
            self._settle(self._still_good(one), one.started_ms)

    def _begin_again(self, due: Sequence[TopicPartition]) -> None:
        known = {
            tp: self.partition_states[tp] for tp in due if tp in self.partition_states and tp not in self.topics.silent
        }
        for tp, state in known.items():
            if state.head <= state.frontier:  # what failed is gone
                self.failures.succeeded(tp, beside_others=True)
        now, readiness = self.clock_ms(), self.behaviour.readiness
        wanted = [plan(one, now, readiness) or assignment(one) for one in known.values() if one.head > one.frontier]
        equipped = self._equipped(self.topics.still_there(wanted))
        alone = [[one] for one in equipped if one.apart]
        together = in_turns([one for one in equipped if not one.apart], self.behaviour.tasks_max)
        for group in (alone + together)[: self.retries.room]:
            self.retries.begin(group, self.partition_states, self.clock_ms())

    def _still_good(self, retry: Retry) -> list[TaskOutcome]:
        """The outcomes of a read beside the loop, but for topic-partitions that something else has moved meanwhile."""
        error = retry.outcomes.exception()
        if isinstance(error, SinkError):
            return [TaskFailure(tp, error) for tp in retry.before]
        outcomes = retry.outcomes.result()
        good = [
            one for one in outcomes if retry.holds(self.partition_states.get(one.topic_partition), one.topic_partition)
        ]
        self._abandon([one for one in outcomes if one not in good and isinstance(one, TaskReport)])
        return good

    # ------------------------------------------------------------ commit

    def _commit(self, reports: Sequence[TaskReport], started: int) -> None:
        """Commits the reports of a turn, in several entries where they have very many files."""
        tell(reports)
        left = list(portions(reports, max_files=self.behaviour.max_files))
        try:
            while left:
                entry = entry_of(left[0], self.log, self.topics.leader_epochs)
                portion = left.pop(0)
                self._untold = partial(self._notify, started, portion, entry)
                if entry is not None:
                    self.committer.commit(entry, partial(self._advance, portion))
                else:
                    self._advance(portion)
                self._note_open_files()
                self._finish()
        except Fenced:
            self._abandon([report for some in left for report in some])
            if self.open_states is not None:
                self.open_states.abandoned(portion)
            raise
        except SinkError:
            self._abandon([report for some in left for report in some])
            raise

    def _finish(self) -> None:
        """Takes what was begun to its end, and tells of its round, however late that is. Raises as `Committer.finish` does."""
        self.committer.finish()
        self._untold()
        self._untold = nothing_more

    def lag(self) -> dict[TopicPartition, int]:
        """Per topic-partition the records between the frontier and the newest known head; none for those that no broker answers for."""
        return {
            tp: max(partition_state.head - partition_state.frontier, 0)
            for tp, partition_state in self.partition_states.items()
            if tp not in self.topics.silent
        }

    def _waiting(self) -> dict[str, Waiting]:
        """What waits of each topic; nothing of topic-partitions that no broker answers for."""
        answered = (one for tp, one in self.partition_states.items() if tp not in self.topics.silent)
        return self._waits.by_topic(answered, self.clock_ms())

    def _start(self) -> Start:
        now, heads = self.clock_ms(), self.brokers.heads(self.partition_states)
        lag = {tp: max(head - self.partition_states[tp].frontier, 0) for tp, head in heads.items()}
        state = self.log.state
        return Start(
            self.behaviour.sink,
            state.epoch,
            state.version,
            state.totals,
            len(heads),
            sum(lag.values()),
            lag=lag,
            looked_ms=now,
            standing=self.problems,
        )

    def _advance(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            partition_state = self.partition_states[report.topic_partition]
            self.partition_states[report.topic_partition] = committed(partition_state, report, self.clock_ms())
        if self.open_states is not None:
            self.open_states.reported(reports)

    def _note_open_files(self) -> None:
        if self.open_states is not None:
            self.open_states.note(self.partition_states, self.log)
            self.leftovers.suspect(self.open_states.left)
            self.open_states.left.clear()

    def _notify(self, started: int, reports: Sequence[TaskReport], entry: CommitEntry | None) -> None:
        done = RoundSummary(
            version=self.log.state.version,
            started_ms=started,
            ended_ms=self.clock_ms(),
            read=sum(report.read for report in reports),
            totals=entry.totals if entry is not None else Totals(),
            files=entry.files if entry is not None else (),
            frontier=self.log.state.frontier,
            lag=self.lag(),
            looked_ms=self.looked_ms,
            open=sum(report.tail.records for report in reports),
            open_states=self.open_states.written if self.open_states is not None else 0,
            open_state_bytes=self.open_states.bytes if self.open_states is not None else 0,
            dead_letters=entry.dead_letters if entry is not None else {},
            skipped=entry.skipped if entry is not None else {},
            phases=self._phases.taken(),
            requests=reduce(Requests.plus, (report.requests for report in reports), Requests()),
        )
        self.observer.round_done(done)
        self.observer.looked(self._waiting)

    def _abandon(self, reports: Sequence[TaskReport]) -> None:
        """Ends the uploads of reports that are not going to be committed, and removes their kept files; what cannot be is left over."""
        if not reports:
            return
        self.leftovers.suspect(report.topic_partition for report in reports)
        try:
            abort_uploads(self.store, (file for report in reports for file in report.files))
        except StorageError as error:
            _log.info("uploads are removed later", extra={"facts": {"reason": str(error)}})
        if self.open_states is not None:
            self.open_states.abandoned(reports)
