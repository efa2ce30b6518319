"""What does a record cost, Kafka JSON to Parquet zstd, against plain Spark and against reading alone? Ratios of one run.

KAFKA_S3_BENCH_RECORDS (4,000,000) and KAFKA_S3_BENCH_ROUNDS (3) size it. Broker and S3 are not counted; plain Spark writes to local disk,
which spares it S3. Nothing here asserts a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import pytest

from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.local.s3 import EmbeddedS3, Engine
from tests.benchmarks.measuring import Cost, spread
from tests.benchmarks.orders_topic import FIELDS, Topic, produce, produce_buckets
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import (
    BUCKET,
    PARTITIONS,
    RECORDS,
    ROUNDS,
    fetched,
    new_topic,
)

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

WARM_SHARE = 4
OURS = ("sink, value.schema", "sink, inferred schema")
PLAIN = ("plain Spark", "plain Spark, V2 reader")
CEILING = ("Kafka -> noop", "Kafka -> noop, V2 reader")
DIRECTORIES = 1000


def test_json_to_parquet_against_plain_spark_and_reading_alone(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    warm = _topic(broker, "warm", max(RECORDS // WARM_SHARE, PARTITIONS))
    topic = _topic(broker, "orders", RECORDS)
    cold: dict[str, Cost] = {}
    costs: dict[str, list[Cost]] = {name: [] for name in (*OURS, *PLAIN, *CEILING)}
    place = {name: f"{objects.endpoint_url}/{BUCKET}" if name in OURS else str(tmp_path) for name in costs}
    with ExitStack() as stack:
        sides = [stack.enter_context(Side(name, tmp_path / f"side-{at}.log")) for at, name in enumerate(costs)]
        for turn in range(ROUNDS):
            for side in sides:
                warming = side.run(_request(warm, f"{side.name}-warm-{turn}", broker, place=place[side.name]))
                cold.setdefault(side.name, warming.cost)
                request = _request(topic, f"{side.name}-{turn}", broker, place=place[side.name])
                costs[side.name].append(side.run(request).cost)
                if side.name in OURS:
                    _found_again(topic, fetched(objects, request.name, tmp_path))
                elif side.name in PLAIN:
                    _found_again(topic, sorted((tmp_path / request.name).glob("*.parquet")))
    _print_table(topic, costs, objects.engine)
    _print_cold(warm, cold)


def test_memory_of_a_task_with_a_thousand_open_directories(
    broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic = produce_buckets(
        broker.bootstrap_servers, new_topic(broker, "buckets", 1), records=RECORDS // 4, buckets=DIRECTORIES
    )
    many = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "bucket",
        "flush.size": str(topic.records), "value.schema.inference": "true",
    }  # fmt: skip
    place = f"{objects.endpoint_url}/{BUCKET}"
    with Side("sink, many directories", tmp_path / "side.log") as side:
        answer = side.run(Request(topic.name, "many", broker.bootstrap_servers, place, many))
    files = fetched(objects, "many", tmp_path)
    assert len(files) == DIRECTORIES
    _found_again(topic, files)
    print(
        f"\nMemory: {DIRECTORIES:,} open directories in one topic-partition, {topic.records:,} records, Parquet zstd: the task's Python "
        f"process peaks at {answer.peak_bytes / 1e6:,.0f} MB resident (goal: below 600 MB); "
        f"{answer.cost.cpu_seconds:.1f} CPU-s cold, {answer.cost.wall_seconds:.1f} s"
    )


def _topic(broker: EmbeddedKafka, name: str, records: int) -> Topic:
    servers = broker.bootstrap_servers
    return produce(
        servers, new_topic(broker, name, PARTITIONS), records=records - records % PARTITIONS, partitions=PARTITIONS
    )


def _request(topic: Topic, name: str, broker: EmbeddedKafka, *, place: str) -> Request:
    """A flush size that divides the partition, so that nobody has an open tail to read twice."""
    safe = "".join(letter if letter.isalnum() else "-" for letter in name)
    flush = {"flush.size": str(min(500_000, topic.records // PARTITIONS))}
    return Request(topic.name, safe, broker.bootstrap_servers, place, flush)


def _found_again(topic: Topic, files: list[Path]) -> None:
    """All records, once, in all columns."""
    records = ids = quantities = 0
    for file in files:
        content = pq.ParquetFile(file)
        assert set(content.schema_arrow.names) - {"bucket"} == set(FIELDS)
        table = content.read(["id", "quantity"])
        records += table.num_rows
        ids += table.column("id").to_numpy().sum()
        quantities += table.column("quantity").to_numpy().sum()
        assert content.metadata.row_group(0).column(0).compression == "ZSTD"
    assert (records, ids, quantities) == (topic.records, topic.id_sum, topic.quantity_sum)


def _print_table(topic: Topic, costs: dict[str, list[Cost]], engine: Engine) -> None:
    rate = {name: [topic.records / cost.cpu_seconds / 1e6 for cost in runs] for name, runs in costs.items()}
    print(
        f"\n{topic.records:,} JSON records of {topic.value_bytes / topic.records:.0f} bytes, {PARTITIONS} partitions, {ROUNDS} rounds in "
        f"turns, before each run the side reads a quarter as many to warm up; objects in {engine}, plain Spark to local disk\n"
    )
    print(f"{'':28}{'M records per CPU-second':>27}   {'wall (informational)':>22}")
    print(f"{'':28}{'min / median / max':>27}   {'median':>22}")
    for name, runs in costs.items():
        print(f"{name:28}{spread(rate[name]):>27}   {median(cost.wall_seconds for cost in runs):>20.1f} s")
    print(f"\n{'ratio, per CPU-second':28}" + "".join(f"{name:>27}" for name in OURS))
    for other in (*PLAIN, *CEILING):
        ratios = [[a / b for a, b in zip(rate[name], rate[other], strict=True)] for name in OURS]
        print(f"{'to ' + other:28}" + "".join(f"{spread(ratio):>27}" for ratio in ratios))


def _print_cold(topic: Topic, costs: dict[str, Cost]) -> None:
    """The first pass of each process: JIT, imports, and the start of Spark's Python workers, which end when idle for a minute."""
    print(f"\nFor information, the first pass of each side ({topic.records:,} records, everything cold), CPU-seconds:")
    print("  " + ", ".join(f"{name} {cost.cpu_seconds:.1f}" for name, cost in costs.items()))
