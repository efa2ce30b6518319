"""The statements for DuckDB and Spark are run, over the objects that the product's own loop wrote; a folder stands for the bucket."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_s3.followers.ddl.statements import QueryEngine, statements
from kafka_s3.followers.ddl.table import ExternalTable
from kafka_s3.run.wiring.followers import tables_of_sink
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.duckdb_views import rows_by
from tests.support.filled import HOUR_MS, HOURLY
from tests.support.memory_world import ORDERS, START_MS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGS = {
    "json": {"s3.compression.type": "gzip"},
    "parquet": {
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "value.schema.inference": "true",
        "store.kafka.keys": "true",
        "keys.format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    },
}
QUERY = 'SELECT n, "where", hour FROM orders ORDER BY n'
ROWS = [[hour * 2 + n, {"city": "Rome"}, f"{10 + hour:02}"] for hour in range(3) for n in range(2)]


def table_in(folder: Path, config: dict[str, str]) -> ExternalTable:
    """A table over three hours of objects in a folder."""
    world = World({**HOURLY, "topics": "orders", "flush.size": "2", **config})
    for hour in range(3):
        for n in (hour * 2, hour * 2 + 1):
            value = json.dumps({"n": n, "where": {"city": "Rome"}}).encode()
            world.kafka.add(ORDERS, MemoryRecord(n, START_MS + hour * HOUR_MS, b"key", value))
    world.start().poll_and_commit()
    for key, data in world.store.objects.items():
        place = folder / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    (found,) = tables_of_sink(world.settings, world.store)
    return replace(found, location=found.location.replace("s3://bucket", str(folder)))


@pytest.mark.parametrize("form", CONFIGS)
def test_duckdb_reads_values_and_directories_by_the_statement_as_it_is(form: str, tmp_path: Path) -> None:
    wanted = statements(QueryEngine.DUCKDB, table_in(tmp_path, CONFIGS[form]))
    assert rows_by([*wanted, QUERY]) == ROWS


@pytest.mark.nightly
def test_spark_reads_values_and_directories_by_the_statements_as_they_are(tmp_path: Path, spark: SparkSession) -> None:
    for statement in statements(QueryEngine.SPARK, table_in(tmp_path, CONFIGS["json"])):
        spark.sql(statement)
    found: list[Any] = spark.sql("SELECT n, where.city, hour FROM orders ORDER BY n").collect()
    spark.sql("DROP TABLE orders")
    assert [[row.n, {"city": row.city}, row.hour] for row in found] == ROWS
