"""The queries over the log's tables in docs/log-tables.md are run as they stand there; a folder stands for the bucket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.log_tables import LogTables
from tests.support.big_log import big_log, entries
from tests.support.memory_world import START_MS
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
UNTIL_MS = START_MS + HOUR_MS // 2  # half past ten
RUN = """
import duckdb, json, sys
connection = duckdb.connect()
connection.execute("SET TimeZone = 'America/New_York'")
print(json.dumps([list(row) for row in connection.sql(sys.stdin.read()).fetchall()]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a log from 9:51 to 10:30, an entry a minute."""
    store, made = big_log(40, 3, until_ms=UNTIL_MS), tmp_path_factory.mktemp("log")
    log = CommitLog(store, StatePaths("_kafka_s3", "big"), clock_ms=lambda: UNTIL_MS)
    log.load()
    LogTables(print, most_entries=20).catch_up(log)
    LogTables(print, most_entries=20).catch_up(log)
    for key, content in store.objects.items():
        place = made / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return made


def query(place: str, folder: Path) -> str:
    """The query of the docs that reads this address, over the folder."""
    blocks = re.findall("```sql\\n(.*?)```", (ROOT / "docs/log-tables.md").read_text(), re.DOTALL)
    (found,) = [block for block in blocks if place in block and block.startswith("SELECT")]
    return found.replace(f"{place}my-bucket/_kafka_s3/orders", f"{folder}/_kafka_s3/big")


def wanted() -> Counter[tuple[Any, ...]]:
    """Files of ten o'clock by reason, topic and partition."""
    found: Counter[tuple[Any, ...]] = Counter()
    for entry in entries(40, 3, until_ms=UNTIL_MS):
        if "T10:" in entry.committed_at:
            found.update((str(file.reason), file.topic, file.partition) for file in entry.files if file.role == "value")
    return found


def test_duckdb_says_which_files_ten_oclock_made_and_why(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RUN], input=query("s3://", folder), capture_output=True, text=True, check=True
    )
    rows = json.loads(ran.stdout)
    assert {tuple(row[:3]): row[3] for row in rows} == wanted()
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)


@pytest.mark.nightly
def test_spark_says_the_same(folder: Path, spark: SparkSession) -> None:
    rows = spark.sql(query("s3a://", folder)).collect()
    assert {(row.reason, row.topic, row.partition): row.files for row in rows} == wanted()
