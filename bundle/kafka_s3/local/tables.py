"""What would the sink make of these records as a Delta table? The real sink over records in memory; the table is a folder, for tests.

No broker, no cluster, no cloud: the configuration of production is run as it is, but for the places that it names.
"""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from kafka_s3.config.validate import resolved, validate
from kafka_s3.local.memory import MemoryKafka, MemoryRecord
from kafka_s3.local.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from kafka_s3.model.clock import now_ms
from kafka_s3.model.files import Reason
from kafka_s3.model.observer import Observer
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.storage.store import ObjectStore
from kafka_s3.wiring.pipeline import make_pipeline
from kafka_s3.wiring.sink import build_sink

OURS: Final = {
    "delta.enable": "true", "delta.writer": "delta-rs", "delta.table.name": "",
    "s3.region": REGION, "kafka.bootstrap.servers": "memory:9092",
    "aws.access.key.id": ACCESS_KEY, "aws.secret.access.key": SECRET_KEY,
}  # fmt: skip
"""What a test overrides of a configuration, beside bucket and address."""
_numbers = itertools.count(1)


def delta_tables_of(
    config: Mapping[str, str],
    records: Mapping[str, Iterable[bytes | None]],
    folder: Path,
    *,
    timestamp_ms: int | None = None,
    observer: Observer | None = None,
) -> dict[str, Path]:
    """The Delta tables of topics, as folders below `folder`: the sink of `config` over the values of each topic's records, in order.

    A topic whose records are all dead letters has no table. `timestamp_ms` is the records' own (None: now). Raises what the sink raises:
    ConfigError, RecordError where a record stops it.
    """
    now = now_ms()
    s3, bucket = _server(), f"delta-tables-{next(_numbers)}"
    s3.create_bucket(bucket)
    places = {"s3.bucket.name": bucket, "store.url": s3.endpoint_url}
    settings = resolved(validate({**config, **OURS, **places}).usable())
    with closing(S3Store(store_options(settings))) as store:
        kafka = MemoryKafka(lambda: make_pipeline(settings), store)
        for topic, values in records.items():
            kafka.create(TopicPartition(topic, 0))
            for offset, value in enumerate(values):
                at = now if timestamp_ms is None else timestamp_ms
                kafka.add(TopicPartition(topic, 0), MemoryRecord(offset, at, None, value))
        sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: now, observer=observer)
        sink.open()
        sink.poll()
        sink.drain(close=Reason.FLUSH_NOW)
        found = {topic: _copy(store, settings.text("topics.dir"), topic, folder) for topic in records}
    return {topic: path for topic, path in found.items() if (path / "_delta_log").is_dir()}


@cache
def _server() -> EmbeddedS3:
    """One S3 server for all tables of this process, with which it ends: starting it costs more than most tests."""
    server = EmbeddedS3()
    server.start()
    atexit.register(server.stop)
    return server


def _copy(store: ObjectStore, topics_dir: str, topic: str, folder: Path) -> Path:
    prefix = f"{topics_dir}/{topic}/" if topics_dir.strip() else f"{topic}/"
    for info in store.list(prefix):
        path = folder / topic / info.key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.key))
    return folder / topic
