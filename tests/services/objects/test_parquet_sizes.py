"""Is a Parquet object of ours larger than the one that parquet-java, which the connectors write with, makes of the same rows?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafka_s3.connect.records.values import StructColumns
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.objects.parquet import parquet_format
from tests.benchmarks.topics import value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHELF = 800
"""Every how many orders one lies on a file's shelf, in the benchmark of many directories."""


def orders(count: int, step: int) -> pa.Table:
    return pa.Table.from_pylist([json.loads(value(number * step)) for number in range(count)])


def size_of_ours(rows: pa.Table, codec: str) -> int:
    file = parquet_format(codec, AvroOptions()).open(None)
    file.append(StructColumns(rows))
    file.finish()
    return len(file.take())


def size_by_spark(spark: SparkSession, rows: pa.Table, codec: str, folder: Path) -> int:
    spark.createDataFrame(rows.to_pandas()).coalesce(1).write.option("compression", codec).parquet(str(folder))
    (written,) = folder.glob("part-*.parquet")
    return written.stat().st_size


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
@pytest.mark.parametrize(("count", "step"), [(2_500, SHELF), (100_000, 1)], ids=["few rows", "many rows"])
def test_a_parquet_object_is_no_larger_than_parquet_javas(
    spark: SparkSession, tmp_path: Path, codec: str, count: int, step: int
) -> None:
    rows = orders(count, step)
    assert size_of_ours(rows, codec) <= size_by_spark(spark, rows, codec, tmp_path / "spark")
