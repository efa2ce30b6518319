"""While Spark reads, its progress is reported."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.spark.launch import progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that takes its time."""
    time.sleep(1)
    yield from batches


def test_the_share_of_tasks_that_are_done_is_reported_as_records(spark: SparkSession) -> None:
    reported: list[tuple[int, int]] = []
    assignments = [Assignment(TopicPartition("orders", 0), 100, 500, (Delivery(0, 500),))]
    with progress_of(spark, assignments, lambda records, wanted: reported.append((records, wanted))):
        numbers = spark.range(0, 4, 1, 4)
        assert numbers.mapInArrow(slowly, numbers.schema).count() == 4
    assert {wanted for _, wanted in reported} == {400}
    assert {records for records, _ in reported} <= {0, 100, 200, 300, 400}
