"""A sink on a Spark that has Amazon's login module, read by Spark's own source: `python msk_sink.py CONFIG`. Logs in by its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Event

from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.model.files import Reason
from kafka_s3.run.java.jars import kafka_package, spark_jars
from kafka_s3.run.java.java import java_environment
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.spark.session import LOCAL

MODULE = "software.amazon.msk:aws-msk-iam-auth:2.3.2"


def main(config: Path) -> None:
    """Works off what is there."""
    os.environ |= java_environment() | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("by iam")
    for key, value in (LOCAL | {"spark.driver.memory": "512m"}).items():
        builder = builder.config(key, value)
    jars = ",".join(map(str, spark_jars([kafka_package(), MODULE])))
    spark = builder.config("spark.jars", jars).getOrCreate()
    run_available_now(
        sink_on_spark(resolved(load(config)), spark), backoff_ms=500, wait=waiting(Event()), close=Reason.FLUSH_NOW
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
