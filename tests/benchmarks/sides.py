"""What is compared? Each side is a process of its own with its own Spark; it runs on command and tells its cost.

python -m tests.benchmarks.sides SIDE     (requests as JSON lines on stdin, answers on stdout)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Any, Self

from tests.benchmarks.measuring import Cost, PeakMemory, cost_of
from tests.benchmarks.orders_topic import CONNECT_SCHEMA, SPARK_SCHEMA
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWER = "ANSWER "


@dataclass(frozen=True, slots=True)
class Request:
    """One run over a topic; `name` is unique, `place` is the bucket's or the folder's URL, `options` go to the sink."""

    topic: str
    name: str
    servers: str
    place: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the run took."""

    cost: Cost
    peak_bytes: int


class Side:
    """A side's process, kept while the sides take turns, so that its JVM stays warm. A context manager."""

    module = "tests.benchmarks.sides"

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log
        self._output: IO[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._output = self._log.open("w")
        path = os.pathsep.join([str(ROOT), str(ROOT / "bundle")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, self.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output, text=True, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._output is not None
        self._process.communicate()  # the end of its input is the end of the process
        self._output.close()

    def run(self, request: Request) -> Answer:
        """Has the side do its work once."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(request)) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith(ANSWER):
                answer = json.loads(line.removeprefix(ANSWER))
                return Answer(Cost(**answer["cost"]), answer["peak_bytes"])
        raise AssertionError(f"{self.name} ended:\n{self._log.read_text()[-4000:]}")


def sink(spark: SparkSession, request: Request, extra: Mapping[str, str]) -> None:
    """Our sink, from `earliest` until everything is in closed, published objects."""
    from kafka_s3.config.validate import resolved, validate
    from kafka_s3.driver.runner import run_available_now, waiting
    from kafka_s3.model.files import Reason
    from kafka_s3.spark.launch import sink_on_spark

    url, _, bucket = request.place.rpartition("/")
    raw = {
        "name": request.name, "connector.class": "io.confluent.connect.s3.S3SinkConnector", "tasks.max": "64",
        "topics": request.topic, "topics.dir": request.name, "kafka.bootstrap.servers": request.servers, "store.url": url,
        "s3.bucket.name": bucket, "s3.region": "us-east-1", "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "parquet.codec": "zstd",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        "errors.tolerance": "none", "behavior.on.null.values": "fail", **extra, **request.options,
    }  # fmt: skip
    settings = resolved(validate(raw).usable())
    run_available_now(
        sink_on_spark(settings, spark), backoff_ms=1000, wait=waiting(Event()), close=Reason.FLUSH_NOW
    )  # fmt: skip


def from_kafka(spark: SparkSession, request: Request, *, tuned: bool = True) -> DataFrame:
    """Spark's own source, `tuned` with the sink's fetch settings."""
    from kafka_s3.spark.source import FETCH

    return (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in FETCH.items() if tuned})
        .option("kafka.bootstrap.servers", request.servers)
        .option("subscribe", request.topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def plain_spark(spark: SparkSession, request: Request) -> None:
    """What one writes without us; to local disk, which spares it S3."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = from_kafka(spark, request).select(F.from_json(F.col("value").cast("string"), SPARK_SCHEMA).alias("v"))
    rows.select("v.*").write.option("compression", "zstd").parquet(f"{request.place}/{request.name}")


def noop(spark: SparkSession, request: Request) -> None:
    """Reads the values and drops them: no reader of Spark's source can be cheaper."""
    from_kafka(spark, request).select("value").write.format("noop").mode("overwrite").save()


def on_the_newer_path(work: Callable[[Any, Request], None]) -> Callable[[Any, Request], None]:
    """The same through Spark's second Kafka reader (DataSource V2), which Spark 4 has but does not choose by default."""

    def run(spark: SparkSession, request: Request) -> None:
        spark.conf.set("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
        work(spark, request)

    return run


SIDES: dict[str, Callable[[Any, Request], None]] = {
    "sink, value.schema": lambda spark, request: sink(spark, request, {"value.schema": CONNECT_SCHEMA}),
    "sink, inferred schema": lambda spark, request: sink(spark, request, {"value.schema.inference": "true"}),
    "sink, many directories": lambda spark, request: sink(spark, request, {}),
    "plain Spark": plain_spark,
    "plain Spark, V2 reader": on_the_newer_path(plain_spark),
    "Kafka -> noop": noop,
    "Kafka -> noop, V2 reader": on_the_newer_path(noop),
}
WATCHED = frozenset({"sink, many directories"})
"""Sides whose Python workers' memory is watched while they run."""


def bare_session(name: str) -> SparkSession:
    """A local session as Spark itself makes it, with the Kafka connector and the time zone only."""
    from pyspark.sql import SparkSession

    from kafka_s3.local.jars import spark_kafka_jars
    from kafka_s3.local.java import java_environment

    os.environ |= java_environment() | {"PYSPARK_PYTHON": sys.executable}
    jars = ",".join(str(path) for path in spark_kafka_jars())
    builder = SparkSession.builder.master("local[*]").appName(name).config("spark.ui.enabled", "false")
    session: SparkSession = builder.config("spark.sql.session.timeZone", "UTC").config("spark.jars", jars).getOrCreate()
    return session


def main(name: str, *, bare: bool = False) -> None:
    """Answers requests until the input ends, in the sink's local session or in a bare one."""
    from kafka_s3.spark.session import local_session

    spark = bare_session(name) if bare else local_session(name=name)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        peak = PeakMemory()
        with peak if name in WATCHED else nullcontext():  # watching costs CPU itself
            cost = cost_of(partial(SIDES[name], spark, request))
        print(ANSWER + json.dumps({"cost": asdict(cost), "peak_bytes": peak.bytes}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
