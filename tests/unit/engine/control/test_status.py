"""Which state a sink is in, by what the bucket says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.cli.status import row_document
from kafka_s3.engine.control.commands import CommandRequest, Control, ask_pause
from kafka_s3.engine.control.heartbeat import Delay, Heartbeat, HeartbeatWriter, Limits, Phase, Tally
from kafka_s3.engine.control.status import (
    GREW_OFTEN,
    PartitionStatus,
    SinkSnapshot,
    SinkState,
    all_snapshots,
    check_line,
    health,
    limits_with,
    partition_statuses,
    sink_id,
    sink_names,
    snapshot_of,
)
from kafka_s3.engine.log.entry import Progress
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.timing import age
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import FaultyStore
from tests.support.memory_world import ORDERS, World

NOW = 1_000_000
BEAT = Heartbeat(
    "orders", "run", "host", 7, "0.1.0", started_ms=0, interval_ms=10_000, phase=Phase.RUNNING, beat_ms=NOW - 2_000, driver="host/1",
    epoch=2, version=5, lag={ORDERS: 4, TopicPartition("orders", 1): 3}, looked_ms=NOW - 3_000,
)  # fmt: skip
LOG = LogState(version=5, epoch=2, totals=Totals(10, 10, 0, 0, 1, 100))
KNOWN = SinkSnapshot("orders", LOG, "2024-01-15T10:00:00.000Z", BEAT, None, True, seen_ms=NOW)
PAUSE = Control(True, "r", "", "2024-01-15T10:00:00.000Z", "ann@channel")


def beat(**changes: object) -> SinkSnapshot:
    return replace(KNOWN, heartbeat=replace(BEAT, **changes))


@pytest.mark.parametrize(
    ("known", "state", "words"),
    [
        (KNOWN, SinkState.RUNNING, "works."),
        (SinkSnapshot("orders", configured=True), SinkState.PROVISIONING, "created, not started"),
        (SinkSnapshot("orders"), SinkState.PROVISIONING, "no heartbeat"),
        (replace(KNOWN, log=None), SinkState.PROVISIONING, "started, nothing committed"),
        (replace(KNOWN, log=LogState(1, 2)), SinkState.PROVISIONING, "started, nothing committed"),
        (beat(phase=Phase.STARTING, epoch=0), SinkState.PROVISIONING, "starting"),
        (beat(troubled=True, warning="Kafka is away."), SinkState.DEGRADED, "Kafka is away."),
        (beat(lag_grew=GREW_OFTEN), SinkState.DEGRADED, "falls behind"),
        (beat(lag_grew=GREW_OFTEN - 1), SinkState.RUNNING, "works."),
        (beat(epoch=1), SinkState.DEGRADED, "another driver"),
        (beat(phase=Phase.FAILED, failure="RecordError: bad", beat_ms=0), SinkState.FAILED, "RecordError: bad"),
        (beat(phase=Phase.STOPPED, beat_ms=0), SinkState.STOPPED, "16 min ago"),
        (replace(beat(phase=Phase.STOPPED), control=PAUSE), SinkState.STOPPED, "will be paused"),
        (replace(beat(phase=Phase.PAUSED, request="r"), control=PAUSE), SinkState.PAUSED, "paused by ann@channel"),
        (replace(beat(phase=Phase.PAUSED), control=Control()), SinkState.PAUSED, "asked to go on"),
        (replace(KNOWN, control=PAUSE), SinkState.RUNNING, "asked to pause"),
        (beat(beat_ms=NOW - 30_000), SinkState.RUNNING, "works."),
        (beat(beat_ms=NOW - 30_001), SinkState.STALE, "pid 7 on host"),
        (beat(phase=Phase.PAUSED, beat_ms=NOW - 30_001), SinkState.STALE, "30 s ago"),
        (beat(epoch=1, beat_ms=0), SinkState.STALE, "another driver, without heartbeat"),
        (replace(KNOWN, heartbeat=None), SinkState.UNKNOWN, "no heartbeat"),
        (beat(open_problems=("topic clicks is not in Kafka",)), SinkState.DEGRADED, "Topic clicks is not in Kafka."),
        (
            beat(phase=Phase.PAUSED, open_problems=("topic clicks is not in Kafka",)),
            SinkState.PAUSED,
            "Topic clicks is not in Kafka.",
        ),
        (
            beat(recent=Tally(0, 100, 94, 6)),
            SinkState.DEGRADED,
            "6.00% of the 100 records of the last hour became dead letters",
        ),
        (beat(recent=Tally(0, 100, 95, 5)), SinkState.RUNNING, "works."),
        (
            beat(phase=Phase.STOPPED, recent=Tally(0, 10**6, 1, 10**6 - 1)),
            SinkState.DEGRADED,
            "more than 5.00% (health.deadletter.max.ratio). Ended cleanly 2 s ago.",
        ),
        (beat(recent=Tally(0, 10, 0, 10), limits=Limits(dead_letters=None)), SinkState.RUNNING, "works."),
        (beat(delay=Delay(1, 61_000), limits=Limits(delay_ms=60_000)), SinkState.DEGRADED, "1 min 1 s old and more"),
        (beat(delay=Delay(1, 60_000), limits=Limits(delay_ms=60_000)), SinkState.RUNNING, "works."),
        (beat(limits=Limits(lag=6)), SinkState.DEGRADED, "Its lag is 7, more than 6."),
        (beat(limits=Limits(lag=7)), SinkState.RUNNING, "works."),
        (beat(limits=Limits(lag=7), lag={}, looked_ms=None), SinkState.DEGRADED, "Its lag is unknown."),
        (replace(KNOWN, damage="Entry 7 is damaged.", log=None), SinkState.DEGRADED, "Entry 7 is damaged."),
        (replace(beat(beat_ms=0), damage="Entry 7 is damaged.", log=None), SinkState.STALE, "Entry 7 is damaged."),
        (SinkSnapshot("orders", damage="Commit entry x is damaged."), SinkState.UNKNOWN, "damaged"),
    ],
)
def test_the_state_follows_from_log_heartbeat_and_control(known: SinkSnapshot, state: SinkState, words: str) -> None:
    found = health(replace(known, seen_ms=NOW))
    assert found.state is state
    assert words in found.reason


def test_an_id_is_short_and_stays() -> None:
    assert sink_id("bucket", "orders") == "ks3-67f788"
    assert sink_id("bucket", "orders") != sink_id("bucket", "payments")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (KNOWN, "7"),
        (beat(lag={ORDERS: 0}), "0"),
        (replace(KNOWN, heartbeat=None), "unknown"),
        (beat(lag={}, looked_ms=None), "unknown"),
        (beat(lag={ORDERS: 7}, looked_ms=None), "7"),  # of a version that did not say when it looked
        (beat(beat_ms=0), "7 or more"),
        (beat(beat_ms=0, lag={ORDERS: 0}), "unknown"),
        (beat(phase=Phase.FAILED, lag={ORDERS: 7000}), "7,000 or more"),
        (beat(phase=Phase.FAILED, lag={ORDERS: 0}), "unknown"),
        (beat(phase=Phase.PAUSED), "7 or more"),
        (beat(troubled=True), "7 or more"),
        (beat(open_problems=("no broker answers for orders-2",)), "7 or more"),
    ],
)
def test_lag_is_a_number_only_where_somebody_looks_for_programs_too(known: SinkSnapshot, text: str) -> None:
    assert str(known.lag) == text
    row = row_document(known, "lake")
    assert row["lag"] == (None if text == "unknown" else int(text.split()[0].replace(",", "")))


@pytest.mark.parametrize("limit", [0, 6, 7, 10**9])
def test_a_lag_that_nobody_knows_is_larger_than_any_limit(limit: int) -> None:
    for known in (
        beat(lag={}, looked_ms=None),
        SinkSnapshot("orders", configured=True),
        replace(KNOWN, heartbeat=None),
    ):
        assert not check_line(known, limits_with(known, lag=limit))[1]
    assert check_line(KNOWN, limits_with(KNOWN, lag=limit))[1] is (limit >= 7)


def test_health_is_that_of_the_time_when_the_sink_was_seen() -> None:
    assert health(KNOWN).state is SinkState.RUNNING
    assert health(replace(KNOWN, seen_ms=NOW + 75_000)).state is SinkState.STALE


def test_limits_that_are_given_win_over_those_of_the_configuration() -> None:
    known = beat(limits=Limits(lag=1, delay_ms=2, dead_letters=0.5))
    assert limits_with(known) == Limits(1, 2, 0.5)
    assert limits_with(known, lag=9, delay_s=0.25, dead_letters=0.0) == Limits(9, 250, 0.0)


def test_every_topic_partition_of_log_and_heartbeat_has_a_line() -> None:
    other = TopicPartition("payments", 1)
    log = replace(LOG, progress={ORDERS: Progress(10, 9, OffsetSet.of([11]))})
    known = replace(KNOWN, log=log, heartbeat=replace(BEAT, lag={other: 4}))
    assert partition_statuses(known) == [
        PartitionStatus(ORDERS, 10, 9, 1, None),
        PartitionStatus(other, None, None, 0, 4),
    ]


def test_no_lag_of_a_partition_is_reported_only_while_somebody_looks() -> None:
    lag = {ORDERS: 0, TopicPartition("orders", 1): 7}
    assert [one.lag for one in partition_statuses(beat(lag=lag))] == [0, 7]
    assert [one.lag for one in partition_statuses(beat(lag=lag, phase=Phase.FAILED))] == [None, 7]
    assert [one.lag for one in partition_statuses(replace(beat(lag=lag), seen_ms=NOW + 75_000))] == [None, 7]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (7_200_000, "2 h"),
        (200_000_000, "2 d 7 h"),
        (7_140_000, "1 h 59 min"),
        (36_000_000, "10 h"),
        (43_100_000, "11 h"),
    ],
)
def test_ages_read_well(ms: int, text: str) -> None:
    assert age(ms) == text


def test_sinks_are_found_by_their_state_and_nothing_else_is_taken_for_one() -> None:
    store = MemoryStore()
    for key in (
        "_kafka_s3/a/commits/00000000000000000000.json", "_kafka_s3/a/commits/00000000000000000001.json", "_kafka_s3/a-b/config.json",
        "_kafka_s3/a.b/heartbeat.json", "_kafka_s3/a0/control.json", "_kafka_s3/a0/x", "_kafka_s3/doctored/doctor/x", "_kafka_s3/loose",
        "_kafka_s3/z\U0001f600/config.json", "_kafka_s3x/other/config.json", "topics/orders/o.json",
    ):  # fmt: skip
        store.put(key, b"{}")
    assert list(sink_names(store, "_kafka_s3/")) == ["a-b", "a.b", "a", "a0", "z\U0001f600"]
    assert list(sink_names(store, "nothing")) == []


def test_the_bucket_shows_everything_of_a_sink_that_ran() -> None:
    world = World({"flush.size": "3"})
    world.add(range(4))
    world.start().poll_and_commit()
    committed = world.entries()[-1]
    world.now += 60_000
    world.start()  # a restart writes an epoch entry, which is no commit of data
    known = snapshot_of(world.store, StatePaths("_kafka_s3", "orders"), seen_ms=world.now)
    assert (known.last_commit, known.log) == (committed.committed_at, world.log().load())
    assert health(known).state is SinkState.UNKNOWN
    ask_pause(world.store, StatePaths("_kafka_s3", "orders"), CommandRequest("r", 0, "ann"))
    assert snapshot_of(world.store, StatePaths("_kafka_s3", "orders"), seen_ms=0).control == Control(
        True, "r", "", "1970-01-01T00:00:00.000Z", "ann"
    )


def test_a_damaged_sink_does_not_hide_the_others() -> None:
    world = World({"flush.size": "3"})
    world.start()
    world.store.put("_kafka_s3/broken/commits/00000000000000000000.json", b"{")
    broken, orders = all_snapshots(world.store, "_kafka_s3", seen_ms=NOW)
    assert "00000000000000000000.json is damaged" in broken.damage
    assert (orders.name, orders.last_commit) == ("orders", "")
    world.store.put("_kafka_s3/broken/heartbeat.json", replace(BEAT, sink="broken").to_json())
    broken, _ = all_snapshots(world.store, "_kafka_s3", seen_ms=NOW)
    assert (health(broken).state, str(broken.lag)) == (SinkState.DEGRADED, "7")
    assert CommitLog(world.store, StatePaths("_kafka_s3", "orders"), clock_ms=lambda: 0).load().epoch == 1


def test_a_glance_says_of_a_sink_what_the_whole_log_says_at_the_price_of_a_few_requests() -> None:
    world = World({"flush.size": "3"})
    paths = StatePaths("_kafka_s3", "orders")
    writer = HeartbeatWriter(world.store, paths, interval_ms=10_000, clock_ms=lambda: world.now)
    sink = world.start(observer=writer)
    for turn in range(60):
        world.add(range(3 * turn, 3 * turn + 3))
        assert sink.poll_and_commit()
        if turn == 55:
            writer.beat()
    ask_pause(world.store, paths, CommandRequest("r", 0, "ann"))
    world.store.put(paths.config(), b"{}")
    asked = FaultyStore(world.store)
    (seen,) = all_snapshots(asked, "_kafka_s3", seen_ms=world.now)
    assert len(asked.calls) == 4 + len(world.entries()) - 57, (
        "the folder, the heartbeat, a listing, what was asked; entries since"
    )
    whole = snapshot_of(world.store, paths, seen_ms=world.now)
    assert seen.log is not None
    assert whole.log is not None
    assert (seen.log.version, seen.log.epoch, seen.log.totals) == (
        whole.log.version, whole.log.epoch, whole.log.totals,
    )  # fmt: skip
    assert (seen.last_commit, health(seen)) == (whole.last_commit, health(whole))
    assert (seen.control, seen.configured) == (whole.control, True)


def test_a_heartbeat_of_another_log_is_not_taken_for_this_ones() -> None:
    world = World({"flush.size": "3"})
    world.add(range(3))
    paths = StatePaths("_kafka_s3", "orders")
    world.start().poll_and_commit()
    world.store.put(paths.heartbeat(), replace(BEAT, version=500, totals=Totals(read=7)).to_json())
    (seen,) = all_snapshots(world.store, "_kafka_s3", seen_ms=world.now)
    assert seen.log == world.log().load()
