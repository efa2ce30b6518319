"""How do rows of Arrow become a frame of Spark's that is cheap to read more than once? As an RDD: Spark compares and copies its plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafka_s3.run.spark.failures import SPARK_ERRORS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AN_RDD: Final = {
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Rows are no part of the plan then; so many are a partition."""


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows, which the driver holds, as a frame. Spark does not know its size."""
    with session_settings(spark, AN_RDD):
        return spark.createDataFrame(rows.combine_chunks(), schema)


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
