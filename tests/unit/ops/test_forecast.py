"""Tests of the forecast: counts close to those of the real loop over the same traffic, sizes within a fifth."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

from kafka_s3.engine.control.commands import look_every_ms
from kafka_s3.model.errors import ConfigError, RecordError
from kafka_s3.model.files import counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.forecast import DAY_MS, Forecast, Prices, forecast
from kafka_s3.ops.sampling import made_traffic, sampled_traffic
from kafka_s3_testing.faults import Verb
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.memory_world import ORDERS, World, settings_of

BEGUN_MS = 1_705_276_800_000  # 2024-01-15T00:00:00Z
FORMAT = "io.confluent.connect.s3.format."
RATE = 5
POLL = {"poll.interval.ms": "20000"}
WINDOW_MS = 7_200_000
RARE = pytest.mark.nightly
SCHEDULE = {"flush.size": None, "rotate.schedule.interval.ms": "600000", "timezone": "UTC"}
TEN_MINUTES = {**TIME, "path.format": "'m'=mm", "partition.duration.ms": "600000"}
SCHEMAS = {"value.converter.schemas.enable": "true"}
PARQUET = {"format.class": FORMAT + "parquet.ParquetFormat", "value.schema.inference": "true"}


@cache
def orders(count: int) -> list[bytes]:
    """Documents as a shop writes them; some are broken."""
    chance = random.Random(7)
    documents = []
    for n in range(count):
        value = {
            "n": n, "client": f"client-{chance.randrange(5000)}", "price": round(chance.expovariate(0.02), 2),
            "d": f"country-{chance.randrange(3)}", "note": " ".join(chance.choices(["fast", "gift", "call", "paid", "big"], k=6)),
        }  # fmt: skip
        documents.append(b"{" if n % 1000 == 999 else json.dumps(value).encode())
    return documents


@cache
def versions(count: int) -> list[bytes]:
    """Documents with their schemas, of two versions that producers send in turns."""
    fields = [{"field": "n", "type": "int64"}, {"field": "note", "type": "string", "optional": True}]
    schemas = [{"type": "struct", "name": "order", "version": v, "fields": fields[:v]} for v in (1, 2)]
    return [json.dumps({"schema": schemas[n // 700 % 2], "payload": {"n": n}}).encode() for n in range(count)]


def traffic(values: list[bytes], partitions: int, *, late_ms: int) -> dict[TopicPartition, list[MemoryRecord]]:
    """Two hours of them, partition after partition in turn; one of fifty records is up to so late."""
    records: dict[TopicPartition, list[MemoryRecord]] = {TopicPartition("orders", p): [] for p in range(partitions)}
    chance = random.Random(11)
    for n, value in enumerate(values):
        late = chance.randrange(late_ms + 1) if n % 50 == 7 else 0
        time_ms = max(BEGUN_MS + n * 1000 // RATE - late, BEGUN_MS)
        own = records[TopicPartition("orders", n % partitions)]
        own.append(MemoryRecord(len(own), time_ms, f"k{n}".encode(), value))
    return records


def run_really(config: dict[str, Any], records: dict[TopicPartition, list[MemoryRecord]]) -> World:
    """The real loop over the same two hours."""
    world = World(config, topics=tuple(records))
    world.now = BEGUN_MS
    world.start()
    arrived = dict.fromkeys(records, 0)
    while world.now < BEGUN_MS + WINDOW_MS:
        world.now += int(POLL["poll.interval.ms"])
        for tp, own in records.items():
            until = (world.now - BEGUN_MS) * RATE // 1000 // len(records)
            world.kafka.records[tp].extend(own[arrived[tp] : until])
            arrived[tp] = min(until, len(own))
        world.sink.poll_and_commit()
    return world


def requests(world: World) -> tuple[float, float]:
    """Writing and reading requests of the whole run, with the heartbeats, each read before it is written, and looks for commands."""
    free = {Verb.DELETE, Verb.ABORT_UPLOAD}
    reads = sum(verb in {Verb.GET, Verb.GET_RANGE, Verb.HEAD} for verb, _ in world.calls)
    writes = sum(verb not in free for verb, _ in world.calls) - reads
    beat_ms = world.settings.number("heartbeat.interval.ms")
    beats = WINDOW_MS / beat_ms
    return writes + beats, reads + beats + WINDOW_MS / look_every_ms(beat_ms)


def foretell(world: World) -> Forecast:
    """The forecast from a sample of all of a world's records."""
    sampled = sampled_traffic(world.settings, world.kafka, records=2 * RATE * WINDOW_MS // 1000, rate=None)
    return forecast(world.settings, sampled.paces)


@pytest.mark.parametrize(
    ("config", "late_ms"),
    [
        pytest.param({"flush.size": "500"}, 90, id="by count"),
        pytest.param({**SCHEDULE, "s3.compression.type": "gzip"}, 90, id="by schedule", marks=RARE),
        pytest.param({"flush.size": "100000", **TIME, "rotate.interval.ms": "900000"}, 90, id="by the records' times", marks=RARE),
        pytest.param({"flush.size": "900", **FIELD}, 90, id="by field", marks=RARE),
        pytest.param({"flush.size": "500", **TEN_MINUTES}, 90, id="directories of ten minutes", marks=RARE),
        pytest.param({"flush.size": "100000", **TEN_MINUTES, "rotate.interval.ms": "300000"}, 0, id="ten minutes, intervals", marks=RARE),
        pytest.param({"flush.size": "100000", **TEN_MINUTES, "rotate.interval.ms": "300000"}, 600_000, id="late records", marks=RARE),
        pytest.param({"flush.size": "2000", **SCHEMAS}, 90, id="two versions"),
        pytest.param({"flush.size": "2000", **PARQUET}, 90, id="parquet", marks=RARE),
        pytest.param({"flush.size": None, "flush.bytes": "100000"}, 90, id="by bytes", marks=RARE),
        pytest.param({**SCHEDULE, "flush.size": "700"}, 90, id="count and schedule", marks=RARE),
    ],
)  # fmt: skip
def test_counts_are_close_to_those_of_a_real_run_and_sizes_within_a_fifth(config: dict[str, Any], late_ms: int) -> None:
    config = {**TOLERANT, **POLL, "tail.state.enable": "false", **config}
    make = versions if "value.converter.schemas.enable" in config else orders
    world = run_really(config, traffic(make(RATE * WINDOW_MS // 1000), 2, late_ms=late_ms))
    day = foretell(world)
    share = WINDOW_MS / DAY_MS
    entries = world.entries()
    files = [file for entry in entries for file in counted(entry.files)]
    reasons = Counter(str(file.reason) for file in files)
    assert day.records * share == pytest.approx(RATE * WINDOW_MS / 1000, rel=0.01)
    assert day.files * share == pytest.approx(len(files), rel=0.15)
    assert day.dead_letters * share == pytest.approx(sum(entry.totals.dead_letters for entry in entries), rel=0.1)
    for reason, count in reasons.items():
        if count > len(files) / 5:
            assert day.reasons[reason] * share == pytest.approx(count, rel=0.25)
    assert day.file_bytes == pytest.approx(sum(file.bytes for file in files) / len(files), rel=0.2)
    for expected, seen in zip(requests(world), (day.writes * share, day.reads * share), strict=True):
        assert seen == pytest.approx(expected, rel=0.2)


def flat(rate: float, *, partitions: int = 1, **config: Any) -> Forecast:
    settings = settings_of({**POLL, **config})
    made = made_traffic(settings, rate=rate, record_bytes=200, partitions=partitions)
    return forecast(settings, made.paces)


def test_files_delay_and_price_follow_from_the_rate() -> None:
    day = flat(1, partitions=2, **{"flush.size": "600", "tail.state.enable": "false"})
    assert (day.records, day.files) == (86_400, pytest.approx(144))
    assert day.file_bytes == pytest.approx(600 * 201, rel=0.01)
    assert day.delay_ms == pytest.approx(1_200_000)  # 600 records at one in two seconds
    document = day.document(Prices(5.0, 0.0, 0.0))
    assert document["month"]["total"] == pytest.approx(day.writes * 365 / 12 / 1000 * 5)
    assert day.writes > 3 * 144


def test_open_files_that_are_kept_between_tasks_cost_requests() -> None:
    config = {"flush.size": "100000", "rotate.schedule.interval.ms": "600000", "timezone": "UTC"}
    kept, dropped = (flat(10, **config, **{"tail.state.enable": flag}) for flag in ("true", "false"))
    assert kept.writes - dropped.writes == pytest.approx(2 * 1440)
    assert kept.reads - dropped.reads == pytest.approx(2 * 1440)


def test_tables_cost_requests_for_each_version() -> None:
    config = {"flush.size": "1800", "tail.state.enable": "false", **PARQUET}
    plain, delta, iceberg = (
        flat(1, **config, **more) for more in ({}, {"delta.enable": "true"}, {"iceberg.enable": "true", **CATALOG})
    )
    assert delta.writes - plain.writes == pytest.approx(48 * 7, rel=0.01)
    assert delta.reads - plain.reads == pytest.approx(48 * 110, rel=0.01)
    assert iceberg.writes - plain.writes == pytest.approx(48 * 4.1)
    assert iceberg.reads - plain.reads == pytest.approx(48 * 6)


CATALOG = {
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://127.0.0.1:1",
    "iceberg.warehouse": "lake",
    "iceberg.namespace": "raw",
}


@pytest.mark.parametrize("directory", ["'d'=dd/'h'=HH", "'d'=dd"])
def test_files_of_a_schedule_are_as_many_as_the_directories_of_its_time(directory: str) -> None:
    config = {**TIME, "path.format": directory, "flush.size": "100000000", "rotate.schedule.interval.ms": "43200000"}
    assert flat(10, **config).files == pytest.approx(24 if "HH" in directory else 2)


def test_rules_that_are_never_met_close_nothing() -> None:
    day = flat(1, **{**TIME, "flush.size": "100000000"})
    assert (day.files, day.objects, dict(day.reasons)) == (0, 0, {})
    assert day.writes > 0  # heartbeats


def test_what_cannot_be_made_or_sampled_is_an_error_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match=r"without fields.*the topic is sampled then"):
        made_traffic(settings_of({"flush.size": "1", **FIELD}), rate=1, record_bytes=10, partitions=1)
    world = World({"flush.size": "1"})
    with pytest.raises(ConfigError, match="Give --rate and --record-bytes"):
        sampled_traffic(world.settings, world.kafka, records=1, rate=None)
    misspelt = settings_of({"flush.size": "1", "topics": "orders,ordres"})
    with pytest.raises(ConfigError, match="topics that are not in Kafka, or may not be described: ordres"):
        sampled_traffic(misspelt, world.kafka, records=1, rate=None)


def test_a_record_that_would_stop_the_sink_is_named() -> None:
    world = World({"flush.size": "1"})
    world.kafka.add(ORDERS, MemoryRecord(0, BEGUN_MS, None, b"{"))
    with pytest.raises(RecordError, match="offset 0"):
        sampled_traffic(world.settings, world.kafka, records=1, rate=None)


def test_each_partition_has_its_share_of_the_rate() -> None:
    other = TopicPartition("orders", 1)
    world = World({"flush.size": "1"}, topics=(ORDERS, other))
    for tp, gap in ((ORDERS, 100), (other, 300)):
        for n in range(31):
            world.kafka.add(tp, MemoryRecord(n, BEGUN_MS + n * gap, None, b"{}"))
    paces = sampled_traffic(world.settings, world.kafka, records=100, rate=None).paces
    assert [round(pace.per_second, 2) for pace in paces] == [10, 3.33]
    paces = sampled_traffic(world.settings, world.kafka, records=100, rate=40).paces
    assert [round(pace.per_second, 2) for pace in paces] == [30, 10]


def test_records_without_times_come_once_a_second() -> None:
    world = World({"flush.size": "1"})
    for n in range(3):
        world.kafka.add(ORDERS, MemoryRecord(n, None, None, b"{}"))
    [pace] = sampled_traffic(world.settings, world.kafka, records=10, rate=None).paces
    assert pace.per_second == 1
