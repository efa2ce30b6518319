"""Do the workers that a session starts with serve its queries, too?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from kafka_s3.run.spark.session import begun_jvm


def test_functions_of_dataframes_run_in_workers_of_the_daemon_that_was_started_with_the_session(
    spark: SparkSession,
) -> None:
    """A daemon serves functions of one environment of variables; a second one would import all that it needs for two seconds."""

    def daemon(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(daemon, "daemon long").collect()
    assert spark.sparkContext.parallelize(range(1), 1).map(lambda _: os.getppid()).collect() == [row.daemon]


def test_a_jvm_that_no_session_took_is_ended(spark: SparkSession) -> None:
    """As that of a start which is refused: tests and other callers of the command live on, and would keep it for nothing."""
    with begun_jvm(name="for nothing") as jvm:
        assert jvm is not None
        gateway = jvm.result()
        assert gateway is not None
        assert gateway.proc.poll() is None
    assert gateway.proc.poll() is not None
    assert gateway.proc.stdin.closed
    assert spark.range(3).count() == 3
