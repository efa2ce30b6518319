"""Keeps states on a Spark with executors of its own (`local-cluster`), to be killed: python -m tests.services.state.keeper FOLDER

Each line that it reads is a configuration's path, whose topic it brings up to date; then it says so. Its tables lie in FOLDER/warehouse,
where the next one finds them, as in a catalog that outlives Spark. With every other line records are read by Spark's tasks.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.model.errors import TableError
from kafka_s3.run.java.jars import spark_kafka_and_delta_jars
from kafka_s3.run.java.java import java_environment
from kafka_s3.run.spark.session import DELTA, LOCAL
from kafka_s3.state import opened_states
from tests.services.faults.local_cluster_sink import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cluster(folder: Path) -> SparkSession:
    """Two executors of one core each, in processes of their own."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ.update(java_environment())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    home = folder / "spark"
    os.environ["SPARK_HOME"] = str(home if home.exists() else spark_home(home, Path(pyspark.__file__).parent))
    own = {
        "spark.executor.memory": "512m", "spark.driver.memory": "768m", "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.jars": ",".join(map(str, spark_kafka_and_delta_jars())),
    }  # fmt: skip
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("states")
    session: SparkSession = builder.config(map={**LOCAL, **DELTA, **own}).getOrCreate()
    return session


def register(spark: SparkSession, folder: Path) -> None:
    """Names for the tables that an earlier process made; what it did not get ready is removed."""
    for schema in (folder / "warehouse").glob("*.db"):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema.stem}")
        for table in schema.iterdir():
            if any(table.glob("_delta_log/*.json")):
                spark.sql(f"CREATE TABLE IF NOT EXISTS {schema.stem}.{table.name} USING delta LOCATION '{table}'")
            else:
                shutil.rmtree(table)


def main(folder: Path) -> None:
    """Works until its input ends."""
    spark = cluster(folder)
    register(spark, folder)
    print("ready", flush=True)
    patch = pytest.MonkeyPatch()
    for number, line in enumerate(sys.stdin):
        patch.undo()
        if number % 2:
            patch.setattr("kafka_s3.spark.LOCAL_RECORDS", 0)
        settings = resolved(load(Path(line.strip())))
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {settings.text('state.table').partition('.')[0]}")
        with closing(opened_states(settings, warn=print)) as states:
            try:
                print("done", states.merger.advance("orders", states.log), flush=True)
            except TableError as error:
                print("refused", error, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
