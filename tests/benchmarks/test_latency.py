"""How long after the record that completes a file is its object visible? At 1,000 records a second (KAFKA_S3_BENCH_LATENCY_RATE).

Alone, and beside a backlog of another topic in the same sink (KAFKA_S3_BENCH_BACKLOG records). The time of the completing record is the
latest in its file; the object is seen by looking at the server's folder every few milliseconds. Nothing here asserts a time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.steady_traffic import RunningSink, Traffic, configuration
from tests.benchmarks.support import BUCKET, PARTITIONS, new_topic
from tests.benchmarks.topics import produce_json
from tests.support.waiting import eventually

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
RATE = int(os.environ.get("KAFKA_S3_BENCH_LATENCY_RATE", "1000"))
BACKLOG = int(os.environ.get("KAFKA_S3_BENCH_BACKLOG", "8000000"))
OF_BACKLOG = "backlog"
LIVE_PARTITIONS = 2
RECORDS_A_FILE = 2 * RATE // LIVE_PARTITIONS
WARM_UP = 2 * LIVE_PARTITIONS * RECORDS_A_FILE
SECONDS = 100
LOOK_S = 0.005


@pytest.mark.parametrize("backlog", [0, BACKLOG], ids=["alone", "beside a backlog"])
def test_from_the_record_that_completes_a_file_to_the_visible_object(
    backlog: int, broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, f"latency-{backlog}", LIVE_PARTITIONS), broker.bootstrap_servers
    config = configuration(servers, objects, topic, **{"flush.size": str(RECORDS_A_FILE)})
    if backlog:
        produce_json(servers, records=backlog, partitions=PARTITIONS, name=new_topic(broker, OF_BACKLOG, PARTITIONS))
        config["topics"] += f",{OF_BACKLOG}"
    traffic, seen = Traffic(servers, topic, rate=RATE, partitions=LIVE_PARTITIONS), dict[str, float]()
    with RunningSink(objects, config, tmp_path) as sink:
        traffic.send(WARM_UP)
        traffic.flush()
        eventually(  # it has started, and its workers are warm
            lambda: len(found(objects, topic)) >= WARM_UP // RECORDS_A_FILE, what=sink.process.output, seconds=300
        )
        before, began, read = found(objects, topic), time.monotonic(), sink.total("read")
        with traffic:
            while time.monotonic() - began < SECONDS and (not backlog or sink.total("read") < backlog):
                look_until = time.monotonic() + 1
                while time.monotonic() < look_until:
                    for key in found(objects, topic) - before - seen.keys():
                        seen[key] = time.time()
                    time.sleep(LOOK_S)
        seconds, read, spent = time.monotonic() - began, sink.total("read") - read, sink.cpu_seconds()
        files = [file for entry in sink.entries() for file in entry.get("files", ())]
        completed = {file["key"]: file["max_timestamp"] / 1000 for file in files}
    late = [at - completed[key] for key, at in seen.items()]
    median, most = np.percentile(late, [50, 99])
    print(
        f"\nLatency at {RATE:,} records/s, {RECORDS_A_FILE:,} a file, {backlog:,} waiting: {len(late)} objects, "
        f"median {median:.2f} s, 99th percentile {most:.2f} s, longest {max(late):.2f} s; "
        f"{read / seconds:,.0f} records/s in all, {spent:.0f} CPU-seconds from the start on"
    )


def found(objects: EmbeddedS3, topic: str) -> set[str]:
    """The keys of the topic's objects that are visible now."""
    bucket = objects.folder / BUCKET
    return {str(path.relative_to(bucket)) for path in (bucket / topic / topic).rglob("*.json.gz")}
