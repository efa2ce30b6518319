"""Is the forecast what a real run makes of the same traffic: counts exactly, sizes within a fifth?"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.engine.control.commands import look_every_ms
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.forecast import (
    CHECKPOINT_EVERY,
    DAY_MS,
    READS,
    READS_OF_CHECKPOINT,
    READS_OF_LOG_FILE,
    WRITES,
    WRITES_OF_CHECKPOINT,
    Forecast,
    Prices,
    table_requests,
)
from kafka_s3.ops.simulation import (
    CountingStore,
    Stream,
    as_it_came,
    made_load,
    made_sample,
    sampled_load,
    simulate,
    steady,
    window_of,
)
from kafka_s3_testing.faults import Verb
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.entry_points import install
from tests.support.memory_world import ORDERS, World, settings_of

BEGUN_MS = 1_705_276_800_000  # 2024-01-15T00:00:00Z
FORMAT = "io.confluent.connect.s3.format."
RATE = 5
POLL = {"poll.interval.ms": "60000"}
WINDOW_MS = 1_800_000
RARE = pytest.mark.nightly
SCHEDULE = {"flush.size": None, "rotate.schedule.interval.ms": "600000", "timezone": "UTC"}
TEN_MINUTES = {**TIME, "path.format": "'m'=mm", "partition.duration.ms": "600000"}
SCHEMAS = {"value.converter.schemas.enable": "true"}
PARQUET = {"format.class": FORMAT + "parquet.ParquetFormat", "value.schema.inference": "true"}


@cache
def orders(count: int) -> list[bytes]:
    """Documents as a shop writes them; some are broken, some say nothing."""
    chance = random.Random(7)
    found = []
    for n in range(count):
        value = {
            "n": n, "client": f"client-{chance.randrange(5000)}", "price": round(chance.expovariate(0.02), 2),
            "d": f"country-{chance.randrange(3)}", "note": " ".join(chance.choices(["fast", "gift", "call", "paid", "big"], k=6)),
        }  # fmt: skip
        found.append(b"{" if n % 1000 == 999 else json.dumps(value).encode())
    return found


@cache
def versions(count: int) -> list[bytes]:
    """Documents with their schemas, of two versions while the second one is rolled out."""
    fields = [{"field": "n", "type": "int64"}, {"field": "note", "type": "string", "optional": True}]
    schemas = [{"type": "struct", "name": "order", "version": v, "fields": fields[:v]} for v in (1, 2)]
    return [json.dumps({"schema": schemas[n // 700 % 2], "payload": {"n": n}}).encode() for n in range(count)]


def traffic(values: list[bytes], partitions: int) -> dict[TopicPartition, list[MemoryRecord]]:
    """Half an hour of them, partition after partition in turn; the first at once, some times out of step and some late."""
    found: dict[TopicPartition, list[MemoryRecord]] = {TopicPartition("orders", p): [] for p in range(partitions)}
    chance = random.Random(11)
    for n, value in enumerate(values):
        inner = partitions <= n < len(values) - partitions
        off = (chance.choice([0, 0, 0, 40, -90, -45_000]) if n % 50 == 7 else 0) if inner else 0
        own = found[TopicPartition("orders", n % partitions)]
        own.append(MemoryRecord(len(own), max(BEGUN_MS + n * 1000 // RATE + off, BEGUN_MS), f"k{n}".encode(), value))
    return found


def really(
    config: dict[str, Any], given: dict[TopicPartition, list[MemoryRecord]], *, polls: int | None = None
) -> World:
    """The real loop over the same half hour, looked at as often as it is configured, or so many times."""
    world = World(config, topics=tuple(given))
    world.now = BEGUN_MS
    world.start()
    come, step = dict.fromkeys(given, 0), WINDOW_MS // polls if polls else int(POLL["poll.interval.ms"])
    while world.now < BEGUN_MS + WINDOW_MS:
        world.now += step
        for tp, records in given.items():
            while come[tp] < len(records) and (records[come[tp]].timestamp or 0) < world.now:
                world.kafka.records[tp].append(records[come[tp]])
                come[tp] += 1
        world.sink.poll_and_commit()
    return world


def requests(world: World) -> tuple[int, int]:
    """Writing and reading requests of the whole run, with the heartbeats, each read before it is written, and looks for commands."""
    free = {Verb.DELETE, Verb.ABORT_UPLOAD}
    reads = sum(verb in {Verb.GET, Verb.GET_RANGE, Verb.HEAD} for verb, _ in world.calls)
    writes = sum(verb not in free for verb, _ in world.calls) - reads
    beat_ms = world.settings.number("heartbeat.interval.ms")
    beats = WINDOW_MS // beat_ms
    return writes + beats, reads + beats + WINDOW_MS // look_every_ms(beat_ms)


def foretold(world: World) -> Forecast:
    """The forecast from a sample of all of a world's records."""
    load = sampled_load(world.settings, world.kafka, records=2 * RATE * WINDOW_MS // 1000, rate=None, otherwise_ms=0)
    assert load.begun_ms == BEGUN_MS
    return simulate(world.settings, load.streams, begun_ms=load.begun_ms, window_ms=WINDOW_MS)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"flush.size": "500"}, id="by count", marks=RARE),
        pytest.param({**SCHEDULE, "s3.compression.type": "gzip"}, id="by schedule", marks=RARE),
        pytest.param({"flush.size": "100000", **TIME, "rotate.interval.ms": "900000"}, id="by the records' times", marks=RARE),
        pytest.param({"flush.size": "900", **FIELD}, id="by field", marks=RARE),
        pytest.param({"flush.size": "500", **TEN_MINUTES}, id="directories of ten minutes", marks=RARE),
        pytest.param({"flush.size": "800", **TEN_MINUTES, "rotate.interval.ms": "300000"}, id="ten minutes, intervals", marks=RARE),
        pytest.param({"flush.size": "2000", **SCHEMAS}, id="two versions", marks=RARE),
        pytest.param({"flush.size": "2000", **PARQUET}, id="parquet"),
        pytest.param({"flush.size": None, "flush.bytes": "100000"}, id="by bytes", marks=RARE),
    ],
)  # fmt: skip
def test_counts_are_exact_and_sizes_within_a_fifth_of_a_real_run(config: dict[str, Any]) -> None:
    config = {**TOLERANT, **POLL, "tail.state.enable": "false", **config}
    make = versions if "value.converter.schemas.enable" in config else orders
    world = really(config, traffic(make(RATE * WINDOW_MS // 1000), 2))
    found = foretold(world)
    entries = world.entries()
    files = [file for entry in entries for file in counted(entry.files)]
    assert files
    assert found.records == RATE * WINDOW_MS // 1000
    assert [found.files, found.written] == [len(files), sum(f.records for f in files)]
    assert found.dead_letters == sum(entry.totals.dead_letters for entry in entries)
    assert found.reasons == Counter(str(file.reason) for file in files)
    assert (found.writes, found.reads) == requests(world)
    assert found.bytes == pytest.approx(sum(f.bytes for entry in entries for f in entry.files), rel=0.2)
    assert found.sizes[0] == pytest.approx(sorted(f.bytes for f in files)[(len(files) - 1) // 2], rel=0.2)


def test_a_backlog_that_is_worked_off_at_once_has_the_same_files() -> None:
    config = {**TOLERANT, **POLL, "flush.size": "450", **TEN_MINUTES, "rotate.interval.ms": "400000"}
    world = really(config, traffic(orders(RATE * WINDOW_MS // 1000), 3), polls=1)
    found = foretold(world)
    files = [file for entry in world.entries() for file in counted(entry.files)]
    assert (found.files, found.written) == (len(files), sum(f.records for f in files))
    assert found.reasons == Counter(str(file.reason) for file in files)
    assert len(found.reasons) > 1


def flat(rate: float, *, partitions: int = 1, **config: Any) -> Forecast:
    settings = settings_of({**POLL, **config})
    load = made_load(settings, rate=rate, record_bytes=200, partitions=partitions, begun_ms=BEGUN_MS)
    return simulate(settings, load.streams, begun_ms=BEGUN_MS, window_ms=3_600_000)


def test_delays_requests_and_prices_of_a_rate() -> None:
    found = flat(1, partitions=2, **{"flush.size": "600", "tail.state.enable": "false"})
    assert (found.records, found.files, found.sizes[2]) == (3600, 6, 600 * 201)
    assert found.delays_ms[2] == pytest.approx(1200_000, abs=30_000)  # 600 records at one in two seconds
    assert found.delays_ms[0] == pytest.approx(600_000, rel=0.15)
    day = found.document(Prices(5.0, 0.0, 0.0))
    assert day["per_day"]["files"] == 6 * 24
    assert day["month"]["total"] == pytest.approx(found.writes * 24 * 365 / 12 / 1000 * 5)
    assert found.writes > 6 * 3


def test_requests_are_those_that_the_store_gets() -> None:
    store = CountingStore()
    store.put("a", b"")
    store.get("a")
    store.head("a")
    store.delete("a")
    assert list(store.list("")) == []
    assert (store.writes, store.reads) == (2, 2)


def test_nobody_is_notified_of_what_is_only_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def made(settings):\n    raise AssertionError('a notifier was made')\n"
    group = "kafka_s3.notifications"
    install(tmp_path, monkeypatch, module="loud", source=source, group=group, entry="loud = loud:made")
    catalog = {"glue.database.name": "lake", "aws.endpoint.url": "http://127.0.0.1:1"}
    found = flat(1, **{"flush.size": "600", "notification.class": "loud", **catalog})
    assert found.files == 6


def test_the_requests_of_a_delta_table_grow_with_its_log_until_a_checkpoint() -> None:
    config = {"flush.size": "1800", "tail.state.enable": "false", **PARQUET}
    plain, kept = flat(1, **config), flat(1, **config, **{"delta.enable": "true"})
    assert plain.entries == 2
    assert kept.writes - plain.writes == 2 * (1 + WRITES)
    assert kept.reads - plain.reads == 2 * (1 + READS) + READS_OF_LOG_FILE

    world = World({"flush.size": "1"})
    world.add([0])
    world.start().poll_and_commit()
    entry = world.entries()[-1]
    long, longer = (table_requests([entry] * count) for count in (CHECKPOINT_EVERY - 1, CHECKPOINT_EVERY + 1))
    checkpoint, fresh = READS_OF_LOG_FILE * (CHECKPOINT_EVERY - 1) * 2, READS_OF_CHECKPOINT
    assert longer[0] - long[0] == 2 * (1 + WRITES) + WRITES_OF_CHECKPOINT
    assert longer[1] - long[1] == 2 * (1 + READS) + checkpoint + fresh


def test_very_many_records_shorten_the_window() -> None:
    settings = settings_of({"flush.size": "1"})
    slow, fast, burst, extreme = (
        made_load(settings, rate=rate, record_bytes=200, partitions=1, begun_ms=BEGUN_MS).streams
        for rate in (10, 1000, 25_000, 1_000_000)
    )
    assert [window_of(load) for load in (slow, fast, burst, extreme)] == [DAY_MS, 3_000_000, 120_000, 60_000]


def test_what_cannot_be_made_or_sampled_is_an_error_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match=r"without fields.*the topic is sampled then"):
        made_load(settings_of({"flush.size": "1", **FIELD}), rate=1, record_bytes=10, partitions=1, begun_ms=BEGUN_MS)
    world = World({"flush.size": "1"})
    with pytest.raises(ConfigError, match="Give --rate and --record-bytes"):
        sampled_load(world.settings, world.kafka, records=1, rate=None, otherwise_ms=0)
    misspelt = settings_of({"flush.size": "1", "topics": "orders,ordres"})
    with pytest.raises(ConfigError, match="topics that are not in Kafka, or may not be described: ordres"):
        sampled_load(misspelt, world.kafka, records=1, rate=None, otherwise_ms=0)


def test_a_sample_shows_each_partitions_share_of_the_rate() -> None:
    other = TopicPartition("orders", 1)
    world = World({"flush.size": "1"}, topics=(ORDERS, other))
    for tp, gap in ((ORDERS, 100), (other, 300)):
        for n in range(31):
            world.kafka.add(tp, MemoryRecord(n, BEGUN_MS + n * gap, None, b"{}"))
    load = sampled_load(world.settings, world.kafka, records=100, rate=None, otherwise_ms=0)
    assert [round(load.streams[tp].per_second, 2) for tp in (ORDERS, other)] == [10, 3.33]
    load = sampled_load(world.settings, world.kafka, records=100, rate=40, otherwise_ms=0)
    assert [round(load.streams[tp].per_second, 2) for tp in (ORDERS, other)] == [30, 10]


def late() -> Stream:
    """Four records out of step."""
    times = pa.array([1_005, 1_400, 1_100, 2_205])
    return as_it_came(made_sample(200).slice(0, 4).set_column(1, "timestamp", times), begun_ms=900)


@pytest.mark.parametrize("make", [lambda: steady(made_sample(200), 3), late], ids=["steady", "late"])
def test_records_come_when_their_times_say(make: Callable[[], Stream]) -> None:
    stream = make()
    for elapsed in (0, 1, 105, 333, 334, 1000, 1_400, 1_705, 3_000, 9_999):
        rows = stream.rows(0, stream.until(elapsed), begun_ms=0)
        assert all(time < elapsed for time in rows.column("timestamp").to_pylist())
        following = stream.rows(0, len(rows) + 1, begun_ms=0).column("timestamp").to_pylist()
        assert max(following) >= elapsed


def test_a_sample_keeps_its_own_intervals_and_place_and_comes_again_behind_a_usual_interval() -> None:
    stream = late()
    assert stream.rows(0, 6, begun_ms=900).column("timestamp").to_pylist() == [1_005, 1_400, 1_100, 2_205, 2_605, 3_000]
    faster = stream.at_rate(stream.per_second * 10)
    assert faster.rows(0, 5, begun_ms=0).column("timestamp").to_pylist() == [10, 50, 20, 130, 170]


def test_a_sample_without_times_comes_once_a_second() -> None:
    sample = made_sample(200).slice(0, 2).set_column(1, "timestamp", pa.array([None, 5], pa.int64()))
    assert as_it_came(sample, begun_ms=0).rows(0, 3, begun_ms=0).column("timestamp").to_pylist() == [0, 1000, 2000]
