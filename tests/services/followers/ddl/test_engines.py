"""The statements for DuckDB and Spark in docs/query-engines.md are run as they stand there; a folder stands for the bucket."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.duckdb_views import rows_by
from tests.support.filled import HOUR_MS, HOURLY
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.repository import ROOT

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


def fill(folder: Path, config: dict[str, str]) -> None:
    """Three hours of objects in a folder."""
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


def statement(word: str, folder: Path) -> str:
    """The statement of the page that has the word, over the folder."""
    page = (ROOT / "docs/query-engines.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall("```sql\\n(.*?)```", page, re.DOTALL)).split(";")
    [block] = [block for block in blocks if word in block]
    return re.sub("s3a?://lake", str(folder), block)


@pytest.mark.parametrize("form", CONFIGS)
def test_duckdb_reads_values_and_directories_by_the_statement_as_it_is(form: str, tmp_path: Path) -> None:
    fill(tmp_path, CONFIGS[form])
    assert rows_by([statement(f"read_{form}", tmp_path), QUERY]) == ROWS


@pytest.mark.nightly
def test_spark_reads_values_and_directories_by_the_statement_as_it_is(tmp_path: Path, spark: SparkSession) -> None:
    fill(tmp_path, CONFIGS["json"])
    spark.sql(statement("USING json", tmp_path))
    rows = spark.sql("SELECT n, where.city, hour FROM orders ORDER BY n").collect()
    assert [[row.n, {"city": row.city}, f"{row.hour:02}"] for row in rows] == ROWS
