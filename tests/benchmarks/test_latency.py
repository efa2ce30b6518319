"""How long after the record that completes a file is its object visible? At 1,000 records a second (KAFKA_S3_BENCH_LATENCY_RATE).

The time of the completing record is the latest in its file; the object is seen by looking at the server's folder every few milliseconds.
Nothing here asserts a time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from kafka_s3.testing.services.kafka import EmbeddedKafka
from kafka_s3.testing.services.s3 import EmbeddedS3
from tests.benchmarks.steady_traffic import RunningSink, Traffic, configuration
from tests.benchmarks.support import BUCKET, new_topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
RATE = int(os.environ.get("KAFKA_S3_BENCH_LATENCY_RATE", "1000"))
PARTITIONS = 2
RECORDS_A_FILE = 2 * RATE // PARTITIONS
SECONDS = 100
LOOK_S = 0.005


def test_from_the_record_that_completes_a_file_to_the_visible_object(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, "latency", PARTITIONS), broker.bootstrap_servers
    config = configuration(servers, objects, topic, **{"flush.size": str(RECORDS_A_FILE)})
    traffic, seen = Traffic(servers, topic, rate=RATE, partitions=PARTITIONS), dict[str, float]()
    with RunningSink(objects, config, tmp_path) as sink:
        traffic.send(2 * PARTITIONS * RECORDS_A_FILE)
        traffic.flush()
        sink.has_read(traffic.sent)  # it has started, and its workers are warm
        before = found(objects, topic)
        with traffic:
            began = time.monotonic()
            while time.monotonic() - began < SECONDS:
                for key in found(objects, topic) - before - seen.keys():
                    seen[key] = time.time()
                time.sleep(LOOK_S)
        files = [file for entry in sink.entries() for file in entry.get("files", ())]
        completed = {file["key"]: file["max_timestamp"] / 1000 for file in files}
    late = [at - completed[key] for key, at in seen.items()]
    median, most = np.percentile(late, [50, 99])
    print(
        f"\nLatency at {RATE:,} records/s, {RECORDS_A_FILE:,} a file: {len(late)} objects, "
        f"median {median:.2f} s, 99th percentile {most:.2f} s, longest {max(late):.2f} s"
    )


def found(objects: EmbeddedS3, topic: str) -> set[str]:
    """The keys of the objects that are visible now."""
    bucket = objects.folder / BUCKET
    return {str(path.relative_to(bucket)) for path in (bucket / topic).rglob("*.json.gz")}
