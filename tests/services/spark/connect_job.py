"""The same calls by Spark Connect: a client without a JVM of its own. `python connect_job.py CONFIG TOPIC FOLDER` prints what it read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_s3.run.java.java import java_environment
from kafka_s3.spark import read_committed, register


def main(config: str, topic: str, folder: Path) -> None:
    os.environ.update({**java_environment(), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})
    spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    batch = sorted(row.n for row in read_committed(spark, config, topic).collect())
    stream = spark.readStream.format(register(spark, config)).option("topic", topic).load()
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder / "table")).awaitTermination()
    streamed = sorted(row.n for row in spark.read.parquet(str(folder / "table")).collect())
    print(f"RESULT {json.dumps([type(spark).__module__, batch, streamed])}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
