"""What does a record cost on each path? All paths in turns, every run checked, the figures printed and written to build/benchmark.json.

KAFKA_S3_BENCH_RECORDS (4,000,000) and KAFKA_S3_BENCH_ROUNDS (3) size it; KAFKA_S3_BENCH_QUICK=1 takes less than 5 minutes. Broker, registry
and S3 server are not counted. Method and figures are explained in docs/benchmarks.md. Nothing here asserts a time.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.benchmarks.found import check_all_there, files_of, objects_of
from tests.benchmarks.measuring import Cost, PeakMemory, spread
from tests.benchmarks.paths import NOOP, OURS, PLAIN_SPARK, READ_ONLY, SINK, SPARK, TASKS, Route, routes
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import (
    BUCKET,
    PARTITIONS,
    RECORDS,
    ROUNDS,
    SLOW_SHARE,
    new_topic,
    running_broker,
    running_objects,
)
from tests.benchmarks.topics import JSON, ORDERS_IN_AVRO, Topic, avro_schema, produce_avro, produce_json
from tests.support.repository import ROOT

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

RESULT = ROOT / "build" / "benchmark.json"
FEW = 16
"""Before a warm run so small a share of the records is read: Spark ends Python workers that were idle for a minute."""
YARDSTICK = "read-only"


@dataclass(slots=True)
class Measured:
    """What the runs of one path took."""

    cold: Cost | None = None
    warm: list[Cost] = field(default_factory=list)
    peak_mib: float = 0.0
    s3_requests: int | None = None


class World:
    """The services, the topics and the sides, and how one run is done and checked. A context manager."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._access_log = scratch / "requests.log"
        self._stack = ExitStack()
        self._names = itertools.count()

    def __enter__(self) -> World:
        enter = self._stack.enter_context
        broker, registry = enter(running_broker()), enter(EmbeddedRegistry())
        self._servers, self._registry = broker.bootstrap_servers, registry.url
        self._objects = enter(running_objects(self._access_log))
        options = StoreOptions(BUCKET, region="us-east-1", endpoint_url=self._objects.endpoint_url)
        self._store = S3Store(options)
        self._stack.callback(self._store.close)
        few = PARTITIONS * FEW * SLOW_SHARE
        schema_id = registry.register(f"{ORDERS_IN_AVRO}-value", avro_schema())
        self.topics = self._produced(broker, "", RECORDS - RECORDS % few, schema_id)
        self._small = self._produced(broker, "-few", self.topics[JSON].records // SLOW_SHARE, schema_id)
        self._sides = {name: enter(Side(name, self._scratch / f"{name}.log")) for name in (OURS, PLAIN_SPARK)}
        return self

    def _produced(self, broker: EmbeddedKafka, suffix: str, records: int, schema_id: int) -> Mapping[str, Topic]:
        sizes: dict[str, Any] = {"records": records, "partitions": PARTITIONS}
        for name in (JSON, ORDERS_IN_AVRO):
            new_topic(broker, name + suffix, PARTITIONS)
        return {
            JSON: produce_json(self._servers, **sizes, name=JSON + suffix),
            ORDERS_IN_AVRO: produce_avro(self._servers, **sizes, schema_id=schema_id, name=ORDERS_IN_AVRO + suffix),
        }

    def topic_of(self, route: Route) -> Topic:
        """What a route reads: a small topic where it is slow."""
        return (self._small if route.reader == SPARK and route.work != NOOP else self.topics)[route.topic]

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, route: Route, measured: Measured, *, cold: bool = False) -> Cost:
        """One run, checked: every record is there, and none twice."""
        topic, name = self.topic_of(route), f"run-{next(self._names)}"
        per_partition = topic.records // PARTITIONS
        request = self._request(route, name, (per_partition,) * PARTITIONS, cold=cold)
        before = self._requests()
        side = self._sides[route.side]
        with PeakMemory(side.pid) as peak:
            cost = side.run(request)
        measured.peak_mib = max(measured.peak_mib, peak.mib)
        if route.work == SINK:
            after = self._requests()
            measured.s3_requests = None if before is None or after is None else after - before
            check_all_there(objects_of(self._store, name), topic.records)
        elif route.work not in (READ_ONLY, NOOP):
            check_all_there(files_of(self._scratch / name), topic.records)
        return cost

    def warm_up(self, route: Route) -> None:
        """Has the side's Python workers, where it has any, do a little."""
        if route.side == OURS:
            reading = replace(route, work=READ_ONLY, topic=JSON, reader=TASKS)
            few = self.topics[JSON].records // PARTITIONS // FEW
            self._sides[OURS].run(self._request(reading, "warm-up", (few,) * PARTITIONS, cold=False))

    def _request(self, route: Route, name: str, partitions: tuple[int, ...], *, cold: bool) -> Request:
        place = f"{self._objects.endpoint_url}/{BUCKET}" if route.side == OURS else str(self._scratch)
        flush = str(min(500_000, partitions[0]))  # divides the partition: nobody has an open tail to read twice
        options = {"flush.size": flush, "value.converter.schema.registry.url": self._registry, **route.options}
        if route.topic != ORDERS_IN_AVRO:
            del options["value.converter.schema.registry.url"]
        topic = self.topic_of(route).name
        return Request(route.work, topic, partitions, name, self._servers, place, options, route.reader, cold)

    def _requests(self) -> int | None:
        return len(self._access_log.read_bytes().splitlines()) if self._access_log.exists() else None


def test_every_path(tmp_path: Path) -> None:
    found = [(route, Measured()) for route in routes()]
    with World(tmp_path) as world:
        for route, measured in found:
            measured.cold = world.run(route, measured, cold=True)
        for _ in range(ROUNDS):
            for route, measured in found:
                world.warm_up(route)
                measured.warm.append(world.run(route, measured))
        paths = [_path(route, measured, world.topic_of(route).records) for route, measured in found]
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps({"machine": _machine(), "paths": paths}, indent=2) + "\n")
        _print(paths, world.topics)


def _path(route: Route, measured: Measured, records: int) -> dict[str, Any]:
    """A path's figures: rates in millions of records, medians of the warm runs."""
    assert measured.cold is not None
    return {
        "name": route.name,
        "reader": route.reader,
        "records": records,
        "warm_mrec_per_cpu_second": _rate(records, [cost.cpu_seconds for cost in measured.warm]),
        "cold_mrec_per_cpu_second": _rate(records, [measured.cold.cpu_seconds]),
        "wall_mrec_per_second": _rate(records, [cost.wall_seconds for cost in measured.warm]),
        "peak_mib": round(measured.peak_mib),
        "s3_requests": measured.s3_requests,
        "warm_runs_mrec_per_cpu_second": [_rate(records, [cost.cpu_seconds]) for cost in measured.warm],
    }


def _rate(records: int, seconds: list[float]) -> float:
    return round(records / median(seconds) / 1e6, 4)


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[2], 2),
    }


def _print(paths: list[dict[str, Any]], topics: Mapping[str, Topic]) -> None:
    sizes = ", ".join(
        f"{topic.records:,} of {topic.value_bytes / topic.records:.0f} bytes" for topic in topics.values()
    )
    yardstick = next(path["warm_mrec_per_cpu_second"] for path in paths if path["name"] == YARDSTICK)
    print(f"\nRecords: {sizes}; {PARTITIONS} partitions; {ROUNDS} warm rounds, in turns\n")
    print(f"{'':34}{'M records per CPU-second':^33}{'share of':>10}{'M records':>11}{'MiB':>7}{'S3':>8}")
    print(
        f"{'':34}{'cold':>8}{'min / median / max, warm':>25}{'read-only':>10}{'per second':>11}{'':>7}{'requests':>9}"
    )
    for path in paths:
        runs, warm = path["warm_runs_mrec_per_cpu_second"], path["warm_mrec_per_cpu_second"]
        requests = "" if path["s3_requests"] is None else path["s3_requests"]
        print(
            f"{path['name']:34}{path['cold_mrec_per_cpu_second']:>8.3f}{spread(runs):>25}{warm / yardstick:>10.2f}"
            f"{path['wall_mrec_per_second']:>11.3f}{path['peak_mib']:>7}{requests:>9}"
        )
    print(f"\nWritten to {RESULT}")
