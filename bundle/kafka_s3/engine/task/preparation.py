"""Which records of a batch can be written, into which directory, and at which time? The steps between decoding and the open files.

In this order: the formats take the values, the extractor gives each record its time, the partitioner its directory, and the topic's table
its columns. What a step refuses goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.batch import Partitioned
from kafka_s3.engine.task.partitioning.partitioners import Partitioner
from kafka_s3.engine.task.partitioning.timestamps import RecordTimestamp, TimestampExtractor
from kafka_s3.engine.task.table_guard.record_filter import RecordFilter
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.format import Format


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps for one topic-partition; `only` is the file that is made again, if that is the task; `belongs` tells
    whether the topic of a run is that file's, where transforms change topics.
    """

    topic_partition: TopicPartition
    formats: Mapping[Role, Format]
    extractor: TimestampExtractor | None
    partitioner: Partitioner
    record_filter: RecordFilter | None = None
    only: DataFile | None = None
    belongs: Callable[[Run], bool] | None = None

    def prepared(self, run: Run, now_ms: int, failures: list[Failure]) -> list[Partitioned]:
        """The records of a run that can be written; the others are added to `failures`."""
        parts = []
        for fitted in self._fitted(run, failures):
            part = self._directed(*self._stamped(fitted, now_ms, failures), failures)
            part = self._through(part if self.only is None else self._of_file(part, self.only), failures)
            if len(part.run):
                parts.append(part)
        return parts

    def _fitted(self, run: Run, failures: list[Failure]) -> Iterator[Run]:
        """The run as its formats take it. A refusal is about some of its records: halves are tried until those are alone."""
        fitted = _as_formats_take_it(run, self.formats)
        if isinstance(fitted, Run):
            yield fitted
        elif len(run) > 1:
            half = len(run) // 2
            yield from self._fitted(run.slice(0, half), failures)
            yield from self._fitted(run.slice(half, len(run)), failures)
        else:
            failures.append(fitted)

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

    def _directed(self, run: Run, times: Longs | None, failures: list[Failure]) -> Partitioned:
        """The records that have a directory, with it."""
        if not len(run):
            return Partitioned(run, np.zeros(0, np.int32), [], times)
        zeros = times if times is not None else np.zeros(len(run), np.int64)
        topic_partition = (
            self.topic_partition if run.topic is None else TopicPartition(run.topic, self.topic_partition.partition)
        )
        encoded = self.partitioner.encode(topic_partition, run, zeros)
        run = replace(run, placed_by={})
        part = Partitioned(run, encoded.codes, encoded.names, times)
        if not encoded.failures:
            return part
        failures += encoded.failures
        return part.without(np.flatnonzero(encoded.codes < 0).tolist())

    def _of_file(self, part: Partitioned, file: DataFile) -> Partitioned:
        """The records that belong into the file that is made again. By wall clock its offsets are contiguous but for records of other
        schemas' directories and tombstones.
        """
        elsewhere = self.belongs is not None and not self.belongs(part.run)
        if elsewhere or not self.partitioner.may_hold(file.encoded_partition, part.run):
            return part.without(list(range(len(part.run))))
        if self.extractor is not None and self.extractor.needs_now:
            return Partitioned(part.run, np.zeros(len(part.run), np.int32), [file.encoded_partition], None)
        code = part.names.index(file.encoded_partition) if file.encoded_partition in part.names else -1
        rows = np.flatnonzero(part.codes == code)
        return Partitioned(part.run.take(rows), np.zeros(len(rows), np.int32), [file.encoded_partition], None)

    def _through(self, part: Partitioned, failures: list[Failure]) -> Partitioned:
        """The records that the topic's table takes, as it takes them."""
        if self.record_filter is None or not len(part.run):
            return part
        run, refused = self.record_filter.passed(part.run)
        failures += [rejection(int(run.offsets[row]), text) for row, text in refused]
        part = replace(part, run=run)
        return part.without([row for row, _ in refused]) if refused else part


def _as_formats_take_it(run: Run, formats: Mapping[Role, Format]) -> Run | Failure:
    """The run with values and sidecars in the forms of their formats, or the failure of its first record, where one cannot take it."""
    values, sidecars = run.values, dict(run.sidecars)
    for role, form in formats.items():
        if role is Role.VALUE and run.tombstones:
            continue
        sidecar = None if role is Role.VALUE else run.sidecars[role]
        own = run if sidecar is None else Run(run.offsets, run.timestamps, sidecar.values, sidecar.schema)
        fit = form.fit(own)
        if isinstance(fit, str):
            return replace(rejection(int(run.offsets[0]), fit), stops_original=form.stops_original(own))
        if sidecar is None:
            values = fit
        else:
            sidecars[role] = Sidecar(fit, sidecar.schema)
    return replace(run, values=values, sidecars=sidecars)
