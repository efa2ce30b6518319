"""How does a sink run? The loop, and the life of a round from top to bottom.

A *poll* asks the brokers where the logs of all topic-partitions end. What is due then is read in *waves*: as many assignments as
`tasks.max` tasks process at a time. A *round* is a wave's way into the bucket (several rounds, where a wave has very many files):

1. plan: which topic-partitions can close a file now, and which offsets are read for that (`planner`);
2. read: tasks write files and report them; nothing of it is visible yet (`Source`);
3. commit: the reports become an entry of the log, in which every record is accounted for (`entry_of`);
4. publish: the files of the entry become visible (`committer`);
5. follow: the followers catch up with the log (`followers`);
6. notify: the observer learns what the round did.

Where something does not answer between 3 and 6, the next call takes the round up there before it does anything else.

A topic-partition that fails costs itself only. Its siblings' reports are committed, and it is tried again alone, beside the loop, with
pauses of its own (`failures`); what it left in the bucket is removed first (`open_states`). Where all of them fail, the service behind them
is away: then the loop itself waits. A backlog is read beside the loop, too, where others would wait for it (`beside`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.remade import Remake
from kafka_s3.engine.loop.beside import (
    PIECES,
    Background,
    ReadBeside,
    ReadsBeside,
    at_once,
    is_backlog,
    pieces,
    unread,
)
from kafka_s3.engine.loop.committer import Committer, PhaseTimes, Recovery
from kafka_s3.engine.loop.failures import Outage, PartitionFailures
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.engine.loop.open_states import Leftovers, OpenStates
from kafka_s3.engine.loop.planner import Behaviour, PartitionState, assignment, committed, plan, waves
from kafka_s3.engine.loop.rewrites import FollowedVersion, Rewrites, no_tables
from kafka_s3.engine.loop.topics import Resume, Topics, check_cluster
from kafka_s3.engine.task.dead_letters import LIMIT_FROM, excess
from kafka_s3.model.errors import (
    CommitError,
    ConfigError,
    Fenced,
    KafkaUnavailable,
    OffsetsLost,
    RecordError,
    SinkError,
    StorageError,
    UploadMissing,
)
from kafka_s3.model.files import DeadLetterCount, Reason, Totals, counted
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, RoundPhase, RoundSummary, Source, Start, TopicBacklog
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, TaskReport
from kafka_s3.model.timing import Requests
from kafka_s3.store.store import ObjectStore, abort_uploads

LIMIT_REMEDY: Final = (
    "Nothing of their batch was committed. Correct the configuration or the producers; to go on as it is, raise "
    "errors.deadletter.max.ratio (1 is no limit)."
)
AT_ONCE: Final = 4
"""So many reads of what fails run beside the loop at most."""
RETRY_CHECK_MS: Final = 250
"""How often the loop checks whether such a read has ended."""
PIECE_CHECK_MS: Final = 100
"""How often it checks whether a piece of a backlog has."""
LOOKS_A_MS: Final = 4
"""A look at the brokers for so many topic-partitions may follow after a millisecond."""
_log = logging.getLogger(__name__)


def always() -> bool:
    """Nothing keeps the sink from going on."""
    return True


def no_slots() -> int:
    """Nobody reads a backlog beside the loop."""
    return 0


@dataclass(frozen=True, slots=True)
class Round:
    """Reports on their way through commit, publish, follow and notify. Without an entry they change nothing in the log."""

    started_ms: int
    reports: Sequence[TaskReport]
    entry: CommitEntry | None


class Sink:
    """One sink: the driver's state and its loop. Not thread-safe; one per process and name."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        brokers: Brokers,
        source: Source,
        store: ObjectStore,
        log: CommitLog,
        clock_ms: Callable[[], int],
        followers: Followers,
        data_keys: DataKeys,
        observer: Observer,
        resume: Resume | None = None,
        remakes: Mapping[EntryKind, Remake] | None = None,
        open_states: OpenStates | None = None,
        background: Background = at_once,
        slots: Callable[[], int] = no_slots,
        followed: FollowedVersion = no_tables,
    ) -> None:
        """Topics are found when the sink is opened. `background` runs reads beside the loop: of what fails, and of a backlog; `slots`
        says for how many tasks there is a place.
        """
        self.behaviour, self.brokers, self.source, self.store, self.log = behaviour, brokers, source, store, log
        self.clock_ms, self.followers, self.observer, self.open_states = clock_ms, followers, observer, open_states
        self.failures = PartitionFailures(clock_ms, behaviour.backoff, behaviour.retry_timeout_ms, behaviour.lost)
        self.leftovers = Leftovers(store, log, data_keys, observer, clock_ms)
        self.retries, self.backlog = ReadsBeside(source, background), ReadsBeside(source, background)
        self._slots = slots
        self.polled_ms: int | None = None
        self._phases = PhaseTimes()
        self._round: Round | None = None
        self._outage = Outage(behaviour.lost, observer, clock_ms, self.failures.is_final)
        self.committer = Committer(
            log,
            Recovery(brokers, source, store, behaviour.lost, remakes or {}, lambda: log.state.erased),
            followers,
            observer,
            self._phases,
            self._note_waiting,
        )
        grace_ms, done = behaviour.rewrite_grace_ms, observer.rewritten
        self.rewrites = Rewrites(log, self.committer.commit, observer.warned, grace_ms, followed, done)
        self.topics = Topics(
            behaviour,
            brokers,
            log,
            self.committer.commit,
            observer,
            self._note_stops,
            self.failures.has_stopped,
            resume,
        )

    @property
    def partition_states(self) -> dict[TopicPartition, PartitionState]:
        """What the driver knows of each topic-partition."""
        return self.topics.partition_states

    @property
    def open_problems(self) -> tuple[str, ...]:
        """What is the matter with topics and topic-partitions, as long as it lasts."""
        return (*self.topics.open_problems, *self.failures.open_problems)

    @property
    def unwritten(self) -> list[TopicPartition]:
        """The topic-partitions with delivered records that are neither in an object nor counted."""
        states = self.partition_states.values()
        return sorted(one.topic_partition for one in states if one.open_state is not None or one.head > one.frontier)

    # ------------------------------------------------------------ from start to end

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
        for text in self.failures.open_problems:
            self.observer.warned(text)
        self.followers.catch_up(self.log)
        self.followers.mirror_group(self.log)
        self.observer.started(self._start())

    def poll_and_commit(self, go_on: Callable[[], bool] = always) -> bool:
        """Polls, and commits what is due. False where Kafka or the bucket did not answer; the next call goes on from there.

        `go_on` is asked before each wave, and ends the work early, with all waves so far committed. Raises what stops the sink.
        """

        def work() -> None:
            self._finish_round()
            self._publish_waiting()
            self.rewrites.attend()
            self.followers.catch_up_late(self.log)
            self.poll()
            while self._commit_due_beside_backlog(go_on):
                pass
            self._raise_outage()

        return self._outage.attempt(work)

    def settle(self) -> bool:
        """Waits for what is being read of a backlog, and commits it; False where something did not answer (see `poll_and_commit`)."""
        return self._outage.attempt(self._settle_backlog)

    def try_drain(self, go_on: Callable[[], bool] = always, *, close: Reason | None = None) -> bool:
        """Drains; False where something did not answer or fails, and it has to be called again (see `poll_and_commit`)."""
        return self._outage.attempt(lambda: self._drain(go_on, close)) and not self.failures.passing

    def drain(self, *, close: Reason | None = None) -> None:
        """Works until nothing that was delivered can close a file any more; with `close` the open tail is closed too.

        Raises what fails, or has stopped, once the others are drained.
        """
        self._drain(always, close)
        for failure in self.failures.known.values():
            raise failure.error

    def _drain(self, go_on: Callable[[], bool], close: Reason | None) -> None:
        self._finish_round()
        self._settle_backlog()
        self._publish_waiting()
        self.rewrites.attend()
        while self.commit_due(go_on):
            pass
        while self.run_waves([assignment(s) for s in self._ready() if s.unexamined], go_on):
            pass
        while close is not None:
            pending = [assignment(s, close=close) for s in self._ready() if s.head > s.frontier]
            if not self.run_waves(pending, go_on):
                break
        self._raise_outage()

    def pause_ms(self, longest_ms: int) -> int:
        """How long to wait before the next poll: less than `longest_ms` where something is tried again before."""
        next_ms = self.clock_ms() + RETRY_CHECK_MS if self.retries.running else self.failures.next_ms()
        if self.backlog.running:
            next_ms = self.clock_ms() + max(PIECE_CHECK_MS, len(self.partition_states) // LOOKS_A_MS)
        return longest_ms if next_ms is None else max(0, min(longest_ms, next_ms - self.clock_ms()))

    def end(self) -> None:
        """Commits what is being read of a backlog, and gives up other reads that still run beside the loop: nothing of them counts.

        Raises where topic-partitions have stopped.
        """
        try:
            self.settle()
        finally:
            for one in (*self.retries.finished(), *self.backlog.finished()):
                if one.outcomes.exception() is None:
                    self._abandon([report for report in one.outcomes.result() if isinstance(report, TaskReport)])
        if self.failures.stopped:
            raise self.failures.some_stopped(self.behaviour.sink)

    # ------------------------------------------------------------ poll and plan

    def poll(self) -> None:
        """One delivery: notes the heads of all topic-partitions, and refreshes the topics when that is due."""
        now = self.clock_ms()
        self.topics.poll(now)
        self.leftovers.suspect_again()
        self.failures.forget(self.failures.known.keys() - self.partition_states.keys())
        self._note_open_files()
        self.leftovers.clean(self.partition_states, busy=self._busy)
        self.polled_ms = now
        self._raise_stop()
        self.observer.polled(self._backlog)

    def commit_due(self, go_on: Callable[[], bool] = always) -> bool:
        """Plans, and commits what is due; returns whether there may be more to do."""
        self._finish_round()
        self._retry_failing()
        return self.run_waves(self._plan(), go_on)

    def _plan(self) -> list[Assignment]:
        now, reached = self.clock_ms(), self.topics.intervals_reached()
        ready, readiness = self._ready(), self.behaviour.readiness
        due = [plan(one, now, readiness, interval_reached=one.topic_partition in reached) for one in ready]
        return [wanted for wanted in due if wanted is not None]

    def _ready(self) -> list[PartitionState]:
        """The topic-partitions that the loop reads itself: those that do not fail, or all that may pass where none goes on."""
        apart = self._waiting() | self._busy | self.failures.stopped.keys()
        if not self._all_fail():
            apart |= self.failures.known.keys()
        return [one for tp, one in self.partition_states.items() if tp not in apart]

    @property
    def _busy(self) -> frozenset[TopicPartition]:
        """The topic-partitions that are being read beside the loop."""
        return self.retries.busy | self.backlog.busy

    # ------------------------------------------------------------ a backlog, beside the loop

    def _commit_due_beside_backlog(self, go_on: Callable[[], bool]) -> bool:
        """As `commit_due`, but what others would wait for is read beside the loop."""
        self._finish_round()
        self._retry_failing()
        due = self._plan()
        long = self._long_ranges(due)
        more = self.run_waves([one for one in due if one.topic_partition not in long], go_on)
        if long and go_on():
            self._begin_pieces([one for one in due if one.topic_partition in long])
        return self._commit_finished(self.backlog) or more

    def _long_ranges(self, due: Sequence[Assignment]) -> set[TopicPartition]:
        """The topic-partitions of which a backlog is due that others would wait for; none where there is no such backlog or nobody else."""
        states = self.partition_states
        long = {one.topic_partition for one in due if is_backlog(states[one.topic_partition])}
        known = self.failures.known.keys() | self.topics.silent
        if not states.keys() - long - self.backlog.busy - known:
            return set()
        behind = sum(unread(states[tp]) for tp in (long | self.backlog.busy) & states.keys())
        return long if behind > self.behaviour.readiness.task_records and self._tasks_beside() else set()

    def _tasks_beside(self) -> int:
        return min(self._slots(), self.behaviour.tasks_max)

    def _begin_pieces(self, due: Sequence[Assignment]) -> None:
        """Begins as many pieces of a backlog as there are tasks for it."""
        most, left = self._tasks_beside(), self.topics.still_there(due)
        while left and (free := most - self.backlog.tasks) > 0:
            piece = pieces(self._equipped(left), self.partition_states, min(free, -(-most // PIECES)))
            self.backlog.begin(piece, self.partition_states, self.clock_ms())
            left = [one for one in left if one.topic_partition not in self.backlog.busy]

    def _settle_backlog(self) -> None:
        self.backlog.wait()
        self._finish_round()
        self._commit_finished(self.backlog)

    # ------------------------------------------------------------ read

    def run_waves(self, due: Sequence[Assignment], go_on: Callable[[], bool] = always) -> bool:
        """Reads the assignments in waves, and commits each; False where nothing was to be read, or `go_on` refused."""
        due = self.topics.still_there(due)
        for wave in waves(due, self.behaviour.tasks_max):
            if not go_on():
                return False
            started_ms = self.clock_ms()
            with self._phases.measure(RoundPhase.READ):
                outcomes = self._read(self._equipped(wave))
            self._commit_outcomes(outcomes, started_ms)
            self._raise_outage()
        self.followers.mirror_group(self.log)
        return bool(due)

    def _equipped(self, wave: Iterable[Assignment]) -> list[Assignment]:
        """The assignments with what all of them need."""
        epoch = self.log.state.epoch if self.open_states is not None and self.open_states.keeps else None
        most, apart, erased = self.behaviour.max_files, self.failures.takes_along, self.log.state.erased
        return [
            replace(
                one,
                max_files=most,
                keep=epoch,
                apart=apart(one.topic_partition),
                erased=erased.get(one.topic_partition, OffsetSet()).since(one.start),
            )
            for one in wave
        ]

    def _read(self, wave: Sequence[Assignment]) -> list[TaskOutcome]:
        """How the assignments of a wave ended."""
        try:
            return self.source.read(wave)
        except (Fenced, ConfigError):
            raise
        except SinkError as error:
            return [TaskFailure(one.topic_partition, error) for one in wave]

    # ------------------------------------------------------------ commit

    def _commit_outcomes(self, outcomes: Sequence[TaskOutcome], started_ms: int) -> None:
        """Notes what failed, and commits what was reported. Raises what stops the sink, once its other work is committed."""
        failed = {one.topic_partition: self._cause(one) for one in outcomes if isinstance(one, TaskFailure)}
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
        self.followers.report([report.letter for report in ended if report.letter is not None])
        beside_others = self._some_go_on()
        for report in good:
            self.failures.succeeded(report.topic_partition, beside_others=beside_others)
        self._commit(good, started_ms)
        self._raise_stop()

    def _commit(self, reports: Sequence[TaskReport], started_ms: int) -> None:
        """Commits the reports of a wave, in several rounds where they have very many files."""
        log_reports(reports)
        left = list(portions(reports, max_files=self.behaviour.max_files))
        try:
            while left:
                entry = entry_of(left[0], self.log, self.topics.leader_epochs)
                self._round = Round(started_ms, left.pop(0), entry)
                if entry is not None:
                    self.committer.commit(entry, self._advance)
                else:
                    self._advance()
                self._note_open_files()
                self._finish_round()
        except SinkError as error:
            self._abandon([report for portion in left for report in portion])
            if isinstance(error, Fenced) and self._round is not None and self.open_states is not None:
                self.open_states.abandoned(self._round.reports)
            raise

    def _advance(self) -> None:
        """The round's entry is in the log: its topic-partitions go on from there."""
        reports = () if self._round is None else self._round.reports
        for report in reports:
            state = self.partition_states[report.topic_partition]
            self.partition_states[report.topic_partition] = committed(state, report, self.clock_ms())
        if self.open_states is not None:
            self.open_states.reported(reports)

    def _note_open_files(self) -> None:
        if self.open_states is not None:
            self.open_states.note(self.partition_states, self.log)
            self.leftovers.suspect(self.open_states.left)
            self.open_states.left.clear()

    # ------------------------------------------------------------ publish, follow, notify

    def _finish_round(self) -> None:
        """Brings a round that was begun to its end, however late that is. Raises as `Committer.finish` does."""
        self.committer.finish()
        if self._round is not None:
            self._notify(self._round)
            self._round = None

    def _notify(self, done: Round) -> None:
        entry, reports, open_states = done.entry, done.reports, self.open_states
        summary = RoundSummary(
            version=self.log.state.version,
            started_ms=done.started_ms,
            ended_ms=self.clock_ms(),
            read=sum(report.read for report in reports),
            totals=entry.totals if entry is not None else Totals(),
            files=entry.files if entry is not None else (),
            frontier=self.log.state.frontier,
            lag=self.topics.lag(),
            polled_ms=self.polled_ms,
            open=sum(report.tail.records for report in reports),
            open_states=open_states.written if open_states is not None else 0,
            open_state_bytes=open_states.bytes if open_states is not None else 0,
            dead_letters=entry.dead_letters if entry is not None else {},
            skipped=entry.skipped if entry is not None else {},
            phases=self._phases.collect(),
            requests=reduce(Requests.plus, (report.requests for report in reports), Requests()),
            fetched=tuple(one for report in reports for one in report.fetched),
        )
        self.observer.round_done(summary)
        self.observer.polled(self._backlog)

    def _start(self) -> Start:
        now, heads = self.clock_ms(), self.brokers.heads(self.partition_states)
        lag = {tp: max(head - self.partition_states[tp].frontier, 0) for tp, head in heads.items()}
        return Start(
            self.behaviour.sink,
            self.log.state.epoch,
            self.log.state.version,
            self.log.state.totals,
            len(heads),
            sum(lag.values()),
            lag=lag,
            polled_ms=now,
            open_problems=self.open_problems,
        )

    def _backlog(self) -> dict[str, TopicBacklog]:
        return self.topics.backlog(self.clock_ms())

    def _publish_waiting(self) -> None:
        """Tries again to make files visible that could not be: those whose pause is over, or all where nothing else goes on."""
        waiting = self._waiting()
        if not waiting:
            return
        due = waiting - self.failures.known.keys() | waiting.intersection(self.failures.due())
        self.committer.publish_waiting(waiting if self._all_fail() else due)
        for tp in waiting - self._waiting():
            self.failures.succeeded(tp, beside_others=not self._all_fail())

    def _waiting(self) -> set[TopicPartition]:
        """The topic-partitions with committed files that are not visible yet."""
        return {one.file.topic_partition for one in self.log.waiting}

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

    # ------------------------------------------------------------ what fails

    def _cause(self, failure: TaskFailure) -> SinkError:
        """Why an assignment failed; what a log that was truncated meanwhile has left, the next poll sees."""
        tp, error = failure.topic_partition, failure.error
        state = self.partition_states.get(tp)
        try:
            if isinstance(error, OffsetsLost) and state is not None and self.topics.ends_before(assignment(state)):
                return KafkaUnavailable(f"A log was truncated while it was to be read. {error}")
        except KafkaUnavailable as away:  # so nobody knows
            return away
        return error

    def _stops(self, reports: Sequence[TaskReport]) -> dict[TopicPartition, SinkError]:
        """The topic-partitions that stop at a record, or at too many bad ones."""
        behaviour = self.behaviour
        stops = dict[TopicPartition, SinkError](stop_errors(reports, sink=behaviour.sink))
        others = [report for report in reports if report.topic_partition not in stops]
        return stops | stops_above_limit(others, sink=behaviour.sink, ratio=behaviour.dead_letter_ratio)

    def _check_owner(self, errors: Iterable[SinkError]) -> None:
        """Raises Fenced where uploads that went away under a task's hands were ended by a driver that has taken over."""
        if any(isinstance(error, UploadMissing) for error in errors):
            with suppress(StorageError):  # the next entry finds it out
                self.log.check_owner(self.log.state.version)

    def _note_failures(self, failures: Mapping[TopicPartition, SinkError]) -> None:
        """Notes what failed, and warns where others go on; where nothing does, the error itself is raised."""
        texts = self.failures.note(failures)
        if self._some_go_on():
            for text in texts:
                self.observer.warned(text)

    def _note_waiting(self, tp: TopicPartition, error: SinkError) -> None:
        """Notes why files cannot be made visible; a task that was to make one again, and failed, may have left an upload."""
        self.leftovers.suspect([tp])
        self._note_failures({tp: error})

    def _note_stops(self, errors: Mapping[TopicPartition, SinkError]) -> None:
        """Notes what stops; what has stopped already stays as it is."""
        self._note_failures({tp: error for tp, error in errors.items() if not self.failures.has_stopped(tp)})

    def _some_go_on(self) -> bool:
        """Whether any topic-partition does not fail."""
        return bool(self.partition_states.keys() - self.topics.silent - self.failures.known.keys())

    def _all_fail(self) -> bool:
        """Whether no topic-partition goes on: what is behind all of them is away."""
        asked = self.partition_states.keys() - self.topics.silent - self.failures.stopped.keys()
        return bool(asked) and asked <= self.failures.passing.keys()

    def _raise_stop(self) -> None:
        """Raises what stops the sink: that a topic-partition has stopped, where that is its scope, or that all have."""
        stopped, every = self.failures.stopped, self.partition_states.keys()
        if stopped and (self.behaviour.stop_scope == "sink" or every <= stopped.keys()):
            texts = self.failures.open_problems
            for text in texts if len(texts) > 1 else ():
                self.observer.warned(text)
            raise next(iter(stopped.values())).error

    def _raise_outage(self) -> None:
        """Raises why nothing goes on, where nothing does; also what stops the sink."""
        self._raise_stop()
        if self._all_fail():
            raise next(iter(self.failures.passing.values())).error

    # ------------------------------------------------------------ what fails is tried again

    def _retry_failing(self) -> None:
        """Commits what reads beside the loop have brought, and begins those that are due."""
        self._commit_finished(self.retries)
        if self._all_fail():
            return
        waiting = self._waiting()
        due = [tp for tp in self.failures.due() if tp not in waiting and tp not in self._busy]
        if due and len(self.retries.running) < AT_ONCE:
            self._begin_retries(due)
            self._commit_finished(self.retries)

    def _commit_finished(self, reads: ReadsBeside) -> bool:
        """Commits what reads beside the loop have brought; whether any had ended."""
        found = False
        for one in reads.finished():
            found = True
            self._commit_outcomes(self._still_good(one), one.started_ms)
        return found

    def _begin_retries(self, due: Sequence[TopicPartition]) -> None:
        states, silent = self.partition_states, self.topics.silent
        known = [states[tp] for tp in due if tp in states and tp not in silent]
        for one in known:
            if one.head <= one.frontier:  # what failed is gone
                self.failures.succeeded(one.topic_partition, beside_others=True)
        now, readiness = self.clock_ms(), self.behaviour.readiness
        wanted = [plan(one, now, readiness) or assignment(one) for one in known if one.head > one.frontier]
        equipped = self._equipped(self.topics.still_there(wanted))
        alone = [[one] for one in equipped if one.apart]
        together = waves([one for one in equipped if not one.apart], self.behaviour.tasks_max)
        for group in (alone + together)[: AT_ONCE - len(self.retries.running)]:
            self.retries.begin(group, states, self.clock_ms())

    def _still_good(self, retry: ReadBeside) -> list[TaskOutcome]:
        """The outcomes of a read beside the loop, but for topic-partitions that something else has moved meanwhile."""
        error = retry.outcomes.exception()
        if isinstance(error, SinkError):
            return [TaskFailure(tp, error) for tp in retry.before]
        outcomes = retry.outcomes.result()
        good = [one for one in outcomes if retry.holds(one.topic_partition, self.partition_states)]
        self._abandon([one for one in outcomes if one not in good and isinstance(one, TaskReport)])
        return good


# ------------------------------------------------------------ from reports to an entry


def portions(reports: Sequence[TaskReport], *, max_files: int) -> Iterator[list[TaskReport]]:
    """The reports in groups, one entry each, of at most `max_files` files; a report that has more is alone."""
    portion: list[TaskReport] = []
    files = 0
    for report in reports:
        if portion and files + len(report.files) > max_files:
            yield portion
            portion, files = [], 0
        portion.append(report)
        files += len(report.files)
    if portion:
        yield portion


def entry_of(
    reports: Sequence[TaskReport], log: CommitLog, epochs: Mapping[TopicPartition, int | None]
) -> CommitEntry | None:
    """The next entry of the log for reports of different topic-partitions, None where they change nothing.

    `epochs` are the leader epochs of the logs at the last poll.

    Raises CommitError where the records of a report do not add up.
    """
    changed = [r for r in reports if r.frontier != r.start or r.files]
    if not changed:
        return None
    progress = {
        r.topic_partition: replace(
            _progress(r, log.state.progress[r.topic_partition]), leader_epoch=epochs.get(r.topic_partition)
        )
        for r in changed
    }
    files = tuple(file for report in changed for file in report.files)
    values = counted(files)
    written, dead = sum(file.records for file in values), sum(len(r.dead) for r in changed)
    skipped = sum(r.skipped for r in changed)
    return log.new_entry(
        EntryKind.DATA,
        progress=progress,
        files=files,
        dead_letters={r.topic_partition: DeadLetterCount(len(r.dead), r.stages) for r in changed if len(r.dead)},
        skipped={r.topic_partition: r.skipped for r in changed if r.skipped},
        totals=Totals(
            written + dead + skipped, written, dead, skipped, len(values), sum(file.bytes for file in values)
        ),
    )


def _progress(report: TaskReport, before: Progress) -> Progress:
    """How far a topic-partition is after the report, once its records add up."""
    values = counted(report.files)
    dead = before.recorded.plus(report.dead)
    accounted = sum(file.records for file in values) + len(dead.before(report.frontier)) + report.skipped
    if accounted != report.rows:
        raise CommitError(
            f"{report.topic_partition} [{report.start}, {report.frontier}): {report.rows} records read, but {accounted} written, "
            "dead-lettered or skipped. Nothing was committed. This is a defect of kafka-s3; please report it."
        )
    written = max((file.last_offset + 1 for file in values), default=before.written)
    return Progress(report.frontier, written, dead.since(report.frontier))


def log_reports(reports: Sequence[TaskReport]) -> None:
    """What tasks did, and which files they closed for what reason."""
    for report in reports:
        coordinates = {"partition": str(report.topic_partition)}
        facts = {name: getattr(report, name) for name in ("start", "until", "read", "frontier")}
        counts = {"files": len(report.files), "dead_letters": len(report.dead), "skipped": report.skipped}
        _log.debug("task done", extra={"facts": {**coordinates, **facts, **counts, "pending": report.tail.records}})
        for file in report.files:
            content = {"key": file.key, "reason": str(file.reason), "role": str(file.role), "records": file.records}
            offsets = {"bytes": file.bytes, **coordinates, "first": file.first_offset, "last": file.last_offset}
            _log.debug("file closed", extra={"facts": content | offsets})


def stop_errors(reports: Sequence[TaskReport], *, sink: str) -> dict[TopicPartition, RecordError]:
    """The topic-partitions that stop at a record that their tasks could not pass over, and the errors with which they do.

    Each error names the settings for the bad records of all of them.
    """
    stopped = [report for report in reports if report.failure is not None]
    needs = dict.fromkeys(setting for report in stopped for setting in report.needs)
    leniency = (
        f"To go on without such records: kafka-s3 run CONFIG {' '.join(f'--set {setting}' for setting in needs)}."
    )
    return {report.topic_partition: _stop_error(report, sink, leniency) for report in stopped}


def _stop_error(report: TaskReport, sink: str, leniency: str) -> RecordError:
    reason = (report.failure or "").removesuffix(".")
    coordinates: dict[str, str | int] = {
        "topic": report.topic_partition.topic,
        "partition": report.topic_partition.partition,
    }
    coordinates |= zip(("stage", "offset"), report.failed_at or (), strict=False)
    return RecordError(
        f"Sink {sink} cannot pass over {reason}. Nothing of this batch of {report.topic_partition} was committed: its next offset is "
        f"{report.start}. Correct the data or the configuration. {leniency} {report.remedy}",
        coordinates,
    )


def stops_above_limit(reports: Sequence[TaskReport], *, sink: str, ratio: float) -> dict[TopicPartition, RecordError]:
    """The topic-partitions that stop at the limit, with the commonest reason: those whose own share of bad records is above it.

    A task stops by itself where its own are too many; many small ones are counted together here.
    """
    stops = {
        one.topic_partition: f"{one.excess} Most often: {one.commonest}" for one in reports if one.excess is not None
    }
    others = [one for one in reports if one.excess is None]
    read, dead = sum(one.read for one in others), sum(len(one.dead) for one in others)
    if read >= LIMIT_FROM and dead > ratio * read:
        worst = max(others, key=lambda report: len(report.dead))
        text = f"{excess(dead, read, ratio=ratio)} Most often, in {worst.topic_partition}: {worst.commonest}"
        stops |= {one.topic_partition: text for one in others if len(one.dead) > ratio * one.read}
    return {
        tp: RecordError(f"Sink {sink} has too many bad records: {text} {LIMIT_REMEDY}") for tp, text in stops.items()
    }
