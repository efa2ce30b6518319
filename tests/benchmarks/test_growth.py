"""Does a record cost the same however many there are, and wherever they go? Over the size of a topic, and over the number of directories.

KAFKA_S3_BENCH_SIZES (100000,1000000,4000000,16000000) are the records of the topics, KAFKA_S3_BENCH_DIRECTORY_RECORDS (1000000) those that
are spread over directories. Nothing here asserts a time.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.connect.records.heap import keep_memory
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport
from kafka_s3.run.spark.task import COLLECT_AFTER
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import Body
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.found import check_all_there, objects_of
from tests.benchmarks.paths import CONNECT, OURS, SINK, Route, routes
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import BUCKET, PARTITIONS, ROUNDS, new_topic
from tests.benchmarks.topics import produce_json, value

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

SIZES = [int(size) for size in os.environ.get("KAFKA_S3_BENCH_SIZES", "100000,1000000,4000000,16000000").split(",")]
ALMOST_NONE = 80
"""What a job over so few records takes is what it takes whatever their number."""
DIRECTORY_RECORDS = int(os.environ.get("KAFKA_S3_BENCH_DIRECTORY_RECORDS", "1000000"))
TURNS = 3
BATCH = 65_536
MIB = 1 << 20


def request(route: Route, name: str, records: int, *, servers: str, url: str) -> Request:
    options = {"flush.size": str(min(500_000, records // PARTITIONS)), **route.options}
    return Request(
        SINK, f"orders-{records}", (records // PARTITIONS,) * PARTITIONS, name, servers, f"{url}/{BUCKET}", options
    )


@pytest.mark.parametrize("path", ["json-to-json"])
def test_a_record_costs_the_same_in_a_small_topic_and_in_a_large_one(
    path: str, broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    (route,) = (route for route in routes() if route.name == path)
    sizes = [ALMOST_NONE, *SIZES]
    for records in sizes:
        new_topic(broker, f"orders-{records}", PARTITIONS)
        produce_json(broker.bootstrap_servers, records=records, partitions=PARTITIONS, name=f"orders-{records}")
    store = S3Store(StoreOptions(BUCKET, region="us-east-1", endpoint_url=objects.endpoint_url))
    make = partial(request, route, servers=broker.bootstrap_servers, url=objects.endpoint_url)
    spent: dict[int, list[float]] = {records: [] for records in sizes}
    with Side(OURS, tmp_path / "side.log") as side:
        side.run(make("warm-up", sizes[1]))
        for turn in range(ROUNDS):
            for records in sizes:
                name = f"growth-{records}-{turn}"
                spent[records].append(side.run(make(name, records)).cpu_seconds)
                check_all_there(objects_of(store, name), records)
    store.close()
    fixed = min(spent.pop(ALMOST_NONE))
    print(f"\n{path}: a job takes {fixed:.2f} s of CPU whatever its size; the least of {ROUNDS} rounds, CPU a record:")
    for records, seconds in spent.items():
        whole = min(seconds)
        print(
            f"{records:>12,}: {whole / records * 1e6:6.2f} us, without that {(whole - fixed) / records * 1e6:5.2f} us"
        )


class Forgetful(MemoryStore):
    """Takes parts, and forgets what is in them."""

    def upload_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        return super().upload_part(key, upload_id, number, b"")


PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}
FORMS: dict[str, dict[str, str]] = {"JSON": {}, "Parquet": PARQUET}


def configuration(form: str, memory: int) -> dict[str, str]:
    return {
        "name": "growth", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "orders",
        "kafka.bootstrap.servers": "nobody:1", "s3.bucket.name": BUCKET, "s3.region": "us-east-1", "flush.size": "1000000000",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "value.converter": f"{CONNECT}json.JsonConverter", "value.converter.schemas.enable": "false",
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "shelf",
        "errors.tolerance": "all", "writer.memory.bytes": str(memory), **FORMS[form],
    }  # fmt: skip


def batches(directories: int, bad_every: int) -> Iterator[pa.RecordBatch]:
    """Orders with a shelf, every so many one that is not JSON."""
    for first in range(0, DIRECTORY_RECORDS, BATCH):
        numbers = np.arange(first, min(first + BATCH, DIRECTORY_RECORDS))
        texts = [b'%s,"shelf":%d}' % (value(n)[:-1], n * 7919 % directories) for n in numbers.tolist()]
        if bad_every:
            texts[::bad_every] = [text[:-1] for text in texts[::bad_every]]
        yield pa.RecordBatch.from_pydict(
            {"offset": numbers, "timestamp": numbers + 1_700_000_000_000, "value": pa.array(texts, pa.binary())}
            | {"key": pa.nulls(len(texts), pa.binary()), "headers": pa.array([[]] * len(texts), HEADERS)}
        )


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def _warm() -> None:
    """The process has loaded and compiled what the work needs; it treats garbage and memory as Spark's workers do."""
    gc.set_threshold(COLLECT_AFTER)
    keep_memory()
    for form in FORMS:
        work_off([*batches(100, 0)], form, 128 * MIB)


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize(
    ("form", "directories", "bad_every"),
    [
        ("JSON", 1, 0), ("JSON", 100, 0), ("JSON", 100, 7), ("JSON", 10_000, 0), ("JSON", 10_000, 7), ("JSON", 100_000, 0),
        ("Parquet", 1, 0), ("Parquet", 100, 0), ("Parquet", 10_000, 0), ("Parquet", 10_000, 7), ("Parquet", 100_000, 0),
    ],
)  # fmt: skip
def test_memory_stays_within_its_bound_however_many_directories_there_are(
    form: str, directories: int, bad_every: int
) -> None:
    memory, costs, most, dead = 128 * MIB, list[float](), 0, 0
    made = [*batches(directories, bad_every)]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the first turn needs shows then
    opened = list[float]()
    for _ in range(TURNS):
        opened.append(work_off(made, form, memory, close=None)[1] / DIRECTORY_RECORDS * 1e6)
        report, spent, held = work_off(made, form, memory)
        assert report.read == DIRECTORY_RECORDS
        dead, written = len(report.dead), sum(file.records for file in report.files if file.role is Role.VALUE)
        assert dead + written == DIRECTORY_RECORDS
        costs.append(spent / report.read * 1e6)
        most = max(most, held)
    print(
        f"\n{form}, {directories:,} directories, {dead:,} dead letters of {DIRECTORY_RECORDS:,} records: {min(costs):.2f} to "
        f"{max(costs):.2f} us of CPU a record, {min(opened):.2f} to {max(opened):.2f} where files stay open; "
        f"{most / MIB:.0f} MiB more than at the beginning, writer.memory.bytes is {memory // MIB} MiB"
    )


def work_off(
    made: list[pa.RecordBatch], form: str, memory: int, close: Reason | None = Reason.FLUSH_NOW
) -> tuple[TaskReport, float, int]:
    """A task over the records; its report, CPU-seconds, and by how much the process was larger before some batch than at first (bytes)."""
    process, resident = psutil.Process(), list[int]()

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in made:
            resident.append(process.memory_info().rss)
            yield batch

    pipeline = make_pipeline(resolved(validate(configuration(form, memory)).usable()))
    topic_partition, deliveries = TopicPartition("orders", 0), (Delivery(1, DIRECTORY_RECORDS),)
    whole = Assignment(topic_partition, 0, DIRECTORY_RECORDS, deliveries, close=close)
    began = time.process_time()
    report = pipeline.process(whole, watched(), Forgetful())
    return report, time.process_time() - began, max(resident) - resident[0]
