"""State tables in the Spark that the commands start themselves: it knows Delta, and the next process finds the tables again."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT


def run(folder: Path, *words: str, code: int = 0) -> str:
    """Run a command in a folder, with no Spark around it."""
    own = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_CONF"))}
    done = subprocess.run(
        [sys.executable, "-m", "kafka_s3", *words],
        cwd=folder,
        env={**own, "PYTHONPATH": str(ROOT / "bundle")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_tables_outlive_the_process_that_made_them(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("own-spark")
    config = {
        **BASE, "name": "own-spark", "topics": name, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "kafka.bootstrap.servers": kafka.bootstrap_servers, "flush.size": "10", "record.metadata.enable": "true",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true",
        "state.enable": "true", "state.run.on": "job", "state.table": "state.orders", "state.key": "id", "state.delete.on": "op=d",
    }  # fmt: skip
    (tmp_path / "sink.properties").write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    for start, done in ((0, "rebuilt with 15 keys"), (20, "15 keys looked at")):
        produce(kafka.bootstrap_servers, name, [Given(document(id=n % 15, n=n)) for n in range(start, start + 20)])
        drain_directly(config)
        assert f"{name}: {done}" in run(tmp_path, "state", "run", "sink.properties")
    table = pa.table(DeltaTable(tmp_path / "spark-warehouse" / "state.db" / "orders").scan())
    assert sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True)) == [
        (n % 15, n) for n in sorted(range(25, 40), key=lambda n: n % 15)
    ]

    with (tmp_path / "metastore_db" / "dbex.lck").open("r+b") as lock:  # as a process that keeps tables does it
        fcntl.lockf(lock, fcntl.LOCK_EX)
        reported = run(tmp_path, "state", "check", "sink.properties", code=1)
    assert f"Another process keeps tables in {tmp_path}" in reported
