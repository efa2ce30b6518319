"""What runs inside a Spark task that reads for itself? Its offset ranges, one after the other, each from Kafka through the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_s3.engine.log.report_form import outcome_text
from kafka_s3.model.errors import SinkError
from kafka_s3.model.offsets import OffsetRange
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, postponed_report
from kafka_s3.run.spark.attempts import TaskTime, died, is_repeated, within
from kafka_s3.run.spark.task import Task, forget_archives, give_up, report_row, tools, with_requests

if TYPE_CHECKING:
    from kafka_s3.kafka.reader.batches import ReadScope

NUMBER = "id"
"""The column of `spark.range` that tells a task which of the shares is its own."""


@dataclass(frozen=True)
class ReadingTask:
    """The function that Spark ships to its workers. `shares` are what each task reads; `properties` the consumer's, by their Java names."""

    task: Task
    shares: tuple[tuple[Assignment, ...], ...]
    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per topic-partition of this task's share: its outcome. None of them is a matter of the others."""
        for batch in batches:
            for number in batch.column(NUMBER).to_pylist():
                yield from map(report_row, map(outcome_text, self._outcomes(self.shares[number])))
        forget_archives()

    def _outcomes(self, share: tuple[Assignment, ...]) -> Iterator[TaskOutcome]:
        if is_repeated():
            yield from (died(wanted.topic_partition) for wanted in share)
            return
        settings, done = self.task.settings, 0
        limit = TaskTime(settings.number("task.timeout.ms") / 1000)
        try:
            for outcome in within(limit, self._read(share, limit), give_up=lambda: give_up(settings)):
                done += 1
                yield outcome
        except SinkError as error:
            yield TaskFailure(share[done].topic_partition, _about(share[done], error))
            yield from map(postponed_report, share[done + 1 :])

    def _read(self, share: tuple[Assignment, ...], limit: TaskTime) -> Iterator[TaskOutcome]:
        from kafka_s3.kafka.reader.reader import RangeReader  # here: the driver need not load and compile it

        pipeline, store = tools(self.task.settings)
        reader = RangeReader(self.bootstrap_servers, self.properties, self._part())
        ranges = [OffsetRange(wanted.topic_partition, wanted.first_unread, wanted.until) for wanted in share]
        with closing(reader.read(ranges)) as readings:
            for wanted, (_, batches) in zip(share, readings, strict=True):
                if limit.is_late():
                    yield postponed_report(wanted)
                else:
                    yield with_requests(pipeline.outcome(wanted, batches, store, is_late=limit.is_late), store)

    def _part(self) -> ReadScope:
        from kafka_s3.kafka.reader.batches import ReadScope

        if self.task.keeps_envelopes:
            return ReadScope.ENVELOPES
        return ReadScope.SCHEMA_NAMES if self.task.keeps_schema_names else ReadScope.VALUES


def _about(wanted: Assignment, error: SinkError) -> SinkError:
    """The error, whose text names the topic-partition."""
    text = str(error)
    return error if str(wanted.topic_partition) in text else type(error)(f"{wanted.topic_partition}: {text}")
