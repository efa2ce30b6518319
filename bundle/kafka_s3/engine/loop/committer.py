"""In which order does an entry become part of bucket and log? The one sequence, for the sink, for replays and for moves by hand.

1. The entry is appended to the log: this is the commit. Until its answer is known, nothing else is begun.
2. Its files are made visible, and a marker says so (`engine.log.published`). Files that are lost become gaps, by an entry of their own.
   Files that cannot be made visible now wait: `on_waiting` learns why, later entries name them, and `publish_waiting` tries them again.
3. A checkpoint is written, where the last one is far behind.
4. Followers catch up, once nothing waits.

What fails with an error that is worth another try is taken up by `finish` where it was left. A file whose upload is gone is made again from
Kafka, by the offsets that the log records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog, Published, mark_published
from kafka_s3.engine.log.remade import Remade, Remake
from kafka_s3.engine.loop.followers import Followers
from kafka_s3.model.errors import CommitError, Fenced, KafkaUnavailable, OffsetsLost, SinkError, StorageError
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import Gap, LogEnd, OffsetSet, TopicPartition
from kafka_s3.model.protocols import Brokers, Observer, RoundPhase, Source, join_observers
from kafka_s3.model.tasks import Assignment, Delivery, reports_of
from kafka_s3.store.store import ObjectStore, abort_uploads

Done = Callable[[], None]
OnWaiting = Callable[[TopicPartition, SinkError], None]
"""Learns which topic-partition has files that cannot be made visible now, and why."""
_log = logging.getLogger(__name__)


@dataclass
class PhaseTimes:
    """The seconds spent in each phase since they were last collected. Not thread-safe."""

    _spent: dict[RoundPhase, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, phase: RoundPhase) -> Iterator[None]:
        """Counts the body's time, also where it raises."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._spent[phase] = self._spent.get(phase, 0.0) + time.monotonic() - start

    def collect(self) -> Mapping[RoundPhase, float]:
        """What was counted since the last call."""
        spent, self._spent = self._spent, {}
        return spent


def nothing_more() -> None:
    """Nothing is to be done once an entry is committed."""


def _raise(topic_partition: TopicPartition, error: SinkError) -> None:
    """Nobody else is waiting for this entry."""
    raise error


@dataclass
class Committer:
    """Brings one entry after the other into the log and to its readers. Not thread-safe.

    Without `on_waiting` what keeps a file from becoming visible is raised, and `finish` may be called again.
    """

    log: CommitLog
    remake: Remake
    followers: Followers = field(default_factory=Followers)
    observer: Observer = field(default_factory=join_observers)
    phases: PhaseTimes = field(default_factory=PhaseTimes)
    on_waiting: OnWaiting = _raise
    _begun: tuple[CommitEntry, Done] | None = None
    _unpublished: CommitEntry | None = None
    _visible: tuple[str, Published] = ("", Published())

    def claim(self, cluster_id: str) -> None:
        """Takes the log over, with what the last driver left unpublished. Raises CommitError, OffsetsLost, StorageError."""
        self.log.claim(cluster_id=cluster_id, publish=self.publish)
        self._checkpoint()

    def commit(self, entry: CommitEntry, done: Done = nothing_more) -> None:
        """Takes an entry through all steps; `done` is called once it is in the log.

        Raises CommitUnknown, StorageUnavailable where `finish` has to be called again; Fenced, with its uploads aborted.
        """
        self.finish()
        self._begun = entry, done
        self.finish()

    def finish(self) -> None:
        """Takes what was begun to its end; raises as `commit` does. No entry is written behind an unpublished one."""
        while self._begun is not None or self._unpublished is not None:
            if self._begun is not None:
                with self.phases.measure(RoundPhase.COMMIT):
                    self._append(*self._begun)
            if self._unpublished is None:
                continue
            with self.phases.measure(RoundPhase.PUBLISH):
                gaps = self.publish(self._unpublished)
            self._unpublished = None
            if gaps:
                self._begin_gaps(gaps)
            with self.phases.measure(RoundPhase.FOLLOW):
                self._checkpoint()
                self.followers.catch_up(self.log)

    def publish_waiting(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Tries once more to make the waiting files of these topic-partitions visible. Raises as `publish`."""
        if not topic_partitions or self.log.last is None:
            return
        found = self.log.publish_waiting(topic_partitions, remake=self.remake)
        self._report_waiting(found)
        gaps = self._settled(self.log.last, found)
        if gaps:
            self._begin_gaps(gaps)
            self.finish()
        elif not self.log.waiting:
            self.followers.catch_up(self.log)

    def _append(self, entry: CommitEntry, done: Done) -> None:
        try:
            self.log.append(entry)
        except Fenced:
            self._begun = None
            self._abandon(entry)
            raise
        facts = {
            "version": entry.version,
            "kind": str(entry.kind),
            "files": entry.totals.files,
            "objects": len(entry.files),
            "read": entry.totals.read,
        }
        _log.info("committed", extra={"facts": facts})
        self._begun, self._unpublished = None, entry
        done()

    def publish(self, entry: CommitEntry) -> Sequence[Gap]:
        """Makes the files of the log's last entry visible, once: where only the marker fails, the objects are not touched again.

        Gives what it lost. Raises Fenced, CommitError, StorageError, and what `on_waiting` raises.
        """
        if self._visible[0] != entry.commit_id:
            found = self.log.publish(entry, remake=self.remake)
            self._report_waiting(found)
            self._visible = entry.commit_id, found
        return self._settled(entry, self._visible[1])

    def _settled(self, entry: CommitEntry, found: Published) -> Sequence[Gap]:
        """Marks the last entry where everything that it names is visible; gives what was lost."""
        if found.gaps:
            lost = "; ".join(f"{gap.topic}-{gap.partition} {gap.first} to {gap.last}" for gap in found.gaps)
            self.observer.warned(f"Entry {entry.version}: neither upload nor records are left, gap recorded: {lost}")
        elif not self.log.waiting:
            mark_published(self.log.store, self.log.paths, entry)
            _log.debug("published", extra={"facts": {"version": entry.version, "objects": len(entry.files)}})
        return found.gaps

    def _report_waiting(self, found: Published) -> None:
        for tp, error in {one.file.topic_partition: error for one, error in found.failed}.items():
            self.on_waiting(tp, error)

    def _begin_gaps(self, gaps: Sequence[Gap]) -> None:
        self._begun = self.log.new_entry(EntryKind.POSITION, gaps=tuple(gaps)), nothing_more

    def _checkpoint(self) -> None:
        try:
            self.log.checkpoint()
        except StorageError as error:  # a start reads more, and the next entry tries again
            self.observer.warned(f"checkpoint: {error}")

    def _abandon(self, entry: CommitEntry) -> None:
        """Ends the uploads of an entry in whose place is another driver's: they can never be committed."""
        try:
            abort_uploads(self.log.store, entry.files)
        except StorageError as error:
            _log.info("uploads are left to the sweep", extra={"facts": {"reason": str(error)}})


@dataclass(frozen=True, slots=True)
class Recovery:
    """Makes files again whose uploads are gone: of entries of some kinds by `remakes`, all others from Kafka. `lost`: fail, or gap, under
    which what cannot be made is lost (`behavior.on.lost.offsets`). `state` returns the log's state: what is erased by now is not read
    again, and files of earlier incarnations of their offsets are not made again.
    """

    brokers: Brokers
    source: Source
    store: ObjectStore
    lost: str
    remakes: Mapping[EntryKind, Remake] = field(default_factory=dict)
    state: Callable[[], LogState] = LogState

    def __call__(self, entry: CommitEntry, gone: list[DataFile]) -> Remade:
        """The files of an entry, made again. Raises OffsetsLost, CommitError, KafkaUnavailable."""
        counted = [file for file in gone if is_counted(file, entry.version, self.state())]
        if entry.kind in self.remakes:
            try:
                return self.remakes[entry.kind](entry, gone)
            except OffsetsLost:
                if len(counted) < len(gone):
                    return self(entry, counted) if counted else Remade()
                if self.lost == "fail" or entry.kind is EntryKind.REWRITE:
                    raise
                return Remade(lost=gone)
        gone = counted
        lost = beyond_recovery(entry, gone, self.brokers, self.state())
        if lost and self.lost == "fail":
            raise OffsetsLost(
                f"Commit entry {entry.version} counts files whose uploads are gone from the bucket, and Kafka no longer has their records: "
                f"{files_text(lost)}. If the objects were published and then removed, or are not needed, start with "
                "behavior.on.lost.offsets=gap, or move the position (kafka-s3 position set): either records a gap and goes on."
            )
        return Remade(self._from_kafka(entry, [file for file in gone if file not in lost]), lost)

    def _from_kafka(self, entry: CommitEntry, gone: list[DataFile]) -> list[DataFile]:
        """New uploads of the files `gone`, with the records that the entry gives them: each one's range is read again, for it alone."""
        made: list[DataFile] = []
        for file in gone:
            wanted = Assignment(
                file.topic_partition,
                file.first_offset,
                file.last_offset + 1,
                (Delivery(0, file.last_offset + 1),),
                close=file.reason,
                only=file,
                data_key=_values_of(file, entry).key,
                erased=self.state().erased.get(file.topic_partition, OffsetSet()),
            )
            (report,) = reports_of(self.source.read([wanted]))
            if [again.records for again in report.files] != [file.records]:
                abort_uploads(self.store, (*report.files, *made))
                raise CommitError(
                    f"{file.key} cannot be made again from Kafka: offsets {file.first_offset} to {file.last_offset} give other records "
                    "than the log counts. Was the configuration changed? Restore the earlier one, restart, then change it. Did compaction "
                    "remove some? Write again what is left: "
                    f"kafka-s3 position set CONFIG {file.topic} {file.partition} {file.first_offset}."
                )
            (again,) = report.files
            made.append(replace(file, upload=again.upload, bytes=again.bytes))
        return made


def is_counted(file: DataFile, version: int, state: LogState) -> bool:
    """Return whether some records of a file of entry `version` still count. Dead letters ahead of the position do while it records them."""
    if file.role is Role.DEAD_LETTER:
        progress = state.progress.get(file.topic_partition, Progress(0))
        if progress.frontier <= file.last_offset and file.last_offset not in progress.recorded:
            return False
    ends = ((one, state.incarnations.end_of(one.topic_partition, since=version)) for one in file.by_slice)
    return any(one.first_offset < end for one, end in ends)


def beyond_recovery(entry: CommitEntry, gone: Iterable[DataFile], brokers: Brokers, state: LogState) -> list[DataFile]:
    """The files of an entry whose records Kafka does not have any more: of offsets that are gone, or other records' now.

    Raises KafkaUnavailable where it cannot know.
    """
    wanted = list(gone)
    found = brokers.describe(sorted({file.topic for file in wanted}))
    topics = [topic for topic in found.values() if not state.is_recreated(topic.name, topic.id)]
    there = {TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions}
    read: dict[TopicPartition, LogEnd] = {}
    for file in sorted(wanted, key=lambda file: file.last_offset):
        tp, progress = file.topic_partition, entry.progress.get(file.topic_partition)
        if tp in there and progress is not None and progress.leader_epoch is not None:
            read[tp] = LogEnd(file.last_offset + 1, progress.leader_epoch)
    cuts = brokers.cut_before(read)
    starts = brokers.starts({file.topic_partition for file in wanted} & there)
    silent = ({file.topic_partition for file in wanted} & there) - starts.keys()
    if silent:
        raise KafkaUnavailable(f"Kafka does not say where {', '.join(map(str, sorted(silent)))} begins: no leader?")
    return [
        file
        for file in wanted
        if starts.get(file.topic_partition, file.first_offset + 1) > file.first_offset
        or cuts.get(file.topic_partition, file.last_offset + 1) <= file.last_offset
    ]


def files_text(files: Iterable[DataFile]) -> str:
    """Keys and offsets of files, for a message."""
    return "; ".join(f"{file.key} (offsets {file.first_offset} to {file.last_offset})" for file in files)


def _values_of(file: DataFile, entry: CommitEntry) -> DataFile:
    """The object of values that belongs to a file of the entry; the file itself where there is none."""
    identity = (file.topic_partition, file.encoded_partition, file.first_offset)
    return next(
        (
            other
            for other in entry.files
            if other.role is Role.VALUE
            and (other.topic_partition, other.encoded_partition, other.first_offset) == identity
        ),
        file,
    )
