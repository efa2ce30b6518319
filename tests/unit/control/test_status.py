"""Which state a sink is in, by what the bucket says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.commit.entry import Progress
from kafka_s3.commit.log import CommitLog
from kafka_s3.commit.state import LogState
from kafka_s3.control.commands import CommandRequest, Control, ask_pause
from kafka_s3.control.heartbeat import Heartbeat, Phase
from kafka_s3.control.sinks import all_known, known_of, sink_names
from kafka_s3.control.status import GREW_OFTEN, SinkSnapshot, SinkState, Standpoint, age, health, sink_id, standpoints
from kafka_s3.model.files import Totals
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.memory import MemoryStore
from tests.support.memory_world import ORDERS, World

NOW = 1_000_000
BEAT = Heartbeat(
    "orders", "run", "host", 7, "0.1.0", started_ms=0, interval_ms=10_000, phase=Phase.RUNNING, beat_ms=NOW - 2_000, driver="host/1",
    epoch=2, version=5,
)  # fmt: skip
LOG = LogState(version=5, epoch=2, totals=Totals(10, 10, 0, 0, 1, 100))
KNOWN = SinkSnapshot("orders", LOG, "2024-01-15T10:00:00.000Z", BEAT, None, True)
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
        (SinkSnapshot("orders", damage="Commit entry x is damaged."), SinkState.UNKNOWN, "damaged"),
    ],
)
def test_the_state_follows_from_log_heartbeat_and_control(known: SinkSnapshot, state: SinkState, words: str) -> None:
    found = health(known, NOW)
    assert found.state is state
    assert words in found.reason


def test_an_id_is_short_and_stays() -> None:
    assert sink_id("bucket", "orders") == "ks3-67f788"
    assert sink_id("bucket", "orders") != sink_id("bucket", "payments")


def test_every_topic_partition_of_log_and_heartbeat_has_a_line() -> None:
    other = TopicPartition("payments", 1)
    log = replace(LOG, progress={ORDERS: Progress(10, 9, OffsetSet.of([11]))})
    known = replace(KNOWN, log=log, heartbeat=replace(BEAT, lag={ORDERS: 3, other: 4}))
    assert standpoints(known) == [Standpoint(ORDERS, 10, 9, 1, 3), Standpoint(other, None, None, 0, 4)]
    assert known.lag == 7


@pytest.mark.parametrize(
    ("ms", "text"), [(-5, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_200_000, "2 h"), (200_000_000, "2 d")]
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


def test_the_bucket_tells_everything_of_a_sink_that_ran() -> None:
    world = World({"flush.size": "3"})
    world.add(range(4))
    world.start().cycle()
    committed = world.entries()[-1]
    world.now += 60_000
    world.start()  # a restart writes an epoch entry, which is no commit of data
    known = known_of(world.store, StatePaths("_kafka_s3", "orders"))
    assert (known.last_commit, known.log) == (committed.committed_at, world.log().load())
    assert health(known, world.now).state is SinkState.UNKNOWN
    ask_pause(world.store, StatePaths("_kafka_s3", "orders"), CommandRequest("r", 0, "ann"))
    assert known_of(world.store, StatePaths("_kafka_s3", "orders")).control == Control(
        True, "r", "", "1970-01-01T00:00:00.000Z", "ann"
    )


def test_a_damaged_sink_does_not_hide_the_others() -> None:
    world = World({"flush.size": "3"})
    world.start()
    world.store.put("_kafka_s3/broken/commits/00000000000000000000.json", b"{")
    broken, orders = all_known(world.store, "_kafka_s3")
    assert "00000000000000000000.json is damaged" in broken.damage
    assert (orders.name, orders.last_commit) == ("orders", "")
    assert CommitLog(world.store, StatePaths("_kafka_s3", "orders"), clock_ms=lambda: 0).load().epoch == 1
