"""A bucket, a cluster and a clock in memory, and the product's real loop between them."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import join_observers
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.configurations import STATE

START_MS = 1_705_312_800_000  # 2024-01-15T10:00:00Z
ORDERS = TopicPartition("orders", 0)
BASE = {
    "name": "orders",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "kafka.bootstrap.servers": "memory:9092",
    "s3.upload.threads": "1",  # a bucket in memory answers at once
}


def settings_of(config: Mapping[str, str | None]) -> Settings:
    """None takes a key of the base away."""
    return _checked(tuple((key, text) for key, text in {**BASE, **config}.items() if text is not None))


@cache
def _checked(pairs: tuple[tuple[str, str], ...]) -> Settings:
    """Checked once for all tests that ask for the same: settings are immutable."""
    return resolved(validate(dict(pairs)).usable())


class World:
    """`sink` is the driver at work; `start` makes the next one, as after a crash."""

    def __init__(
        self,
        config: Mapping[str, str | None],
        *,
        batch_size: int = 10_000,
        topics: Sequence[TopicPartition] = (ORDERS,),
    ):
        self.now = START_MS
        self.settings = settings_of(config)
        self.store = MemoryStore(lambda: self.now)
        self.kafka = MemoryKafka(self._pipeline, self.store, batch_size=batch_size)
        for tp in topics:
            self.kafka.create(tp)
        self.sink: Sink
        self.calls: list[tuple[str, str]] = []
        self._made: tuple[Settings, Pipeline] | None = None

    def _pipeline(self) -> Pipeline:
        """Made once for the settings, as in a worker process."""
        if self._made is None or self._made[0] is not self.settings:
            self._made = self.settings, make_pipeline(self.settings)
        return self._made[1]

    def start(self, plan: Sequence[Fault] = (), observer: object = None) -> Sink:
        store = FaultyStore(self.store, plan)
        self.calls = store.calls
        self.kafka.store = store
        self.sink = build_sink(
            self.settings,
            self.kafka,
            source=self.kafka,
            store=store,
            clock_ms=lambda: self.now,
            observer=join_observers(observer),
        )
        self.sink.open()
        return self.sink

    def add(self, offsets: Iterable[int], *, tp: TopicPartition = ORDERS, timestamp: int = START_MS) -> None:
        for offset in offsets:
            self.kafka.add(tp, MemoryRecord(offset, timestamp, None, json.dumps({"n": offset}).encode()))

    def log(self) -> CommitLog:
        return CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now)

    def entries(self) -> list[CommitEntry]:
        return list(self.log().entries())

    def objects(self) -> dict[str, list[Any]]:
        """The data objects: key to rows."""
        return {key: rows(key, data) for key, data in self.store.objects.items() if not key.startswith(STATE)}

    def numbers(self) -> dict[str, list[int]]:
        return {key: [row["n"] for row in found] for key, found in self.objects().items()}

    def frontier(self, tp: TopicPartition = ORDERS) -> int:
        return self.log().load().frontier[tp]


def world_of(size: int, **config: str) -> World:
    """A world whose files close by the number of their records."""
    return World({"flush.size": str(size), **config})


def rows(key: str, data: bytes) -> list[Any]:
    text = gzip.decompress(data) if key.endswith(".gz") else data
    return [json.loads(line) for line in text.splitlines()]


def pieces(total: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Consecutive ranges over `total` things, cut at these places."""
    places = sorted({0, total, *(cut % (total + 1) for cut in cuts)})
    yield from itertools.pairwise(places)
