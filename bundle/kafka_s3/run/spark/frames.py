"""How do rows of Arrow become a frame of Spark's that is cheap to read more than once? As an RDD: Spark compares and copies its plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_s3.run.spark.failures import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AN_RDD: Final = {
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Rows are no part of the plan then; so many are a partition, or fewer."""
A_PARTITION: Final = 16 << 20
"""So many bytes at most, or one row. A task gets its rows in one message, for which a cluster has a limit (`spark.rpc.message.maxSize`)."""


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows, which the driver holds, as a frame. Spark does not know its size."""
    pieces = [piece for batch in rows.combine_chunks().to_batches() for piece in _pieces(batch)]
    with session_settings(spark, AN_RDD):
        return spark.createDataFrame(pa.Table.from_batches(pieces, rows.schema), schema)


def few_rows(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Few rows as a part of the plan, which Spark sends to all tasks that join them. In one batch: behind two empty ones it loses rows."""
    return spark.createDataFrame(rows.combine_chunks(), schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows < 2 or batch.nbytes <= A_PARTITION:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


@contextmanager
def session_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, for the body. Compute that does not let one be set goes without."""
    before = dict[str, str | None]()
    for key, text in wanted.items():
        with suppress(*SPARK_ERRORS):
            known = spark.conf.get(key, None)
            spark.conf.set(key, text)
            before[key] = known
    try:
        yield
    finally:
        for key, known in before.items():
            if known is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, known)
