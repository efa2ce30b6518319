"""Several sinks in one process: one session, one that fails stops alone, and a stop ends all."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from urllib.request import urlopen

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.heartbeat import Phase, read_heartbeat
from kafka_s3.model.errors import Fenced, RecordError
from kafka_s3.model.protocols import join_observers
from kafka_s3.run.logs import LogObserver
from kafka_s3.run.spark.process import FailedSink, Process, SharedSession, exit_code, run_side_by_side
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.running import metering
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.process import free_ports
from tests.support.kafka import Given, document, produce
from tests.support.log_lines import shown
from tests.support.s3_proxy import LateRequest, Proxy, Rule, Which
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually


def phase(settings: Settings) -> Phase | None:
    """What the sink's heartbeat says."""
    beat = read_heartbeat(S3Store(store_options(settings)), state_paths(settings))
    return None if beat is None else beat.phase


@pytest.mark.nightly
def test_a_sink_that_fails_stops_alone_and_a_stop_ends_the_others(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    good, other, broken = topic("good"), topic("other"), topic("broken")
    (port,) = free_ports(1)
    quick = {"flush.size": "2", "poll.interval.ms": "100", "metrics.prometheus.port": str(port)}
    sinks = [
        resolved(validate({**here.config(name, **quick), "name": name}).usable()) for name in (good, other, broken)
    ]
    for name in (good, other):
        produce(here.servers, name, [Given(document(n=n)) for n in range(2)])
    produce(here.servers, broken, [Given(b"{broken")])
    stop, failed = Event(), list[FailedSink]()
    with shown() as lines, metering(sinks) as meters:
        session = SharedSession(lambda: here.spark, sinks=len(sinks))
        shared = Process(session, stop, meters, available_now=False, close=None)
        work = Thread(
            target=lambda: failed.extend(
                run_side_by_side(sinks, lambda one: shared.run(one, join_observers(LogObserver())))
            )
        )
        work.start()
        eventually(lambda: phase(sinks[2]) is Phase.FAILED, what=lines.getvalue)
        produce(here.servers, good, [Given(document(n=n)) for n in range(2, 4)])
        eventually(lambda: len(here.bucket.data_keys()) == 3, what=lines.getvalue)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        stop.set()
        work.join(120)
        assert not work.is_alive()
    assert [phase(one) for one in sinks] == [Phase.STOPPED, Phase.STOPPED, Phase.FAILED]
    (failure,) = failed
    assert (failure.sink, type(failure.error), exit_code(failed)) == (broken, RecordError, 1)
    reported = lines.getvalue().splitlines()
    assert all(any(f"sink={name}" in line for name in (good, other, broken)) for line in reported), reported
    assert any("CRITICAL" in line and f"sink={broken}" in line and "offset=0" in line for line in reported)
    for name, running in ((good, 1), (other, 1), (broken, 0)):
        assert f'kafka_s3_phase{{phase="running",sink="{name}"}} {running}.0' in page


@pytest.mark.nightly
def test_sinks_of_a_process_that_hang_are_fenced_or_read_huge_records_cost_the_others_no_record(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    good, hanging, fenced, huge = (topic(name) for name in ("good", "hanging", "fenced", "huge"))
    with Proxy(here.s3.endpoint_url) as proxy:
        proxy.add(Rule(Which("PUT", key=f"/{hanging}/"), LateRequest(30), times=None, seconds=30))
        proxy.add(Rule(Which("POST", key=f"/{hanging}/"), LateRequest(30), times=None, seconds=30))
        quick = {
            "flush.size": "2",
            "poll.interval.ms": "100",
            "s3.part.size": "5242880",
            "writer.memory.bytes": "16777216",
        }
        by_name = {
            name: resolved(validate({**here.config(name, **quick), "name": name, "store.url": proxy.url}).usable())
            for name in (good, hanging, fenced, huge)
        }
        for name in (good, hanging, fenced):
            produce(here.servers, name, [Given(document(n=n)) for n in range(2)])
        produce(here.servers, huge, [Given(document(n=n, text="x" * 900_000)) for n in range(60)])
        stop, failed = Event(), list[FailedSink]()
        with shown() as lines:
            shared = Process(SharedSession(lambda: here.spark, sinks=4), stop, None, available_now=False, close=None)
            work = Thread(
                target=lambda: failed.extend(
                    run_side_by_side([*by_name.values()], lambda one: shared.run(one, join_observers(LogObserver())))
                )
            )
            work.start()
            eventually(lambda: any(f"/{fenced}/" in key for key in here.bucket.data_keys()), what=lines.getvalue)
            here.sink({**here.config(fenced, **quick), "name": fenced}).open()
            produce(here.servers, fenced, [Given(document(n=n)) for n in range(2, 4)])
            for n in range(2, 12, 2):
                produce(here.servers, good, [Given(document(n=n)), Given(document(n=n + 1))])
                wanted = n // 2 + 1
                eventually(lambda: found(here, good) >= wanted, what=lines.getvalue)  # noqa: B023 - called at once
            eventually(lambda: (found(here, huge), found(here, hanging)) == (30, 1), what=lines.getvalue)
            stop.set()
            work.join(120)
            assert not work.is_alive()
    assert [(one.sink, type(one.error)) for one in failed] == [(fenced, Fenced)]
    for name, records in ((good, 12), (hanging, 2), (huge, 60)):
        keys = [key for key in here.bucket.data_keys() if f"/{name}/" in key]
        assert [row["n"] for key in keys for row in here.bucket.rows(key)] == list(range(records))


def found(here: Surroundings, topic: str) -> int:
    """How many objects of a topic there are."""
    return sum(f"/{topic}/" in key for key in here.bucket.data_keys())
