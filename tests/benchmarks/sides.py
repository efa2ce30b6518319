"""Who does the work that is measured? Each side is a process of its own with its own Spark; it runs on command and tells its cost.

python -m tests.benchmarks.sides SIDE     (requests as JSON lines on stdin, answers on stdout)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Any, Self

from tests.benchmarks.measuring import Cost, cost_of
from tests.benchmarks.paths import (
    AVRO_BY_SPARK,
    JSON_BY_SPARK,
    NOOP,
    PLAIN_SPARK,
    READ_ONLY,
    SINK,
    TASKS,
)
from tests.benchmarks.topics import SPARK_SCHEMA, avro_schema
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWER = "ANSWER "


@dataclass(frozen=True, slots=True)
class Request:
    """One run over a topic: the kind of `work`, who reads, the topic with the records of each of its partitions, a unique `name`.

    `place` is the bucket's or the folder's URL, `options` go to the sink; `new_workers` has Spark start its Python workers anew first.
    """

    work: str
    topic: str
    partitions: tuple[int, ...]
    name: str
    servers: str
    place: str
    options: Mapping[str, str]
    reader: str = TASKS
    new_workers: bool = False


class Side:
    """A side's process, kept while the sides take turns, so that its JVM stays warm. A context manager."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log
        self._output: IO[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._output = self._log.open("w")
        path = os.pathsep.join([str(ROOT), str(ROOT / "bundle")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.sides", self.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output, text=True, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._output is not None
        self._process.communicate()  # the end of its input is the end of the process
        self._output.close()

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self._process is not None
        return self._process.pid

    def run(self, request: Request) -> Cost:
        """Has the side do its work once."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(request)) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith(ANSWER):
                return Cost(**json.loads(line.removeprefix(ANSWER)))
        raise AssertionError(f"{self.name} ended:\n{self._log.read_text()[-4000:]}")


def sink(spark: SparkSession, request: Request) -> None:
    """Our sink, from `earliest` until everything is in closed, published objects."""
    from kafka_s3.connect.config.validate import resolved, validate
    from kafka_s3.engine.loop.runner import run_available_now, waiting
    from kafka_s3.model.files import Reason
    from kafka_s3.run.spark.launch import sink_on_spark

    url, _, bucket = request.place.rpartition("/")
    raw = {
        "name": request.name, "connector.class": "io.confluent.connect.s3.S3SinkConnector", "tasks.max": "64",
        "topics": request.topic, "topics.dir": request.name, "kafka.bootstrap.servers": request.servers, "store.url": url,
        "s3.bucket.name": bucket, "s3.region": "us-east-1", "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "errors.tolerance": "none", "behavior.on.null.values": "fail", "kafka.reader": request.reader, **request.options,
    }  # fmt: skip
    settings = resolved(validate({key: text for key, text in raw.items() if text}).usable())
    run_available_now(sink_on_spark(settings, spark), backoff_ms=1000, wait=waiting(Event()), close=Reason.FLUSH_NOW)


def read_only(spark: SparkSession, request: Request) -> None:
    """Every record into Arrow in Python, by the tasks' reader or by Spark's, and nothing else."""
    if request.reader == TASKS:
        shares = tuple((number, records) for number, records in enumerate(request.partitions))
        numbers = spark.range(0, len(shares), 1, len(shares))
        counted = numbers.mapInArrow(partial(_read_by_task, request.servers, request.topic, shares), "records long")
    else:
        counted = from_kafka(spark, request).select("offset", "timestamp", "value").mapInArrow(_count, "records long")
    assert sum(row.records for row in counted.collect()) == sum(request.partitions)


def _read_by_task(
    servers: str, topic: str, shares: tuple[tuple[int, int], ...], numbers: Iterable[Any]
) -> Iterator[Any]:
    from kafka_s3.kafka.reader.reader import RangeReader
    from kafka_s3.model.offsets import OffsetRange, TopicPartition

    for batch in numbers:
        ranges = [
            OffsetRange(TopicPartition(topic, shares[at][0]), 0, shares[at][1]) for at in batch.column(0).to_pylist()
        ]
        for _, batches in RangeReader(servers, {}).read_ranges(ranges):
            yield from _count(batches)


def _count(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"records": [sum(len(batch) for batch in batches)]})


def from_kafka(spark: SparkSession, request: Request) -> DataFrame:
    """Spark's own newer source, with the sink's settings for fetching."""
    from kafka_s3.run.spark.source import FETCH

    spark.conf.set("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
    return (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in FETCH.items()})
        .option("kafka.bootstrap.servers", request.servers)
        .option("subscribe", request.topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def json_by_spark(spark: SparkSession, request: Request) -> None:
    """JSON to Parquet as one writes it without us; to local disk, which spares it S3."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = from_kafka(spark, request).select(F.from_json(F.col("value").cast("string"), SPARK_SCHEMA).alias("v"))
    rows.select("v.*").write.option("compression", "zstd").parquet(f"{request.place}/{request.name}")


def avro_by_spark(spark: SparkSession, request: Request) -> None:
    """Avro to Parquet likewise: the magic byte and the id cut off, one schema for all."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro

    rows = from_kafka(spark, request).select(from_avro(F.expr("substring(value, 6)"), avro_schema()).alias("v"))
    rows.select("v.*").write.option("compression", "zstd").parquet(f"{request.place}/{request.name}")


def noop(spark: SparkSession, request: Request) -> None:
    """Reads the values and drops them: no user of Spark's source can be cheaper."""
    from_kafka(spark, request).select("value").write.format("noop").mode("overwrite").save()


WORK: dict[str, Callable[[Any, Request], None]] = {
    SINK: sink, READ_ONLY: read_only, NOOP: noop, JSON_BY_SPARK: json_by_spark, AVRO_BY_SPARK: avro_by_spark,
}  # fmt: skip


def forget_workers(spark: SparkSession, number: int) -> None:
    """Has Spark start its Python workers anew, and the process from which they come: it has one of those for each environment."""
    spark.sparkContext.environment["KAFKA_S3_BENCH_WORKERS"] = str(number)


def main(name: str) -> None:
    """Answers requests until the input ends, in the sink's local session."""
    from kafka_s3.run.java.jars import spark_jars
    from kafka_s3.run.spark.session import local_session

    if name == PLAIN_SPARK:
        jars = os.pathsep.join(str(jar) for jar in spark_jars(["org.apache.spark:spark-avro_2.13:4.0.0"]))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jars} pyspark-shell"
    spark = local_session(name=name)
    for number, line in enumerate(sys.stdin):
        request = Request(**json.loads(line))
        if request.new_workers:
            forget_workers(spark, number)
        cost = cost_of(partial(WORK[request.work], spark, request))
        print(ANSWER + json.dumps(asdict(cost)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
