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
from kafka_s3.engine.open_files.batch import RoutedRun
from kafka_s3.engine.task.partitioning.partitioners import Partitioner, may_hold
from kafka_s3.engine.task.partitioning.timestamps import RecordTimestamp, TimestampExtractor
from kafka_s3.engine.task.table_guard.record_filter import RecordFilter
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.format import Format


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps for one topic-partition; `only` is the file that is made again, if that is the task. `is_of_topic` says whether that
    file is one of a run's topic, where transforms change topics.
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
        found = form.fit(own)
        if isinstance(found, str):
            return replace(rejection(int(run.offsets[0]), found), stops_original=form.stops_original(own))
        if sidecar is None:
            values = found
        else:
            sidecars[role] = Sidecar(found, sidecar.schema)
    return replace(run, values=values, sidecars=sidecars)
