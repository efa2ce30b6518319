"""How does a sink run? The loop: look at the brokers, plan, read, commit, publish, follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial, reduce

from kafka_s3.commit.again import Rewrite
from kafka_s3.commit.entry import CommitEntry
from kafka_s3.commit.log import CommitLog
from kafka_s3.driver.behaviour import Behaviour
from kafka_s3.driver.cluster import check_cluster
from kafka_s3.driver.committer import Committer, nothing_more
from kafka_s3.driver.dead_letters.limit import stop_above_limit
from kafka_s3.driver.dead_letters.reporters import REPORTERS
from kafka_s3.driver.entries import entry_of, portions, stop_at_failures, tell
from kafka_s3.driver.follower import Follower
from kafka_s3.driver.group_offsets import GroupMirror
from kafka_s3.driver.open_states import OpenStates
from kafka_s3.driver.partition_state import PartitionState, committed
from kafka_s3.driver.patience import Patience
from kafka_s3.driver.phases import PhaseTimes
from kafka_s3.driver.planner import assignment, in_turns, plan
from kafka_s3.driver.recovery import Recovery
from kafka_s3.driver.topics import Resume, Topics
from kafka_s3.driver.waiting import Waits
from kafka_s3.model.errors import Fenced, KafkaUnavailable, OffsetsLost, SinkError
from kafka_s3.model.files import Reason, Totals
from kafka_s3.model.observer import Observer, Round, RoundPhase, Silent, Start, Waiting
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Source
from kafka_s3.model.requests import Requests
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.storage.store import ObjectStore
from kafka_s3.storage.uploads import abort_uploads


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
    group: InitVar[Follower | None] = None
    observer: Observer = field(default_factory=Silent)
    resume: Resume | None = None
    replays_again: InitVar[Rewrite | None] = None
    open_states: OpenStates | None = None
    topics: Topics = field(init=False)
    looked_ms: int | None = None
    committer: Committer = field(init=False)
    patience: Patience = field(init=False)
    _phases: PhaseTimes = field(default_factory=PhaseTimes)
    _waits: Waits = field(default_factory=Waits)
    _mirror: GroupMirror = field(init=False)
    _untold: Callable[[], None] = nothing_more

    def __post_init__(
        self, followers: Sequence[Follower], group: Follower | None, replays_again: Rewrite | None
    ) -> None:
        """Topics are found when the sink is opened."""
        recovery = Recovery(self.brokers, self.source, self.store, self.behaviour.lost, replays_again)
        self.committer = Committer(self.log, recovery, followers, self.observer, self._phases)
        self._mirror = GroupMirror(group, self.log, self.observer)
        self.patience = Patience(self.behaviour, self.observer, self.clock_ms)
        self.topics = Topics(self.behaviour, self.brokers, self.log, self.committer.commit, self.observer)
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
        self.committer.follow()
        self._mirror.tell()
        self.observer.started(self._start())

    def cycle(self, go_on: Callable[[], bool] = always) -> bool:
        """Looks and works off what is due. False where Kafka or the bucket did not answer; the next cycle goes on from there.

        `go_on` is asked before each turn, and ends the work early, with all turns so far committed. A schema registry that does not answer
        is waited for as long as `errors.retry.timeout` says, then RegistryUnavailable is raised.
        """

        def poll_and_work() -> None:
            self._finish()
            self.committer.follow_late()
            self.poll()
            while self.step(go_on):
                pass

        return self.patience.tried(poll_and_work)

    def try_drain(self, go_on: Callable[[], bool] = always, *, close: Reason | None = None) -> bool:
        """Drains; False where Kafka, the bucket or the registry did not answer and it has to be called again (see `cycle`)."""
        return self.patience.tried(lambda: self.drain(go_on, close=close))

    def poll(self) -> None:
        """One delivery: notes the heads of all topic-partitions, and looks topics up when that is due."""
        now = self.clock_ms()
        self.topics.poll(now)
        self._note_open_files()
        self.looked_ms = now
        self.observer.looked(self._waiting)

    def step(self, go_on: Callable[[], bool] = always) -> bool:
        """Plans and works off what is due; returns whether there may be more to do."""
        self._finish()
        now = self.clock_ms()
        due = []
        reached = self.topics.intervals_reached()
        for tp, partition_state in self.partition_states.items():
            planned = plan(partition_state, now, self.behaviour.readiness, interval_reached=tp in reached)
            if planned is not None:
                due.append(planned)
        return self.work(due, go_on)

    def drain(self, go_on: Callable[[], bool] = always, *, close: Reason | None = None) -> None:
        """Works until nothing that was delivered can close a file any more; with `close` the open tail is closed too."""
        while self.step(go_on):
            pass
        while self.work([assignment(s) for s in self.partition_states.values() if s.unexamined], go_on):
            pass
        while close is not None:
            pending = [assignment(s, close=close) for s in self.partition_states.values() if s.head > s.frontier]
            if not self.work(pending, go_on):
                return

    def work(self, due: Sequence[Assignment], go_on: Callable[[], bool] = always) -> bool:
        """Reads the assignments, `tasks.max` at a time, and commits each turn; False where nothing was to be read, or `go_on` said no."""
        due = self.topics.still_there(due)
        for turn in in_turns(due, self.behaviour.tasks_max):
            if not go_on():
                return False
            started = self.clock_ms()
            with self._phases.of(RoundPhase.READ):
                reports = self._read(
                    [replace(one, max_files=self.behaviour.max_files, keep=self._keep) for one in turn]
                )
            reports = self.topics.without_damage(reports)
            self._check(reports)
            self._commit(reports, started)
        self._mirror.tell()
        return bool(due)

    @property
    def _keep(self) -> int | None:
        """The epoch under which tasks keep what they leave open, None where they do not."""
        return self.log.state.epoch if self.open_states is not None and self.open_states.keeps else None

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
            if self.open_states is not None:
                self.open_states.abandoned(portion)
            raise
        finally:
            self._abandon([report for portion in left for report in portion])

    def _finish(self) -> None:
        """Takes what was begun to its end, and tells of its round, however late that is. Raises as `Committer.finish` does."""
        self.committer.finish()
        self._untold()
        self._untold = nothing_more

    def _read(self, turn: Sequence[Assignment]) -> list[TaskReport]:
        """The reports of a turn. Raises KafkaUnavailable where a log was truncated meanwhile: the next look believes it."""
        try:
            return self.source.read(turn)
        except OffsetsLost as error:
            if self.topics.ends_before(turn):
                raise KafkaUnavailable(f"A log was truncated while it was to be read. {error}") from error
            raise

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
            standing=self.topics.standing,
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

    def _notify(self, started: int, reports: Sequence[TaskReport], entry: CommitEntry | None) -> None:
        done = Round(
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

    def _check(self, reports: Sequence[TaskReport]) -> None:
        """Raises RecordError, with all uploads aborted, where a record or the share of bad ones stops the sink."""
        error = stop_at_failures(reports, sink=self.behaviour.sink) or stop_above_limit(
            reports, sink=self.behaviour.sink, ratio=self.behaviour.dead_letter_ratio
        )
        if error is None:
            return
        self._abandon(reports)
        letters = [report.letter for report in reports if report.letter is not None]
        for reporter in (
            follower for follower in self.committer.followers if isinstance(follower, REPORTERS) and letters
        ):
            try:
                reporter.send(letters)
            except SinkError as failed:  # what stops the sink is the record
                self.observer.warned(f"{reporter.name}: {failed}")
        raise error

    def _abandon(self, reports: Sequence[TaskReport]) -> None:
        abort_uploads(self.store, (file for report in reports for file in report.files))
        if self.open_states is not None:
            self.open_states.abandoned(reports)
