"""What does the run that others publish take here: records of 144 bytes in 5 partitions, to a Delta table? And does its size matter?

KAFKA_S3_BENCH_SIZES (1000000,16000000,100000000) are the records of the topics; the last takes 17 GB of disk while it runs. After each run
`kafka-s3 verify` has to find every offset in one object, and the table has to have as many rows. Nothing here asserts a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.benchmarks.measuring import Cost
from tests.benchmarks.paths import CONFLUENT, CONNECT, OURS, READ_ONLY, SINK
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import BUCKET, new_topic
from tests.benchmarks.topics import CONNECT_SCHEMA, value

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(14_400)]

SIZES = [int(size) for size in os.environ.get("KAFKA_S3_BENCH_SIZES", "1000000,16000000,100000000").split(",")]
PARTITIONS = 5
VALUE_BYTES = 144
DIFFERENT = 1_000_000
"""So many orders are made; they come in turns, each once in a file of that many records."""
CHUNK = 10_000
WAITING = 400_000
TB = 1e12
OPTIONS = {
    "value.converter": f"{CONNECT}json.JsonConverter", "value.converter.schemas.enable": "false",
    "value.schema": CONNECT_SCHEMA, "format.class": f"{CONFLUENT}s3.format.parquet.ParquetFormat", "parquet.codec": "zstd",
    "delta.enable": "true", "flush.size": "1000000", "kafka.reader": "tasks",
}  # fmt: skip


def test_the_run_that_others_publish(broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path) -> None:
    orders = [{"value": order(number)} for number in range(DIFFERENT)]
    assert {len(one["value"]) for one in orders} == {VALUE_BYTES}
    found: dict[int, tuple[Cost, float]] = {}
    with Side(OURS, tmp_path / "ours.log") as side:
        for number, records in enumerate([SIZES[0], *SIZES]):  # the first run warms up, and does not count
            topic = new_topic(broker, f"published-{number}", PARTITIONS)
            began = time.monotonic()
            fill(broker.bootstrap_servers, topic, orders, records)
            print(f"{records:,} records produced in {time.monotonic() - began:.0f} s", flush=True)
            place = f"{objects.endpoint_url}/{BUCKET}"
            each = (records // PARTITIONS,) * PARTITIONS
            few = (min(records, 400_000) // PARTITIONS,) * PARTITIONS
            side.run(Request(READ_ONLY, topic, few, f"warm-{topic}", broker.bootstrap_servers, place, {}))
            cost = side.run(Request(SINK, topic, each, topic, broker.bootstrap_servers, place, OPTIONS))
            print(f"{records:,} records: {cost}", flush=True)
            verified = verify(topic, objects, broker.bootstrap_servers, tmp_path)
            assert rows(objects, topic) == records
            found[records] = cost, verified
    show(found)


def order(number: int) -> bytes:
    """The order of that number, with blanks where it is shorter than it has to be."""
    return value(number).replace(b"espresso beans", b"espresso")[:-1].ljust(VALUE_BYTES - 1) + b"}"


def fill(servers: str, topic: str, orders: list[dict[str, Any]], records: int) -> None:
    """Sends the orders in turns, a chunk to each partition after the other."""
    producer = Producer({
        "bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "queue.buffering.max.messages": 10 * WAITING,
        "queue.buffering.max.kbytes": 1 << 20,
    })  # fmt: skip
    for number in range(records // CHUNK):
        first = number // PARTITIONS * CHUNK % DIFFERENT
        assert producer.produce_batch(topic, orders[first : first + CHUNK], partition=number % PARTITIONS) == CHUNK
        while len(producer) > WAITING:
            producer.poll(0.02)
    assert producer.flush(300) == 0, "the broker did not take all records"


def verify(name: str, objects: EmbeddedS3, servers: str, scratch: Path) -> float:
    """Runs `kafka-s3 verify` on the sink; returns how long it took."""
    configuration = {
        "name": name, "connector.class": f"{CONFLUENT}s3.S3SinkConnector", "topics": name, "topics.dir": name,
        "kafka.bootstrap.servers": servers, "store.url": objects.endpoint_url, "s3.bucket.name": BUCKET, "s3.region": REGION,
        "storage.class": f"{CONFLUENT}s3.storage.S3Storage", **OPTIONS,
    }  # fmt: skip
    (scratch / f"{name}.json").write_text(json.dumps(configuration))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "kafka_s3", "verify", scratch / f"{name}.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout.strip().splitlines()[-1], flush=True)
    return time.monotonic() - began


def rows(objects: EmbeddedS3, name: str) -> int:
    """The rows of the sink's table, by its own statistics."""
    options = {
        "aws_endpoint_url": objects.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
    }  # fmt: skip
    table = DeltaTable(f"s3://{BUCKET}/{name}/{name}", storage_options=options)
    return int(sum(table.get_add_actions(flatten=True).column("num_records").to_pylist()))


def show(found: dict[int, tuple[Cost, float]]) -> None:
    print(
        f"\n{'records':>14}{'us of CPU each':>16}{'a second':>12}{'a second and core':>19}{'core-hours a TB':>17}{'verify, s':>11}"
    )
    for records, (cost, verified) in found.items():
        hours = cost.cpu_seconds / (records * VALUE_BYTES) * TB / 3600
        print(
            f"{records:>14,}{cost.cpu_seconds / records * 1e6:>16.2f}{records / cost.wall_seconds:>12,.0f}"
            f"{records / cost.cpu_seconds:>19,.0f}{hours:>17.1f}{verified:>11.1f}"
        )
