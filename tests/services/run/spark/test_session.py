"""Do the workers that a session starts with serve its queries, too? Does Spark end where nothing is read, and begin again?"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_s3.run.spark.session import begun_jvm
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually


def test_functions_of_dataframes_run_in_workers_of_the_daemon_that_was_started_with_the_session(
    spark: SparkSession,
) -> None:
    """A daemon serves functions of one environment of variables; a second one would import all that it needs for two seconds."""

    def daemon(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(daemon, "daemon long").collect()
    assert spark.sparkContext.parallelize(range(1), 1).map(lambda _: os.getppid()).collect() == [row.daemon]


@pytest.mark.nightly
def test_spark_ends_where_nothing_is_read_and_begins_again_with_the_next_records(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A sink with the defaults is one for numbers: its session never had more than a context, and its workers no pandas."""
    name, path = topic("seldom", 2), tmp_path / "sink.json"
    config = here.config(name, **{"flush.size": "3", "spark.idle.ms": "1000", "poll.interval.ms": "100"})
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--log-format", "json", "-v", "--cores", "1"]
    with SinkProcess(words, tmp_path / "run.log") as sink:
        for first in (0, 6):
            produce(here.servers, name, [Given(document(n=n), n % 2) for n in range(first, first + 6)])
            eventually(lambda: len(here.bucket.data_keys()) == (first + 6) // 3, what=sink.output)  # noqa: B023
            eventually(lambda: children_of(sink) == [], what=sink.output)
        sink.signal(signal.SIGTERM)
        assert sink.wait() == 0, sink.output()
    events = [json.loads(line)["event"] for line in sink.output().splitlines() if line.startswith("{")]
    assert sum("Spark has ended" in event for event in events) >= 2, sink.output()


def children_of(sink: SinkProcess) -> list[psutil.Process]:
    """The processes that it has started and that still live."""
    assert sink.process is not None
    return [one for one in psutil.Process(sink.process.pid).children(recursive=True) if lives(one)]


def lives(process: psutil.Process) -> bool:
    """Whether it runs; it may be gone since it was seen."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_jvm_that_no_session_took_is_ended(spark: SparkSession) -> None:
    """As that of a start which is refused: tests and other callers of the command live on, and would keep it for nothing."""
    with begun_jvm(name="for nothing") as jvm:
        assert jvm is not None
        gateway = jvm.result()
        assert gateway is not None
        assert gateway.proc.poll() is None
    assert gateway.proc.poll() is not None
    assert gateway.proc.stdin.closed
    assert spark.range(3).count() == 3
