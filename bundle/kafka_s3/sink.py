"""How does a sink run? The loop: look at the brokers, plan, read, commit, publish, follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_s3.ceiling import CEILING_WAY_OUT, above_ceiling, most_frequent
from kafka_s3.commit_entry import CommitEntry, Kind, Progress
from kafka_s3.commit_log import CommitLog, Rewrite
from kafka_s3.errors import (
    CommitError,
    KafkaUnavailable,
    RecordError,
    RegistryUnavailable,
    SourceError,
    StorageUnavailable,
)
from kafka_s3.followers import DeadLetterTopic, Follower
from kafka_s3.model import DataFile, DeadLetterCount, Reason, TopicPartition, Totals, counted
from kafka_s3.observer import Observer, Round, Silent, Start
from kafka_s3.planner import Standing, assignment, committed, in_turns, plan
from kafka_s3.recovery import rewrite_from_kafka
from kafka_s3.source import Brokers, Source
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tagging import Tagging
from kafka_s3.tasks import Assignment, TaskReport
from kafka_s3.topics import Behaviour, Resume, Topics


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
    resume: Resume | None = None
    replays_again: Rewrite | None = None
    topics: Topics = field(init=False)
    _unpublished: CommitEntry | None = None
    _registry_down_since: int | None = None

    def __post_init__(self) -> None:
        """Topics are found when the sink is opened."""
        self.topics = Topics(self.behaviour, self.brokers, self.log, self._commit, self.observer)
        if self.resume is not None:
            self.topics.resume = self.resume

    @property
    def standings(self) -> dict[TopicPartition, Standing]:
        """Where each topic-partition stands."""
        return self.topics.standings

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
        self.topics.refresh(self.clock_ms())
        self._follow()
        self.observer.started(self._start())

    def cycle(self) -> bool:
        """Looks and works off what is due. False where Kafka or the bucket did not answer; the next cycle goes on from there.

        A schema registry that does not answer is waited for as long as `errors.retry.timeout` says, then RegistryUnavailable is raised.
        """

        def look_and_work() -> None:
            self.look()
            while self.step():
                pass

        return self._tried(look_and_work)

    def try_drain(self, *, close: Reason | None = None) -> bool:
        """Drains; False where Kafka, the bucket or the registry did not answer and it has to be called again (see `cycle`)."""
        return self._tried(lambda: self.drain(close=close))

    def look(self) -> None:
        """One delivery: notes the heads of all topic-partitions, and looks topics up when that is due."""
        self.topics.look(self.clock_ms())

    def step(self) -> bool:
        """Plans and works off what is due; returns whether anything was."""
        self._publish()
        now = self.clock_ms()
        due = []
        reached = self.topics.intervals_reached()
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
        due = self.topics.still_there(due)
        for turn in in_turns(due, self.behaviour.tasks_max):
            started = self.clock_ms()
            reports = self.source.read(turn)
            self._stop_at_failures(reports)
            self._stop_above_ceiling(reports)
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

    def _start(self) -> Start:
        heads = self.brokers.heads(self.standings)
        backlog = sum(max(head - self.standings[tp].frontier, 0) for tp, head in heads.items())
        state = self.log.state
        return Start(self.behaviour.sink, state.epoch, state.version, state.totals, len(heads), backlog)

    def _tried(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (KafkaUnavailable, StorageUnavailable) as error:
            self.observer.warned(str(error))
            return False
        except RegistryUnavailable as error:
            self._wait_for_registry(error)
            return False
        self._registry_down_since = None
        return True

    def _wait_for_registry(self, error: RegistryUnavailable) -> None:
        """Warns, or raises the error once the registry has been away for `errors.retry.timeout` (SEMANTICS A1.4)."""
        now, patience = self.clock_ms(), self.behaviour.retry_timeout_ms
        if self._registry_down_since is None:
            self._registry_down_since = now
        if 0 <= patience <= now - self._registry_down_since:
            raise error
        self.observer.warned(str(error))

    # ------------------------------------------------------------ commit

    def _entry(self, reports: Sequence[TaskReport]) -> CommitEntry | None:
        changed = [r for r in reports if r.frontier != r.start or r.files]
        if not changed:
            return None
        progress = {r.topic_partition: self._progress(r) for r in changed}
        files = tuple(file for report in changed for file in report.files)
        values = counted(files)
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
        values = counted(report.files)
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
        self._publish()
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
        if entry.kind is Kind.REPLAY and self.replays_again is not None:
            return self.replays_again(entry, gone)
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
        self._abort(reports)
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

    def _stop_above_ceiling(self, reports: Sequence[TaskReport]) -> None:
        exceeded = above_ceiling(reports, ratio=self.behaviour.dead_letter_ratio)
        if exceeded is None:
            return
        reason = most_frequent(reports, self.store)
        self._abort(reports)
        raise RecordError(f"Sink {self.behaviour.sink} stops: {exceeded} Most often: {reason} {CEILING_WAY_OUT}")

    def _abort(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            for file in report.files:
                self.store.abort_upload(file.upload.key, file.upload.id)
