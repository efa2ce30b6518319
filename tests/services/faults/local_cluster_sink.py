"""A real sink on a Spark with executors of its own (`local-cluster`): `python local_cluster_sink.py FOLDER VICTIM=CONFIG...`.

For each configuration the victim (a Python worker, or the JVM of an executor) is killed in the middle of the first task; Spark tries the
task again on its own, and the sink works off what is there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.model.files import Reason
from kafka_s3.run.java.jars import spark_kafka_jars
from kafka_s3.run.java.java import java_environment
from kafka_s3.run.spark import source
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.spark.session import LOCAL
from tests.services.faults import dying_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cluster(folder: Path) -> SparkSession:
    """Two executors of one core each, in processes of their own. Their folders lie in `folder`."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ.update(java_environment())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_HOME"] = str(spark_home(folder / "spark", Path(pyspark.__file__).parent))
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("executor deaths")
    for key, value in LOCAL.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.executor.memory", "512m").config("spark.driver.memory", "512m")
    builder = builder.config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    session: SparkSession = builder.config("spark.jars", ",".join(map(str, spark_kafka_jars()))).getOrCreate()
    return session


def spark_home(home: Path, installed: Path) -> Path:
    """A home from which executors are launched: what is installed, but their logs go to `home`, not into the installation."""
    home.mkdir()
    for part in installed.iterdir():
        (home / part.name).symlink_to(part)
    return home


def main(folder: Path, *deaths: str) -> None:
    """Runs each sink to its end."""
    cloudpickle.register_pickle_by_value(dying_task)
    spark = cluster(folder)
    for death in deaths:
        victim, _, path = death.partition("=")
        settings = resolved(load(Path(path)))
        doomed = dying_task.dying_reading(victim, folder / f"{victim}-traces")
        source.ReadingTask = doomed  # type: ignore[assignment,misc]
        sink = sink_on_spark(settings, spark)
        run_available_now(sink, backoff_ms=500, wait=waiting(Event()), close=Reason.FLUSH_NOW)
        print(f"{settings.name} is done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
