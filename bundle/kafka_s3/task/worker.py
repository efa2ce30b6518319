"""What does one task do? It reads one offset range of one topic-partition and leaves closed, unpublished files and a report.

No Spark and no Kafka client here: Arrow batches come in, a `TaskReport` goes out. The task starts at the committed frontier, goes through
the deliveries that the planner has noted, and stops at the last one; what is still open then is dropped and read again next time.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.converters.converter import SCHEMA_NAME, KafkaBatch
from kafka_s3.converters.whole_records import RecordConverter
from kafka_s3.delta.columns import Evolution
from kafka_s3.delta.task.record_filter import RecordFilter, record_filter_of
from kafka_s3.formats.format import Format
from kafka_s3.model.dead_letters import DeadLetter, write_lines
from kafka_s3.model.failures import Failure, rejection
from kafka_s3.model.files import DataFile, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Tail, TaskReport
from kafka_s3.naming.keys import ObjectNames, Renamed
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.records.runs import Run, Sidecar
from kafka_s3.records.values import NO_TIMESTAMP, Longs
from kafka_s3.storage.store import ObjectStore
from kafka_s3.task.dead_letters import BadRecords, Stopped, dead_letter_file
from kafka_s3.task.directories import may_hold
from kafka_s3.task.error_policy import ErrorPolicy
from kafka_s3.task.interleaved import Partitioned, interleaved
from kafka_s3.task.open_files import Output
from kafka_s3.task.partitioners import Partitioner
from kafka_s3.task.rotation import RotationRules
from kafka_s3.task.schema_changes import SchemaRules
from kafka_s3.task.timestamps import RecordTimestamp, TimestampExtractor
from kafka_s3.task.uploads import spill_folder, upload_whole
from kafka_s3.task.writer import TopicPartitionWriter


@dataclass(frozen=True)
class Pipeline:
    """How records become files under one configuration. Made once per process from the settings; `folder` is for spilled parts."""

    converter: Callable[[TopicPartition], RecordConverter]
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

    def process(self, assignment: Assignment, batches: Iterable[pa.RecordBatch], store: ObjectStore) -> TaskReport:
        """Runs a task over Arrow batches with the columns `offset, value, timestamp` and, for dead letters, `key, headers`.

        Offsets ascend over all batches. Errors of the store and of local disk are raised; errors of records are in the report.
        """
        folder = spill_folder()
        try:
            return _Task(self, assignment, store, folder).run(batches)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Task:
    def __init__(self, pipeline: Pipeline, assignment: Assignment, store: ObjectStore, folder: Path) -> None:
        self._pipeline = pipeline
        self._assignment = assignment
        self._store = store
        self._folder = folder
        self._converter = pipeline.converter(assignment.topic_partition)
        self._record_filter = (
            record_filter_of(pipeline.evolution, assignment.table) if pipeline.evolution is not None else None
        )
        self._bad = BadRecords(assignment.topic_partition, pipeline.policy)
        self._read = 0
        self._seen: list[Longs] = []
        self._settled = 0
        self._writer = TopicPartitionWriter(
            assignment.topic_partition,
            pipeline.rules if assignment.only is None else RotationRules(),
            Output(
                store,
                self._naming(),
                pipeline.formats,
                pipeline.schemas,
                pipeline.part_size,
                pipeline.memory,
                pipeline.threads,
                folder,
            ),
            frontier=assignment.start,
            next_rotation_ms=assignment.next_rotation_ms,
        )

    def _naming(self) -> ObjectNames:
        only, deliveries = self._assignment.only, self._assignment.deliveries
        if only is None:
            return self._pipeline.naming.at(max((delivery.now_ms for delivery in deliveries), default=0))
        if only.role in self._pipeline.formats:
            return Renamed(self._pipeline.naming, self._pipeline.formats[only.role].extension, only.key)
        return Renamed(
            self._pipeline.naming, self._pipeline.formats[Role.VALUE].extension, self._assignment.data_key or ""
        )

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        try:
            self._deliver(iter(batches))
            if self._assignment.close is not None:
                self._writer.close(self._assignment.close)
            return self._report()
        except Stopped as stopped:
            self._writer.abort()
            return self._stopped(stopped.failure, stopped.letter)
        except BaseException:
            self._writer.abort()
            raise

    def _stopped(self, failure: Failure, letter: DeadLetter) -> TaskReport:
        """The report of a task that met a record at which the sink stops."""
        tp, start, policy = self._assignment.topic_partition, self._assignment.start, self._pipeline.policy
        return TaskReport(
            tp,
            start,
            self._assignment.until,
            start,
            read=self._read,
            failure=str(letter),
            remedy=policy.remedy(failure, tp, start=start),
            letter=letter if policy.reports(failure) else None,
        )

    def _deliver(self, batches: Iterator[pa.RecordBatch]) -> None:
        batch: pa.RecordBatch | None = None
        for delivery in self._assignment.deliveries:
            self._writer.begin_delivery(delivery.now_ms)
            while (batch := batch or next(batches, None)) is not None:
                offsets = batch.column("offset").to_numpy()
                inside = int(np.searchsorted(offsets, delivery.until))
                if inside:
                    self._take(batch.slice(0, inside), delivery.now_ms)
                if inside < len(offsets):
                    batch = batch.slice(inside)
                    break
                batch = None
            if delivery.until <= self._assignment.until:
                self._writer.end_delivery(delivery.now_ms)

    def _take(self, batch: pa.RecordBatch, now_ms: int) -> None:
        self._read += len(batch)
        offsets = batch.column("offset").to_numpy()
        self._see(offsets)
        recorded = self._assignment.recorded.mask(offsets)
        if recorded.any():
            batch = batch.filter(pa.array(~recorded))
            offsets = batch.column("offset").to_numpy()
        if not len(offsets):
            return
        times = pc.fill_null(batch.column("timestamp"), NO_TIMESTAMP).to_numpy(zero_copy_only=False)
        keys, headers, names = None, None, None
        if self._converter.needs_envelopes and "headers" in batch.schema.names:
            keys, headers = batch.column("key"), batch.column("headers")
        elif SCHEMA_NAME in batch.schema.names:
            names = batch.column(SCHEMA_NAME)
        decoded = self._converter.decode(KafkaBatch(offsets, times, batch.column("value"), headers, names), keys)
        self._bad.nulls(decoded.nulls, batch)
        self._bad.failures(decoded.failures, batch)
        parts = [part for run in decoded.runs for part in self._ready(run, batch, now_ms)]
        for _, group in groupby(parts, key=lambda part: part.run.tombstones):
            self._writer.write(interleaved(list(group)))
            rejected, self._writer.rejected = self._writer.rejected, []
            self._bad.failures([rejection(offset, text) for offset, text in rejected], batch)

    def _ready(self, run: Run, batch: pa.RecordBatch, now_ms: int) -> Iterator[Partitioned]:
        """The records of a run that can be written, with their directories and times."""
        fitted = self._fitted(run)
        if isinstance(fitted, str) and len(run) > 1:  # look for the records it is about
            for half in (run.slice(0, len(run) // 2), run.slice(len(run) // 2, len(run))):
                yield from self._ready(half, batch, now_ms)
            return
        if isinstance(fitted, str):
            failures = [replace(rejection(int(offset), fitted), stops_original=True) for offset in run.offsets]
            self._bad.failures(failures, batch)
            return
        run = fitted
        times: Longs | None = None
        if self._pipeline.extractor is not None:
            extractor = RecordTimestamp() if run.tombstones else self._pipeline.extractor
            stamped = extractor.extract(run, now_ms)
            self._bad.failures(stamped.failures, batch)
            times = stamped.times
            if not stamped.valid.all():
                rows = np.flatnonzero(stamped.valid)
                run, times = run.take(rows), times[rows]
        if not len(run):
            return
        zeros = times if times is not None else np.zeros(len(run), np.int64)
        encoded = self._pipeline.partitioner.encode(self._assignment.topic_partition, run, zeros)
        codes = encoded.codes
        if encoded.failures:
            self._bad.failures(encoded.failures, batch)
            rows = np.flatnonzero(codes >= 0)
            run, codes, times = run.take(rows), codes[rows], None if times is None else times[rows]
        part = Partitioned(run, codes, encoded.names, times)
        if self._assignment.only is not None:
            part = self._only(part, self._assignment.only)
        if self._record_filter is not None:
            part = self._through(part, self._record_filter, batch)
        if len(part.run):
            yield part

    def _through(self, part: Partitioned, record_filter: RecordFilter, batch: pa.RecordBatch) -> Partitioned:
        """The records that the topic's table takes, as it takes them."""
        run, refused = record_filter.passed(part.run)
        part = replace(part, run=run)
        if not refused:
            return part
        self._bad.failures([rejection(int(run.offsets[row]), text) for row, text in refused], batch)
        return part.without([row for row, _ in refused])

    def _fitted(self, run: Run) -> Run | str:
        """The run as its formats take it, or why one of them cannot."""
        values, sidecars = run.values, dict(run.sidecars)
        for role, form in self._pipeline.formats.items():
            if role is Role.VALUE and run.tombstones:
                continue
            sidecar = None if role is Role.VALUE else run.sidecars[role]
            fit = form.fit(run if sidecar is None else Run(run.offsets, run.timestamps, sidecar.values, sidecar.schema))
            if isinstance(fit, str):
                return fit
            if sidecar is None:
                values = fit
            else:
                sidecars[role] = Sidecar(fit, sidecar.schema)
        return replace(run, values=values, sidecars=sidecars)

    def _only(self, part: Partitioned, file: DataFile) -> Partitioned:
        """The records that belong into the file that is made again. By wall clock its offsets are contiguous but for records of other
        schemas' directories and tombstones.
        """
        if not may_hold(self._pipeline.partitioner, file.encoded_partition, part.run):
            return part.without(list(range(len(part.run))))
        if self._pipeline.extractor is not None and self._pipeline.extractor.needs_now:
            return Partitioned(part.run, np.zeros(len(part.run), np.int32), [file.encoded_partition], None)
        code = part.names.index(file.encoded_partition) if file.encoded_partition in part.names else -1
        rows = np.flatnonzero(part.codes == code)
        return Partitioned(part.run.take(rows), np.zeros(len(rows), np.int32), [file.encoded_partition], None)

    def _see(self, offsets: Longs) -> None:
        """Counts records independently of what becomes of them; offsets are kept only while the frontier may still cut among them."""
        self._seen.append(offsets)
        while self._seen and self._seen[0][-1] < self._writer.frontier:
            self._settled += len(self._seen.pop(0))

    def _report(self) -> TaskReport:
        writer, assignment = self._writer, self._assignment
        tail = Tail(writer.records, writer.encoded_bytes(), writer.base_ms, writer.open_files)
        if writer.records:
            writer.discard_open()
            frontier = writer.frontier
        else:
            frontier = max(assignment.until, writer.frontier)
        files = [*writer.closed, *self._pointer_file(writer.closed), *self._dead_letter_file()]
        if assignment.only is not None:
            files = self._only_of_role(files, assignment.only.role)
        return TaskReport(
            assignment.topic_partition,
            assignment.start,
            assignment.until,
            frontier,
            rows=self._settled + sum(int(np.searchsorted(offsets, frontier)) for offsets in self._seen),
            read=self._read,
            files=tuple(files),
            dead=self._bad.offsets,
            stages=self._bad.stages,
            skipped=self._bad.skipped_before(frontier),
            next_rotation_ms=writer.next_rotation_ms,
            tail=tail,
            columns=tuple(writer.columns),
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
        sent = self._sent(key, content)
        return [replace(values[-1], key=key, bytes=sent.size, upload=sent, role=Role.POINTER, format="pointer")]

    def _dead_letter_file(self) -> list[DataFile]:
        letters = self._bad.letters_in_order()
        if not letters:
            return []
        key = self._pipeline.state.dead_letters(self._assignment.topic_partition, letters[0].offset)
        return [dead_letter_file(letters, self._sent(key, write_lines(letters)))]

    def _sent(self, key: str, content: bytes) -> Upload:
        return upload_whole(self._store, key, content, part_size=self._pipeline.part_size, folder=self._folder)
