"""By when a sink that is behind has caught up, from its polls and commits; and nothing of the kind of one that is not behind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.control.catch_up import BEHIND_MS, CatchUp, CatchUpMeter
from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Phase, read_heartbeat
from kafka_s3.engine.control.status import SinkSnapshot
from kafka_s3.model.files import Totals
from kafka_s3.model.protocols import Start, TopicBacklog
from kafka_s3.store.memory import MemoryStore
from tests.support.clock import Clock
from tests.support.examples import examples
from tests.support.memory_world import ORDERS
from tests.unit.engine.control.test_heartbeat import PATHS

SECOND, MINUTE = 1000, 60_000


def drained(meter: CatchUpMeter, *, began_ms: int, found: int, per_s: int, ms: int) -> int:
    """A poll that found so many, and commits every ten seconds at this pace for so long; what is left."""
    meter.seen(began_ms, found)
    for now in range(began_ms + 10_000, began_ms + ms + 1, 10_000):
        meter.seen(now, left := max(found - per_s * (now - began_ms) // 1000, 0))
    return left


def test_a_sink_that_does_at_once_what_it_finds_is_not_behind_however_much_waits_for_its_file() -> None:
    meter = CatchUpMeter()
    for minute in range(120):
        meter.seen(minute * MINUTE, 5_000 * minute)  # an hourly sink: what waits grows
        meter.worked(minute * MINUTE + 900)
        assert meter.estimate(minute * MINUTE + 1000) is None


def test_a_backlog_has_a_pace_and_an_end() -> None:
    meter = CatchUpMeter()
    left = drained(meter, began_ms=0, found=1_000_000, per_s=1000, ms=2 * MINUTE)
    assert left == 880_000
    found = meter.estimate(2 * MINUTE)
    assert found == CatchUp(0, 880_000, 1000.0, None, 2 * MINUTE + 880 * SECOND)
    assert found.text(2 * MINUTE) == (
        "880,000 records unread, behind for 2 min; 1,000 are read each second, unknown how many arrive; caught up in 14 min"
    )


def test_before_the_first_commit_nothing_is_said_of_the_end() -> None:
    meter = CatchUpMeter()
    meter.seen(0, 1_000_000)
    assert meter.estimate(BEHIND_MS - 1) is None
    found = meter.estimate(BEHIND_MS)
    assert found is not None
    assert (found.measured, found.until_ms, found.until_text(BEHIND_MS)) == (False, None, "unknown")


def test_what_arrived_while_the_sink_was_away_keeps_arriving() -> None:
    meter = CatchUpMeter()
    meter.started(1000 * SECOND, 500_000, before_ms=0, before=0)  # 500 a second
    drained(meter, began_ms=1000 * SECOND, found=500_000, per_s=1500, ms=100 * SECOND)
    found = meter.estimate(1100 * SECOND)
    assert found is not None
    assert found.arriving_per_s == pytest.approx(500)
    assert found.unread == 400_000  # 350,000 of the poll's, and 50,000 since
    assert found.until_ms == 1100 * SECOND + 400 * SECOND


def test_a_sink_that_reads_less_than_arrives_never_catches_up_at_this_pace() -> None:
    meter = CatchUpMeter()
    meter.started(1000 * SECOND, 5_000_000, before_ms=0, before=0)
    drained(meter, began_ms=1000 * SECOND, found=5_000_000, per_s=1500, ms=100 * SECOND)
    found = meter.estimate(1100 * SECOND)
    assert found is not None
    assert (found.until_ms, found.until_text(0)) == (None, "not caught up at this pace")


@given(arriving=st.integers(0, 900), backlog=st.integers(200_000, 5_000_000))
@settings(max_examples=examples(30))
def test_an_estimate_comes_true_where_the_pace_stays(arriving: int, backlog: int) -> None:
    """The loop polls, works off what the poll found at 1,000 a second, and polls again, until it is at the heads."""
    meter, now, read = CatchUpMeter(), 1000 * SECOND, 0
    meter.started(now, backlog, before_ms=0, before=max(backlog - arriving * 1000, 0))
    estimates = []
    arriving_known = min(arriving, backlog / 1000)
    while True:
        heads = backlog + arriving_known * (now - 1000 * SECOND) / 1000
        found, began = round(heads - read), now
        meter.seen(now, found)
        while found > 0:
            step = min(found, 5000)
            now, found, read = now + step, found - step, read + step
            meter.seen(now, found)
            if (one := meter.estimate(now)) is not None and one.until_ms is not None:
                estimates.append((now, one.until_ms))
        meter.worked(now)
        if meter.estimate(now) is None and now - began < BEHIND_MS:
            break
    end = now
    assert estimates
    for at, until in estimates:
        assert abs(until - end) <= 2 * BEHIND_MS + 0.1 * (end - at)


def test_a_heartbeat_says_by_when_and_a_pause_or_an_end_takes_it_away() -> None:
    clock, store = Clock(1_000_000), MemoryStore()
    writer = HeartbeatWriter(store, PATHS, interval_ms=10_000, clock_ms=clock)
    writer.started(Start("orders", 1, 0, Totals(), 1, 100_000, lag={ORDERS: 100_000}, polled_ms=clock.now))
    for waits in (100_000, 90_000, 80_000, 70_000):
        writer.polled(lambda waits=waits: {"orders": TopicBacklog(waits, unread=waits)})  # type: ignore[misc]
        clock.now += 30_000
    writer.doing(Phase.RUNNING, "")
    writer.beat()
    beat = read_heartbeat(store, PATHS)
    assert beat is not None
    assert beat.catch_up is not None
    assert beat.catch_up.unread == 70_000
    assert SinkSnapshot("orders", heartbeat=beat, seen_ms=clock.now).catch_up == beat.catch_up
    assert SinkSnapshot("orders", heartbeat=beat, seen_ms=clock.now + MINUTE).catch_up is None  # nobody is at work
    writer.doing(Phase.PAUSED, "request")
    writer.beat()
    beat = read_heartbeat(store, PATHS)
    assert beat is not None
    assert beat.catch_up is None
