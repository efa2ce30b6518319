"""Real Kafka, Spark and S3: the table that delta-rs and delta-spark read is what Kafka holds, record by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from chispa import assert_df_equality
from deltalake import DeltaTable

from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY
from tests.support.configurations import PARTITIONER
from tests.support.kafka import Given, document, kafka_records, produce

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.support.surroundings import Surroundings

PARQUET = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.schema.inference": "true",
    "flush.size": "25",
    "delta.enable": "true",
    "errors.tolerance": "all",
    "partitioner.class": f"{PARTITIONER}FieldPartitioner",
    "partition.field.name": "country",
}
PARTITIONS = 2
COUNTRIES = ("DE", "FR", "a b/c", None)  # a directory with a blank, one with a slash in its value, null


def order(n: int) -> bytes:
    """Later orders have more columns, also nested ones; some are not JSON."""
    if n % 40 == 39:
        return b"{broken"
    later = {"note": f"n{n}", "at": {"x": n, "y": "later"}} if n >= 100 else {"at": {"x": n}}
    return document(n=n, price=n + 0.5, country=COUNTRIES[n // 25 % 4], **later)


def expected(servers: str, topic: str) -> list[dict[str, Any]]:
    """The rows of the table, by what Kafka holds."""
    rows = []
    for value in kafka_records(servers, topic, PARTITIONS).values():
        if value is not None and value != b"{broken":
            found = json.loads(value)
            at = {"x": found["at"]["x"], "y": found["at"].get("y")}
            rows.append({name: found.get(name) for name in ("n", "price", "country", "note")} | {"at": at})
    return sorted(rows, key=lambda row: row["n"])


def local_copy(here: Surroundings, folder: Path, topic: str) -> Path:
    """The table's folder on local disk, where Spark reads it without a file system for S3."""
    for key in here.bucket.listing():
        if key.startswith(f"topics/{topic}/"):
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(here.bucket.get(key))
    return folder / "topics" / topic


def test_the_table_is_what_kafka_holds(
    here: Surroundings, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    name = topic("orders", PARTITIONS)
    config = here.config(name, **PARQUET)
    produce(here.servers, name, [Given(order(n), n % PARTITIONS) for n in range(100)])
    here.drain({**config, "delta.enable": "false"})
    produce(here.servers, name, [Given(order(n), n % PARTITIONS) for n in range(100, 200)])
    here.drain(config)
    rows = expected(here.servers, name)
    assert len(rows) == 195

    options = {
        "aws_endpoint_url": here.s3.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
    }  # fmt: skip
    table = DeltaTable(f"s3://{here.bucket.name}/topics/{name}", storage_options=options)
    assert table.metadata().partition_columns == ["country"]
    read = pa.table(table.scan()).to_pylist()
    assert sorted(read, key=lambda row: row["n"]) == rows

    by_spark = spark.read.format("delta").load(str(local_copy(here, tmp_path, name)))
    judge = spark.createDataFrame(rows, by_spark.schema)
    assert_df_equality(by_spark, judge, ignore_row_order=True, ignore_nullable=True)
    assert by_spark.where("n >= 150 AND note IS NOT NULL").count() == sum(row["n"] >= 150 for row in rows)
    assert by_spark.where("country IS NULL").count() == sum(row["country"] is None for row in rows)
