"""A bucket of the dashboard's tests: the product's real loop over a cluster in memory, its objects copied to an S3 server."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import REGION, EmbeddedS3
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of

HOUR_MS = 3_600_000
INJECTION = b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
FORMULA = b"=HYPERLINK(1)"
TOPICS = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))
HOURLY = {
    "topics": "orders,payments",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": str(HOUR_MS),
    "locale": "en",
    "timezone": "UTC",
    "timestamp.extractor": "Record",
    "flush.size": "5",
    "rotate.schedule.interval.ms": str(2 * HOUR_MS),
    "state.prefix": "_kafka_s3",
    **TOLERANT,
}


def world(**config: str) -> World:
    """A sink by the hour on three topic-partitions, not started."""
    return World({**HOURLY, **config}, topics=TOPICS)


def worked(hours: int = 6, **config: str) -> World:
    """Some hours of work: an hour without records, a late one, three dead letters (a script, a formula, a broken value)."""
    made = world(**config)
    sink = made.start()
    offsets = dict.fromkeys(TOPICS, 0)

    def add(tp: TopicPartition, value: bytes, at_ms: int, key: bytes | None = None) -> None:
        made.kafka.add(tp, MemoryRecord(offsets[tp], at_ms, key, value, (("source", b"test"),)))
        offsets[tp] += 1

    for hour in range(hours):
        made.now = START_MS + hour * HOUR_MS
        for tp in TOPICS:
            for number in range(0 if hour == 3 else 7):
                add(tp, json.dumps({"n": number}).encode(), made.now + number)
        if hour == 4:
            add(TOPICS[0], INJECTION, made.now, key=FORMULA)
            add(TOPICS[0], FORMULA, made.now)
            add(TOPICS[2], b"\xff\x00broken", made.now)
            add(TOPICS[1], b'{"n":"late"}', START_MS + HOUR_MS)
        sink.poll_and_commit()
    made.now += 2 * HOUR_MS
    sink.poll_and_commit()
    return made


def beat(made: World, *, phase: Phase = Phase.RUNNING, **more: Any) -> None:
    """A heartbeat of now."""
    paths = state_paths(made.settings)
    lag = {tp: 0 for tp in TOPICS}
    beat = Heartbeat(
        paths.sink, "run", "host", 7, "0.1.0", started_ms=made.now, interval_ms=600_000, phase=phase, beat_ms=made.now,
        epoch=1, **{"lag": lag, **more},
    )  # fmt: skip
    made.store.put(paths.heartbeat(), beat.to_json())


def copied(store: MemoryStore, client: Any, bucket: str, *, below: str = "") -> None:
    """The objects, in a real bucket."""
    items = [(key, data) for key, data in store.objects.items() if key.startswith(below)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: client.put_object(Bucket=bucket, Key=item[0], Body=item[1]), items))


@dataclass(frozen=True)
class Tabled:
    """A bucket with a sink whose topic has a Delta table, and the entries of its log that the table's versions hold."""

    bucket: str
    store: S3Store
    entries: tuple[int, ...]


def with_table(s3: EmbeddedS3, bucket: str, commits: int = 3) -> Tabled:
    """That many commits of the product's real loop, each a version of a table on a real S3 server."""
    s3.create_bucket(bucket)
    settings = settings_of({
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true",
        "delta.enable": "true", "flush.size": "2", "s3.region": REGION, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "state.prefix": "_kafka_s3",
    })  # fmt: skip
    store = S3Store(store_options(settings))
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    kafka.create(ORDERS)
    sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
    sink.open()
    for number in range(commits):
        for offset in (2 * number, 2 * number + 1):
            kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps({"n": offset}).encode()))
        sink.poll_and_commit()
    entries = CommitLog(store, state_paths(settings), clock_ms=lambda: START_MS).entries()
    return Tabled(bucket, store, tuple(entry.version for entry in entries if entry.files))
