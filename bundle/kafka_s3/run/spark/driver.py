"""How does the sink run where Spark's tasks have no network, as on serverless compute? Spark reads, the driver does the rest.

The very function that otherwise runs in a task runs here, over the same batches; one topic-partition after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from kafka_s3.engine.log.report_form import outcome_of
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.run.spark.bounded import is_cut
from kafka_s3.run.spark.rows import last_offset
from kafka_s3.run.spark.source import SparkSource
from kafka_s3.run.spark.task import Task

OFFSETS_PER_READ: Final = 100_000
"""What one job of Spark reads; of these records the driver holds as many as `bounded` lets pass."""


class DriverSource:
    """The engine in the process of the driver, fed by Spark."""

    def __init__(self, spark: SparkSource) -> None:
        self._spark = spark

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment."""
        return [self._read(wanted) for wanted in assignments]

    def _read(self, wanted: Assignment) -> TaskOutcome:
        task = self._spark.task([wanted])
        rows = [row for batch in task.run(self._batches(task, wanted)) for row in batch.column(0).to_pylist()]
        return outcome_of(rows[0]) if rows else task.without_records(wanted)

    def _batches(self, task: Task, wanted: Assignment) -> Iterator[pa.RecordBatch]:
        start = wanted.first_unread
        while start < wanted.until:
            part = replace(wanted, start=start, until=min(start + OFFSETS_PER_READ, wanted.until), state=None)
            batches = self._spark.batches(task, part)
            start = last_offset(batches[-1], task.offset_bits) + 1 if is_cut(batches) else part.until
            yield from batches
