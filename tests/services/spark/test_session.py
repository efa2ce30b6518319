"""Do the workers that a session starts with serve its queries, too?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def test_functions_of_dataframes_run_in_workers_of_the_daemon_that_was_started_with_the_session(
    spark: SparkSession,
) -> None:
    """A daemon serves functions of one environment of variables; a second one would import all that it needs for two seconds."""

    def daemon(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(daemon, "daemon long").collect()
    assert spark.sparkContext.parallelize(range(1), 1).map(lambda _: os.getppid()).collect() == [row.daemon]
