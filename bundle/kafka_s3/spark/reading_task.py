"""What runs inside a Spark task that reads for itself? Its offset ranges, one after the other, each from Kafka through the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_s3.commit.report_form import report_text
from kafka_s3.model.errors import SinkError, UnreadableRecord
from kafka_s3.model.offsets import OffsetRange
from kafka_s3.model.tasks import Assignment, TaskReport, damage_report
from kafka_s3.spark.failures import failure_text
from kafka_s3.spark.task import Task, forget_archives, report_row, tools, with_requests

if TYPE_CHECKING:
    from kafka_s3.kafka.reader.batches import ReadScope
    from kafka_s3.storage.store import ObjectStore
    from kafka_s3.task.worker import Pipeline

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
        """One row per topic-partition of this task's share: its report. A failure ends the share: the driver drops the round for it."""
        for batch in batches:
            for number in batch.column(NUMBER).to_pylist():
                yield from map(report_row, self._reports(self.shares[number]))
        forget_archives()

    def _reports(self, share: tuple[Assignment, ...]) -> Iterator[str]:
        from kafka_s3.kafka.reader.reader import RangeReader  # here: the driver need not load and compile it

        pipeline, store = tools(self.task.settings)
        reader = RangeReader(self.bootstrap_servers, self.properties, self._part())
        ranges = [OffsetRange(wanted.topic_partition, wanted.first_unread, wanted.until) for wanted in share]
        wanted = share[0]
        try:
            with closing(reader.read(ranges)) as readings:
                for wanted, (_, batches) in zip(share, readings, strict=True):
                    yield report_text(with_requests(_report(pipeline, wanted, batches, store), store))
        except SinkError as error:
            yield failure_text(error, wanted.topic_partition)

    def _part(self) -> ReadScope:
        from kafka_s3.kafka.reader.batches import ReadScope

        if self.task.keeps_envelopes:
            return ReadScope.ENVELOPES
        return ReadScope.SCHEMA_NAMES if self.task.keeps_schema_names else ReadScope.VALUES


def _report(
    pipeline: Pipeline, wanted: Assignment, batches: Iterable[pa.RecordBatch], store: ObjectStore
) -> TaskReport:
    """The report of one range; what is damaged in Kafka ends it, and no other. Raises SinkError."""
    try:
        return pipeline.process(wanted, batches, store)
    except UnreadableRecord as error:
        if error.offset is None:
            raise
        return damage_report(wanted, error.offset, str(error))
