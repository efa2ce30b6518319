"""What a running sink says of itself, who may say it, and that saying it never stops the sink."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_s3.connect.config.settings import masking
from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.heartbeat import (
    STATES,
    WHY_LIMIT,
    Delay,
    Heartbeat,
    HeartbeatWriter,
    Limits,
    Phase,
    StateSince,
    Tally,
    beating,
    may_replace,
    read_heartbeat,
)
from kafka_s3.engine.control.status import SinkSnapshot, SinkState, check_line, health, own_state, state_history
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import Fenced, LogDamaged, RecordError, StorageUnavailable
from kafka_s3.model.files import Reason, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Observer, RoundSummary, Start
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore
from tests.support.clock import Clock
from tests.support.memory_world import ORDERS, World, settings_of

PATHS = StatePaths("_kafka_s3", "orders")
OTHER = TopicPartition("or-ders", 12)
WHOLE = Heartbeat(
    "orders", "run-1", "host", 7, "0.1.0", started_ms=1, interval_ms=1000, phase=Phase.PAUSED, beat_ms=5000, driver="host/1", epoch=3,
    version=9, last_round_ms=4, lag={ORDERS: 5, OTHER: 0}, lag_grew=2, troubled=True, warning="w", warned_ms=3, failure="f",
    request="r", flushed="x", open_problems=("topic clicks is not in Kafka",), recent=Tally(60_000, 4, 3, 1), hours=(Tally(0, 9, 9),),
    delay=Delay(1, 2), limits=Limits(5, 6, 0.5), catch_up=CatchUp(1, 2, 3.5, None, 9), states=(StateSince(7, "DEGRADED", "why"),),
)  # fmt: skip


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def pulse_of(store: Any, clock: Callable[[], int], **more: Any) -> HeartbeatWriter:
    return HeartbeatWriter(store, PATHS, interval_ms=1000, clock_ms=clock, **more)


def shown(store: MemoryStore) -> Heartbeat:
    found = read_heartbeat(store, PATHS)
    assert found is not None
    return found


def done(lag: int, version: int = 3) -> RoundSummary:
    return RoundSummary(version, 0, 900, 1, Totals(), (), {}, {ORDERS: lag})


def test_a_heartbeat_is_read_back_as_it_was_written(store: MemoryStore) -> None:
    store.put(PATHS.heartbeat(), WHOLE.to_json())
    assert shown(store) == WHOLE
    assert read_heartbeat(store, StatePaths("_kafka_s3", "none")) is None


def test_a_heartbeat_of_a_later_version_with_more_members_can_be_read(store: MemoryStore) -> None:
    store.put(PATHS.heartbeat(), json.dumps({**json.loads(WHOLE.to_json()), "mood": "good"}).encode())
    assert shown(store) == WHOLE


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"phase": "dancing", "lag": {}}', b'{"phase": "paused", "lag": []}']
)
def test_a_damaged_heartbeat_is_named_with_its_key(store: MemoryStore, content: bytes) -> None:
    store.put(PATHS.heartbeat(), content)
    with pytest.raises(LogDamaged, match=r"_kafka_s3/orders/heartbeat\.json"):
        read_heartbeat(store, PATHS)


@pytest.mark.parametrize(
    "forged",
    [
        {"pid": "\x1b[2J"},
        {"interval_ms": None},
        {"totals": {"read": "1"}},
        {"warning": 7},
        {"recent": {"read": []}},
        {"delay": "x"},
        {"catch_up": {"since_ms": "x", "unread": 1}},
        {"states": [{"at_ms": 1, "state": 7}]},
    ],
)
def test_a_heartbeat_of_other_types_is_damaged_and_ends_no_command(store: MemoryStore, forged: dict[str, Any]) -> None:
    store.put(PATHS.heartbeat(), json.dumps(json.loads(WHOLE.to_json()) | forged).encode())
    with pytest.raises(LogDamaged, match="cannot be read"):
        read_heartbeat(store, PATHS)


def test_a_run_is_alive_for_three_intervals_and_not_after_it_ended() -> None:
    assert WHOLE.alive(5000 + 3000)
    assert not WHOLE.alive(5000 + 3001)
    assert not replace(WHOLE, phase=Phase.STOPPED).alive(5000)


@pytest.mark.parametrize(
    ("existing", "epoch", "may"),
    [
        (None, 0, True),
        (replace(WHOLE, run="own"), 0, True),
        (WHOLE, 4, True),
        (WHOLE, 3, False),
        (WHOLE, 0, False),
        (replace(WHOLE, phase=Phase.FAILED), 0, True),
        (replace(WHOLE, beat_ms=0), 1, True),
        (replace(WHOLE, beat_ms=0, started_ms=2), 1, False),
        (replace(WHOLE, phase=Phase.STOPPED, started_ms=2), 4, True),
    ],
)
def test_a_successor_is_not_written_over(existing: Heartbeat | None, epoch: int, may: bool) -> None:
    own = replace(WHOLE, run="own", epoch=epoch)
    assert may_replace(existing, own, 6000) is may


def test_the_loop_is_mirrored(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    heartbeat_writer.beat()
    assert (shown(store).phase, shown(store).version, shown(store).epoch) == (Phase.STARTING, -1, 0)
    heartbeat_writer.started(Start("orders", 4, 2, Totals(), 1, 10))
    heartbeat_writer.claimed("host/abc")
    heartbeat_writer.doing(Phase.RUNNING, "request-1")
    heartbeat_writer.round_done(done(6))
    clock.now = 2_000
    heartbeat_writer.beat()
    beat = shown(store)
    assert (beat.phase, beat.epoch, beat.version, beat.driver, beat.request) == (
        Phase.RUNNING,
        4,
        3,
        "host/abc",
        "request-1",
    )
    assert (beat.lag, beat.last_round_ms, beat.beat_ms) == ({ORDERS: 6}, 900, 2_000)


def test_a_heartbeat_says_when_lag_was_measured_and_an_older_one_may_lack_it(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    assert heartbeat_writer.current.looked_ms is None
    heartbeat_writer.round_done(replace(done(6), polled_ms=800))
    assert heartbeat_writer.current.looked_ms == 800
    heartbeat_writer.worked({ORDERS: 0}, 950)
    heartbeat_writer.beat()
    assert shown(store).looked_ms == 950
    older = {name: value for name, value in json.loads(WHOLE.to_json()).items() if name != "looked_ms"}
    store.put(PATHS.heartbeat(), json.dumps(older).encode())
    assert shown(store) == WHOLE


def test_a_sink_that_has_just_started_shows_its_lag(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    start = Start(
        "orders", 4, 2, Totals(), 1, 7000, lag={ORDERS: 7000}, polled_ms=990, open_problems=("topic b is not in Kafka",)
    )
    heartbeat_writer.started(start)
    heartbeat_writer.ended(RecordError("bad"))  # in the first round
    heartbeat_writer.beat()
    beat = shown(store)
    assert (beat.lag, beat.looked_ms, beat.open_problems) == ({ORDERS: 7000}, 990, ("topic b is not in Kafka",))


def test_the_share_of_dead_letters_is_that_of_the_last_hour_of_this_run_and_is_warned_of_once(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    before = pulse_of(store, clock)
    before.round_done(round_of(100, 90, ended_ms=0))
    before.beat()
    heartbeat_writer = pulse_of(store, clock)
    heartbeat_writer.remember()
    assert (heartbeat_writer.current.recent.read, heartbeat_writer.current.hours) == (0, (Tally(0, 100, 10, 90),))
    heartbeat_writer.round_done(round_of(100, 5, ended_ms=1_000))
    assert caplog.messages == ["Sink orders: 90% of the 100 records of the last hour became dead letters, more than 5.00% "
                               "(health.deadletter.max.ratio)."]  # fmt: skip
    for minute in range(1, 4):
        heartbeat_writer.round_done(round_of(100, 20, ended_ms=minute * 60_000))
    assert len(caplog.messages) == 2
    assert heartbeat_writer.current.recent == Tally(0, 400, 335, 65)
    clock.now = 3 * 3_600_000
    heartbeat_writer.beat()
    assert shown(store).recent.read == 0


def round_of(read: int, dead: int, *, ended_ms: int) -> RoundSummary:
    return RoundSummary(3, 0, ended_ms, read, Totals(read, read - dead, dead), (), {}, {})


def test_what_is_wrong_is_reported_until_it_is_over(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    heartbeat_writer.worked({}, 5, open_problems=["topic b is not in Kafka"])
    assert heartbeat_writer.current.open_problems == ("topic b is not in Kafka",)
    heartbeat_writer.worked({}, 6)
    assert heartbeat_writer.current.open_problems == ()


def test_what_cannot_follow_the_log_is_reported_and_leaves_the_sinks_work_and_lag_as_they_are(
    store: MemoryStore, clock: Clock
) -> None:
    """A warning of a Delta table made the sink's lag unknown."""
    heartbeat_writer = pulse_of(store, clock)
    heartbeat_writer.doing(Phase.RUNNING, "")
    heartbeat_writer.follower_warned("Delta tables: orders refuses.")
    heartbeat_writer.worked(
        {ORDERS: 7}, clock(), behind=["Delta tables: the table of orders does not follow since 10:00"]
    )
    heartbeat_writer.beat()
    found = shown(store)
    assert (found.troubled, found.warning) == (False, "Delta tables: orders refuses.")
    assert found.behind == ("Delta tables: the table of orders does not follow since 10:00",)
    known = SinkSnapshot("orders", LogState(3, 1, totals=Totals(read=1)), heartbeat=found, seen_ms=clock())
    assert (str(known.lag), health(known).state) == ("7", SinkState.DEGRADED)
    line, well = check_line(known)
    assert not well
    assert "does not follow since 10:00. Lag: 7 records" in line
    heartbeat_writer.worked({ORDERS: 7}, clock())
    assert heartbeat_writer.current.behind == ()


def test_the_loop_says_when_it_last_looked() -> None:
    looked: list[int | None] = []

    class Rounds(Observer):
        def round_done(self, done: RoundSummary) -> None:
            looked.append(done.polled_ms)

    world = World({"flush.size": "2"})
    world.add(range(4))
    world.start().observer = Rounds()
    assert world.sink.polled_ms is None
    world.now += 5_000
    world.sink.poll_and_commit()
    looked_ms, world.now = world.now, world.now + 60_000
    world.sink.drain(close=Reason.FLUSH_NOW)  # works on what the look before has seen
    assert world.sink.polled_ms == looked_ms
    assert set(looked) == {looked_ms}


def test_trouble_lasts_until_a_look_without_warnings(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    heartbeat_writer.warned("Kafka is away.")
    assert (
        heartbeat_writer.current.troubled,
        heartbeat_writer.current.warning,
        heartbeat_writer.current.warned_ms,
    ) == (True, "Kafka is away.", 1_000)
    heartbeat_writer.worked({ORDERS: 0})  # the warning came in this look: a follower's
    assert heartbeat_writer.current.troubled
    heartbeat_writer.worked({ORDERS: 0})
    assert (heartbeat_writer.current.troubled, heartbeat_writer.current.warning) == (False, "Kafka is away.")


def test_lag_counts_as_growing_only_over_heartbeats_that_follow_a_commit(store: MemoryStore, clock: Clock) -> None:
    heartbeat_writer = pulse_of(store, clock)
    grew = []
    for lag in (5, 6, 7, 8, 2):
        heartbeat_writer.round_done(done(lag))
        heartbeat_writer.beat()
        grew.append(shown(store).lag_grew)
    assert grew == [0, 1, 2, 3, 0]
    for lag in (10, 20, 30):  # the open tail of a sink that closes files by the hour
        heartbeat_writer.worked({ORDERS: lag})
        heartbeat_writer.beat()
    assert (shown(store).lag_grew, shown(store).lag) == (0, {ORDERS: 30})


def test_a_bucket_that_refuses_heartbeats_is_reported_once_and_stops_nothing(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: str) -> None:
        raise StorageUnavailable("PutObject failed: SlowDown.")

    heartbeat_writer = pulse_of(FaultyStore(store, [Fault("put", refuse, nth=None)]), clock)
    heartbeat_writer.beat()
    heartbeat_writer.beat()
    assert [record.message for record in caplog.records] == [
        "The heartbeat could not be written; the sink goes on: StorageUnavailable: PutObject failed: SlowDown."
    ]


def test_a_run_ends_as_stopped_or_as_failed_with_its_reason(store: MemoryStore, clock: Clock) -> None:
    with beating(pulse_of(store, clock)):
        pass
    assert shown(store).phase is Phase.STOPPED
    with pytest.raises(RecordError), beating(pulse_of(store, clock)):
        raise RecordError("Sink orders stops at a record.")
    assert (shown(store).phase, shown(store).failure) == (Phase.FAILED, "RecordError: Sink orders stops at a record.")
    with pytest.raises(KeyboardInterrupt), beating(pulse_of(store, clock)):
        raise KeyboardInterrupt
    assert shown(store).phase is Phase.STOPPED


def test_a_driver_that_was_fenced_leaves_the_heartbeat_of_its_successor(store: MemoryStore, clock: Clock) -> None:
    successor = pulse_of(store, clock)
    fenced = pulse_of(store, clock)
    fenced.started(Start("orders", 4, 2, Totals(), 1, 0))
    fenced.beat()
    successor.started(Start("orders", 5, 3, Totals(), 1, 0))
    successor.beat()
    with pytest.raises(Fenced), beating(fenced):
        raise Fenced("Owned by another driver.")
    assert (shown(store).epoch, shown(store).phase) == (5, Phase.STARTING)


def test_a_fenced_driver_without_a_successor_that_beats_ends_in_silence(store: MemoryStore, clock: Clock) -> None:
    fenced = pulse_of(store, clock)
    fenced.beat()
    with pytest.raises(Fenced), beating(fenced):
        raise Fenced("Owned by another driver.")
    assert shown(store).phase is Phase.STARTING


def test_a_restart_knows_which_flush_was_done(store: MemoryStore, clock: Clock) -> None:
    store.put(PATHS.heartbeat(), replace(WHOLE, phase=Phase.STOPPED).to_json())
    with beating(pulse_of(store, clock)) as heartbeat_writer:
        assert heartbeat_writer.current.flushed == "x"


def test_no_secret_and_no_foreign_text_gets_into_the_bucket(store: MemoryStore, clock: Clock) -> None:
    settings = settings_of({"flush.size": "3", "aws.access.key.id": "AKIA", "aws.secret.access.key": "canary-3f2a"})
    heartbeat_writer = pulse_of(store, clock, mask=masking(settings))
    heartbeat_writer.warned("refused: canary-3f2a")
    heartbeat_writer.ended(ValueError("record 5 holds canary-77"))
    heartbeat_writer.beat()
    stored = store.get(PATHS.heartbeat())
    assert b"canary" not in stored
    assert shown(store).warning == "refused: ****"
    assert shown(store).failure.startswith("ValueError, ")


def states_of(store: MemoryStore) -> list[tuple[int, str, str]]:
    return [(one.at_ms, one.state, one.why) for one in shown(store).states]


def test_the_states_of_a_sink_are_kept_over_runs_and_silence(store: MemoryStore, clock: Clock) -> None:
    first = pulse_of(store, clock, judge=own_state)
    first.started(Start("orders", 1, 0, Totals(1, 1), 1, 0, polled_ms=1000))
    first.doing(Phase.RUNNING, "")
    for clock.now, problems in (
        (2000, ()),
        (3000, ("topic clicks is not in Kafka",)),
        (4000, ("another",)),
        (5000, ()),
    ):
        first.worked({ORDERS: 0}, clock.now, open_problems=problems)
        first.beat()
    clock.now = 60_000  # it was killed, and nobody wrote
    second = pulse_of(store, clock, judge=own_state)
    second.remember()
    second.started(Start("orders", 2, 0, Totals(1, 1), 1, 0, polled_ms=1000))
    second.doing(Phase.RUNNING, "")
    second.beat()
    clock.now = 70_000
    second.ended(RecordError("broken"))
    second.beat()
    found = states_of(store)
    assert [(at, state) for at, state, _ in found] == [
        (2000, "RUNNING"), (3000, "DEGRADED"), (5000, "RUNNING"), (8000, "STALE"), (60_000, "RUNNING"), (70_000, "FAILED"),
    ]  # fmt: skip
    assert found[1][2] == "topic clicks is not in Kafka"
    assert "broken" in found[-1][2]
    known = SinkSnapshot("orders", heartbeat=shown(store), seen_ms=80_000)
    assert health(known).since_ms == 70_000


def test_a_sink_that_fell_silent_is_stale_since_its_third_missing_heartbeat(store: MemoryStore, clock: Clock) -> None:
    writer = pulse_of(store, clock, judge=own_state)
    writer.started(Start("orders", 1, 0, Totals(1, 1), 1, 0, polled_ms=1000))
    writer.doing(Phase.RUNNING, "")
    writer.beat()
    known = SinkSnapshot("orders", heartbeat=shown(store), seen_ms=100_000)
    assert (health(known).state, health(known).since_ms) == (SinkState.STALE, 4000)
    assert [one.state for one in state_history(known)] == ["RUNNING", "STALE"]


def test_the_history_of_states_is_bounded_in_bytes(store: MemoryStore, clock: Clock) -> None:
    writer = pulse_of(store, clock, judge=own_state)
    writer.started(Start("orders", 1, 0, Totals(1, 1), 1, 0, polled_ms=1000))
    writer.doing(Phase.RUNNING, "")
    for number in range(3 * STATES):
        clock.now += 1000
        writer.worked({}, clock.now, open_problems=["x" * 5000] if number % 2 else [])
        writer.beat()
    found = shown(store).states
    assert len(found) == STATES
    assert max(len(one.why) for one in found) == WHY_LIMIT
    assert found[-1].at_ms == clock.now
