"""What does one task do? It reads one offset range of one topic-partition and leaves closed, unpublished files and a report.

No Spark and no Kafka client here: Arrow batches come in, a `TaskReport` goes out. The task starts where the last one stopped, or at the
committed frontier, goes through the deliveries that the planner has noted, and stops at the last one; what is still open then is kept for
the next task, or read again.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.whole_records import RecordDecoder
from kafka_s3.connect.naming.keys import ObjectNames, RemadeNames
from kafka_s3.connect.records.runs import Decoded, Run, Sidecar
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.schemas.expansion import TooManyValues
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batches
from kafka_s3.engine.open_files.file_encoders import SchemaRules
from kafka_s3.engine.open_files.open_files import Output, TaskState, TaskStates, waiting_budget
from kafka_s3.engine.open_files.spill import SpillFolder
from kafka_s3.engine.open_files.states import StateUnusable
from kafka_s3.engine.open_files.uploads import upload_whole
from kafka_s3.engine.task.batches import TRUSTED, FilesMade, coalesced, converter_input, records_at_once, within_memory
from kafka_s3.engine.task.dead_letters import (
    AboveLimit,
    BadRecords,
    DeadLetterFile,
    DeadLetterLimit,
    ErrorPolicy,
    ReadCounter,
    Stop,
)
from kafka_s3.engine.task.partitioning.partitioners import Partitioner, may_hold
from kafka_s3.engine.task.partitioning.timestamps import RecordTimestamp, TimestampExtractor
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.engine.task.table_guard.columns import Evolution, read_columns
from kafka_s3.engine.task.table_guard.record_filter import RecordFilter
from kafka_s3.engine.task.writer import TopicPartitionWriter
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.errors import Defect, SinkError, StorageError, UnreadableRecord, UploadMissing
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, OpenState, TaskFailure, TaskOutcome, TaskReport, damage_report
from kafka_s3.objects.format import CannotPause, Format
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps between decoding and the open files, for one topic-partition: what a step refuses goes no further.

    The formats take the values, the extractor gives each record its time, the partitioner its directory, the topic's table its columns.
    `only` is the file that is made again, if that is the task. `is_of_topic` says whether that file is one of a run's topic, where
    transforms change topics.
    """

    topic_partition: TopicPartition
    formats: Mapping[Role, Format]
    extractor: TimestampExtractor | None
    partitioner: Partitioner
    record_filter: RecordFilter | None = None
    only: DataFile | None = None
    is_of_topic: Callable[[Run], bool] | None = None

    def prepared(self, run: Run, now_ms: int, failures: list[Failure]) -> list[RoutedRun]:
        """The records of a run that can be written; the others are added to `failures`."""
        found = []
        for piece in self._in_formats(run, failures):
            routed = self._routed(*self._stamped(piece, now_ms, failures), failures)
            routed = self._through_table(routed if self.only is None else self._of_file(routed, self.only), failures)
            if len(routed.run):
                found.append(routed)
        return found

    def _in_formats(self, run: Run, failures: list[Failure]) -> Iterator[Run]:
        """The run as its formats take it. A refusal is about some of its records: halves are tried until those are alone."""
        found = _in_forms_of(self.formats, run)
        if isinstance(found, Run):
            yield found
        elif len(run) > 1:
            half = len(run) // 2
            yield from self._in_formats(run.slice(0, half), failures)
            yield from self._in_formats(run.slice(half, len(run)), failures)
        else:
            failures.append(found)

    def _stamped(self, run: Run, now_ms: int, failures: list[Failure]) -> tuple[Run, Longs | None]:
        """The records that have a time, and their times; None under a partitioner that does not ask."""
        if self.extractor is None:
            return run, None
        extractor = RecordTimestamp() if run.tombstones else self.extractor
        stamped = extractor.extract(run, now_ms)
        failures += stamped.failures
        if stamped.valid.all():
            return run, stamped.times
        rows = np.flatnonzero(stamped.valid)
        return run.take(rows), stamped.times[rows]

    def _routed(self, run: Run, times: Longs | None, failures: list[Failure]) -> RoutedRun:
        """The records that have an encoded partition, with it."""
        if not len(run):
            return RoutedRun(run, np.zeros(0, np.int32), [], times)
        topic, partition = self.topic_partition
        target = TopicPartition(topic if run.topic is None else run.topic, partition)
        encoded = self.partitioner.encode(target, run, times if times is not None else np.zeros(len(run), np.int64))
        routed = RoutedRun(replace(run, placed_by={}), encoded.codes, encoded.names, times)
        failures += encoded.failures
        return routed.without(np.flatnonzero(encoded.codes < 0).tolist()) if encoded.failures else routed

    def _of_file(self, routed: RoutedRun, file: DataFile) -> RoutedRun:
        """The records of the file that is made again. By wall clock its offsets are contiguous but for tombstones and records of other
        schemas' directories.
        """
        elsewhere = self.is_of_topic is not None and not self.is_of_topic(routed.run)
        if elsewhere or not may_hold(self.partitioner, file.encoded_partition, routed.run):
            return routed.without(list(range(len(routed.run))))
        if self.extractor is not None and self.extractor.needs_now:
            rows = np.arange(len(routed.run))
        else:
            found = [code for code, name in enumerate(routed.partitions) if name == file.encoded_partition]
            rows = np.flatnonzero(np.isin(routed.codes, found))
        return RoutedRun(routed.run.take(rows), np.zeros(len(rows), np.int32), [file.encoded_partition], None)

    def _through_table(self, routed: RoutedRun, failures: list[Failure]) -> RoutedRun:
        """The records that the topic's table takes, as it takes them."""
        if self.record_filter is None or not len(routed.run):
            return routed
        run, refused = self.record_filter.passed(routed.run)
        failures += [rejection(int(run.offsets[row]), text) for row, text in refused]
        routed = replace(routed, run=run)
        return routed.without([row for row, _ in refused]) if refused else routed


def _in_forms_of(formats: Mapping[Role, Format], run: Run) -> Run | Failure:
    """The run with values and sidecars in the forms of their formats, or the failure of its first record, where one cannot take it."""
    values, sidecars = run.values, dict(run.sidecars)
    for role, form in formats.items():
        if role is Role.VALUE and run.tombstones:
            continue
        sidecar = None if role is Role.VALUE else run.sidecars[role]
        own = run if sidecar is None else Run(run.offsets, run.timestamps, sidecar.values, sidecar.schema)
        found = form.accept(own)
        if isinstance(found, str):
            return replace(rejection(int(run.offsets[0]), found), stops_original=form.stops_original(own))
        if sidecar is None:
            values = found
        else:
            sidecars[role] = Sidecar(found, sidecar.schema)
    return replace(run, values=values, sidecars=sidecars)


_log = logging.getLogger(__name__)


def never_late() -> bool:
    """The task has all the time it needs."""
    return False


@dataclass(frozen=True)
class Pipeline:
    """How records become files under one configuration. Made once per process from the settings.

    `fingerprint` names configuration and version: only with the same one are open files continued. `inflates` are the columns of
    batches whose records may be compressed one by one. `made` is what the tasks of this process have seen.
    """

    converter: Callable[[TopicPartition], RecordDecoder]
    extractor: TimestampExtractor | None
    partitioner: Partitioner
    rules: RotationRules
    naming: ObjectNames
    state: StatePaths
    formats: Mapping[Role, Format]
    schemas: SchemaRules
    policy: ErrorPolicy
    part_size: int
    memory: int
    threads: int
    evolution: Evolution | None = None
    routed: Callable[[str], ObjectNames] | None = None
    dead_letter_ratio: float = 1.0
    fingerprint: str = ""
    inflates: tuple[str, ...] = ()
    made: FilesMade = field(default_factory=FilesMade)

    def outcome(
        self,
        assignment: Assignment,
        batches: Iterable[pa.RecordBatch],
        store: ObjectStore,
        *,
        is_late: Callable[[], bool] = never_late,
    ) -> TaskOutcome:
        """How the task ends, whatever happens in it: no error of one assignment is a matter of another."""
        try:
            return self.process(assignment, batches, store, is_late=is_late)
        except UnreadableRecord as error:
            if error.offset is None:
                return TaskFailure(assignment.topic_partition, error)
            return damage_report(assignment, error.offset, str(error))
        except SinkError as error:
            return TaskFailure(assignment.topic_partition, error)
        except Exception as error:
            return TaskFailure(assignment.topic_partition, _defect(assignment, error))

    def process(
        self,
        assignment: Assignment,
        batches: Iterable[pa.RecordBatch],
        store: ObjectStore,
        *,
        is_late: Callable[[], bool] = never_late,
    ) -> TaskReport:
        """Runs a task over Arrow batches with the columns `offset, value, timestamp` and, for dead letters, `key, headers`.

        Offsets ascend over all batches. Once `is_late` the task stops at the next batch, if what it has done is of use then. Errors of
        the store and of local disk are raised; errors of records are in the report.
        """
        with SpillFolder() as folder:
            return _Task(self, assignment, store, folder, is_late).run(batches)


def _defect(assignment: Assignment, error: Exception) -> Defect:
    _log.error("a task failed in an unforeseen way", exc_info=error)
    tp, where = assignment.topic_partition, traceback.extract_tb(error.__traceback__)[-1]
    return Defect(
        f"{tp} from offset {assignment.start} on: {type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}. "
        "This is a defect of kafka-s3, or of a class of your own; the log of the task has its trace."
    )


class _Task:
    def __init__(
        self,
        pipeline: Pipeline,
        assignment: Assignment,
        store: ObjectStore,
        folder: SpillFolder,
        is_late: Callable[[], bool],
    ) -> None:
        self._is_late = is_late
        self._pipeline = pipeline
        self._assignment = assignment
        self._store = store
        self._converter = pipeline.converter(assignment.topic_partition)
        names = _TaskNames(assignment, pipeline.naming, pipeline.routed, pipeline.formats)
        evolution, table = pipeline.evolution, read_columns(assignment.table) if assignment.table is not None else None
        self._preparation = Preparation(
            assignment.topic_partition,
            pipeline.formats,
            pipeline.extractor,
            pipeline.partitioner,
            RecordFilter(evolution, table) if evolution is not None else None,
            assignment.only,
            names.is_of_topic if pipeline.routed is not None else None,
        )
        self._bad = _bad_records(pipeline, assignment, store, folder)
        self._read, self._read_bytes = 0, 0
        self._malformed: Counter[Role] = Counter()
        self._until = assignment.until
        self._stop: Stop | None = None
        self._max_files = sys.maxsize if assignment.max_files is None else assignment.max_files
        self._counter = ReadCounter()
        self._states = TaskStates(assignment, pipeline.state, pipeline.fingerprint)
        self._output = Output(
            store,
            names.of_topic(None),
            pipeline.formats,
            pipeline.schemas,
            pipeline.part_size,
            pipeline.memory,
            pipeline.threads,
            folder,
        )
        self._writer = TopicPartitionWriter(
            assignment.topic_partition,
            pipeline.rules if assignment.only is None else RotationRules(),
            self._output,
            frontier=assignment.start,
            next_rotation_ms=assignment.next_rotation_ms,
            names=names.of_topic if pipeline.routed is not None else None,
            find_stop=self._bad.find_stop,
        )

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        try:
            if self._assignment.state is not None:
                self._resume(self._assignment.state)
            self._deliver(coalesced(batches, self._writer.large_count, self._pipeline.memory // 4))
            if self._assignment.close is not None and self._until == self._assignment.until:
                self._writer.close(self._assignment.close)
            self._bad.check_all(self._read)
            return self._report()
        except AboveLimit as above:
            self._abort()
            tp, start, until = self._assignment.topic_partition, self._assignment.start, self._assignment.until
            commonest = self._bad.file.commonest
            return TaskReport(tp, start, until, start, read=self._read, excess=str(above), commonest=commonest)
        except (StateUnusable, UploadMissing) as error:
            self._abort()
            if self._assignment.state is None:
                raise
            tp, start, mark = (
                self._assignment.topic_partition,
                self._assignment.start,
                self._assignment.next_rotation_ms,
            )
            return TaskReport(tp, start, start, start, next_rotation_ms=mark, dropped=str(error))
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        """Ends what the task began. What the bucket does not take now is left to the driver, which knows that the task failed."""
        for abort in (self._writer.abort, self._bad.file.abort):
            try:
                abort()
            except StorageError as error:
                _log.info("uploads are left to the driver", extra={"facts": {"reason": str(error)}})

    def _resume(self, state: OpenState) -> None:
        """Goes on with the open files of the last task. Raises StateUnusable."""
        last = self._states.read_state(state, self._output)
        self._writer.resume(last.open)
        self._counter.resume(last.examined)
        self._bad.resume(last.skipped)

    def _kept(self, frontier: int) -> OpenState | None:
        """Keeps what is open for the next task; drops it where nobody asks, or where it cannot be kept."""
        epoch = self._assignment.keep
        try:
            if epoch is not None:
                counts = self._counter.pause(frontier), self._bad.pause(frontier)
                task = TaskState(self._writer.open_files(), *counts)
                return self._states.write_state(task, self._output, epoch=epoch, frontier=frontier, until=self._until)
        except CannotPause as error:
            _log.info("%s: open files are read again: %s.", self._assignment.topic_partition, error)
        self._writer.drop_tail()
        return None

    def _deliver(self, batches: Iterator[pa.RecordBatch]) -> None:
        batch: pa.RecordBatch | None = None
        for delivery in self._assignment.deliveries:
            self._writer.begin_delivery(delivery.now_ms)
            while (batch := batch or next(batches, None)) is not None:
                offsets = batch.column("offset").to_numpy()
                inside = int(np.searchsorted(offsets, delivery.until))
                count = min(inside, self._records_at_once())
                if count:
                    for piece in within_memory(batch.slice(0, count), self._pipeline.inflates, self._pipeline.memory):
                        self._process_piece(piece, delivery.now_ms)
                        if self._stop is not None:
                            return
                    if len(self._writer.closed.files) >= self._max_files or self._stops_late():
                        self._until = int(offsets[count - 1]) + 1
                        break
                batch = batch.slice(count) if count < len(offsets) else None
                if batch is not None and count == inside:
                    break
            if delivery.until <= self._until:
                self._writer.end_delivery(delivery.now_ms)
            if self._until < self._assignment.until:
                return

    def _records_at_once(self) -> int:
        """How many records are taken before files are counted again; at first as the task before has it, but not beyond all bounds."""
        closed = len(self._writer.closed.files)
        if self._read:
            files = closed + self._writer.open_count()
            return records_at_once(self._max_files, closed=closed, records=self._read, files=files)
        records, files = self._pipeline.made.of(self._assignment.topic_partition.topic)
        expected = records_at_once(self._max_files, closed=closed, records=records, files=files)
        return min(expected, TRUSTED * self._max_files)

    def _stops_late(self) -> bool:
        """Whether there is no time for more; without anything to show for it the task goes on, or it would never come further."""
        return self._is_late() and (self._assignment.keep is not None or bool(self._writer.closed.files))

    def _process_piece(self, batch: pa.RecordBatch, now_ms: int) -> None:
        """Write the records of a piece of a batch, all of one delivery, and count them; those before the record at which the task stops."""
        self._read += len(batch)
        self._read_bytes += batch.nbytes
        offsets = batch.column("offset").to_numpy()
        recorded, erased = self._assignment.recorded.mask(offsets), self._assignment.erased.mask(offsets)
        self._bad.note_dropped(offsets[erased & ~recorded].tolist())
        left_out = recorded | erased
        self._stop = self._write(batch.filter(pa.array(~left_out)) if left_out.any() else batch, now_ms)
        if self._stop is not None:
            self._until = self._stop.failure.offset
        frontier, written = self._writer.frontier, self._writer.written
        self._counter.add(offsets[offsets < self._until], frontier=frontier, written=written)
        self._bad.count_skipped(until=self._until, frontier=frontier, written=written)

    def _write(self, batch: pa.RecordBatch, now_ms: int) -> Stop | None:
        """Write records that are no dead letters yet; those that cannot be written are collected and handled once.

        If the task stops at one of these, nothing from there on is written, and the record is returned.

        Of offsets 5 6 7 8, say 5 is recorded as a dead letter already, 6 has no value, 7 no time, and 8 a schema that the open file
        refuses: all four are read, 6 to 8 reach the converter, 7 and 8 the preparation, 8 the writer. 6 is handled as the policy for
        null values says, 7 and 8 as the one for failures does.
        """
        for piece, decoded in self._decoded(batch) if len(batch) else ():
            self._bad.note_dropped(decoded.dropped)
            self._malformed += decoded.malformed
            failures = list(decoded.failures)
            routed = [one for run in decoded.runs for one in self._preparation.prepared(run, now_ms, failures)]
            until = self._bad.find_stop(failures, decoded.nulls)
            for mixed in mixed_batches(routed):
                rejected = self._writer.write(mixed.before(until))
                failures += rejected
                until = min(until, self._bad.find_stop(rejected))
            stop = self._bad.handle(failures, decoded.nulls, piece)
            if stop is not None:
                return stop
            self._bad.keep_within(waiting_budget(self._pipeline.memory), self._writer.memory)
        return None

    def _decoded(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Decoded]]:
        """The records decoded; in halves, and halves of those, where they become too many values at once."""
        try:
            decoded = self._converter.decode_records(*converter_input(batch, envelopes=self._converter.needs_envelopes))
        except TooManyValues:
            half = len(batch) // 2
            yield from self._decoded(batch.slice(0, half))
            yield from self._decoded(batch.slice(half))
        else:
            yield batch, decoded

    def _report(self) -> TaskReport:
        writer, assignment = self._writer, self._assignment
        closed, tail = writer.closed, writer.tail()
        frontier = writer.frontier if tail.records else max(self._until, writer.frontier)
        rows, skipped = self._counter.below(frontier), self._bad.skipped_before(frontier)
        self._pipeline.made.note(assignment.topic_partition.topic, self._read, len(closed.files) + tail.open_files)
        state = self._kept(frontier) if tail.records else None
        files = [*closed.files, *self._pointer_file(closed.files), *filter(None, [self._bad.file.finish()])]
        if assignment.only is not None:
            files = self._only_of_role(files, assignment.only.role)
        report = TaskReport(
            assignment.topic_partition,
            assignment.start,
            self._until,
            frontier,
            rows=rows,
            read=self._read,
            files=tuple(files),
            dead=self._bad.file.offsets,
            stages=self._bad.file.stages,
            commonest=self._bad.file.commonest,
            skipped=skipped,
            next_rotation_ms=writer.next_rotation_ms,
            tail=tail,
            columns=tuple(closed.columns),
            read_bytes=self._read_bytes,
            state=state,
            malformed=dict(self._malformed),
        )
        return report if self._stop is None else self._with_stop(report, self._stop)

    def _with_stop(self, report: TaskReport, stop: Stop) -> TaskReport:
        """Return the report with the record at which the task stopped; what it did before stands."""
        policy = self._pipeline.policy
        return replace(
            report,
            failure=str(stop.letter),
            failed_at=(stop.letter.stage, stop.letter.offset),
            needs=stop.needs,
            remedy=policy.remedy(stop.failure, report.topic_partition, start=report.frontier, needs=stop.needs),
            letter=stop.letter if policy.reports(stop.failure) else None,
        )

    def _only_of_role(self, files: list[DataFile], role: Role) -> list[DataFile]:
        """The object that is made again; what was uploaded beside it is there already."""
        for file in files:
            if file.role is not role:
                self._store.abort_upload(file.upload.key, file.upload.id)
        return [file for file in files if file.role is role]

    def _pointer_file(self, closed: list[DataFile]) -> list[DataFile]:
        """The object that names the last file, where the layout has one."""
        values = [file for file in closed if file.role is Role.VALUE]
        found = self._pipeline.naming.pointer(self._assignment.topic_partition, values[-1].key) if values else None
        if found is None:
            return []
        key, content = found
        sent = upload_whole(self._store, key, content, part_size=self._pipeline.part_size)
        return [replace(values[-1], key=key, bytes=sent.size, upload=sent, role=Role.POINTER, format="pointer")]


def _bad_records(pipeline: Pipeline, assignment: Assignment, store: ObjectStore, folder: SpillFolder) -> BadRecords:
    tp = assignment.topic_partition
    file = DeadLetterFile(
        tp, store, lambda offset: pipeline.state.dead_letters(tp, offset), part_size=pipeline.part_size, folder=folder
    )
    ratio = pipeline.dead_letter_ratio if assignment.only is None else 1.0
    limit = DeadLetterLimit(ratio, assignment.until - assignment.first_unread)
    return BadRecords(tp, pipeline.policy, file, limit)


@dataclass(frozen=True, slots=True)
class _TaskNames:
    """What the objects of a task are called; `routed` gives the names for topics to which transforms send records, None where none does."""

    assignment: Assignment
    own: ObjectNames
    routed: Callable[[str], ObjectNames] | None
    formats: Mapping[Role, Format]

    def of_topic(self, topic: str | None) -> ObjectNames:
        """The names of the topic's objects, None for the assignment's own; a file that is made again keeps its key."""
        only, deliveries = self.assignment.only, self.assignment.deliveries
        names = self._template(topic)
        if only is None:
            return names.at_time(max((delivery.now_ms for delivery in deliveries), default=0))
        if only.role in self.formats:
            return RemadeNames(names, self.formats[only.role].extension, only.key)
        return RemadeNames(names, self.formats[Role.VALUE].extension, self.assignment.data_key or "")

    def is_of_topic(self, run: Run) -> bool:
        """Whether the file that is made again is one of the run's topic: then its key, or that of its values, is of its names."""
        only = self.assignment.only
        assert only is not None
        names = self._template(run.topic).with_time_of(only.key)
        keys = (
            names.key(only.topic_partition, only.encoded_partition, offset=only.first_offset, extension=form.extension)
            for form in self.formats.values()
        )
        return only.key in keys

    def _template(self, topic: str | None) -> ObjectNames:
        return self.own if topic is None or self.routed is None else self.routed(topic)
