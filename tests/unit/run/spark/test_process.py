"""What becomes of the other sinks of a process when one of them fails."""

from __future__ import annotations

import logging
import threading
from threading import Barrier, Event, Timer, get_ident

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem, RecordError, SinkError, StorageUnavailable, TopicMissing
from kafka_s3.model.process import ThreadPool, start_daemon
from kafka_s3.run.spark.process import FailedSink, SharedSession, exit_code, idle_s, run_side_by_side
from tests.support.log_lines import shown
from tests.support.memory_world import settings_of
from tests.support.waiting import eventually

WRONG = ConfigError([Problem("delta.writer", "spark", "cannot write tables here.")])


def test_all_work_at_once_and_one_that_fails_is_reported_and_holds_up_nobody() -> None:
    sinks = [settings_of({"name": name, "flush.size": "3"}) for name in ("good", "bad", "other")]
    met, done = Barrier(3, timeout=60), list[str]()

    def work(settings: Settings) -> None:
        met.wait()  # all three are under way
        if settings.name == "bad":
            raise RecordError("a record is broken", {"topic": "orders", "offset": 7})
        with ThreadPool(2) as pool:
            list(pool.map(logging.getLogger("kafka_s3.store").info, ["request is tried again"]))
        start_daemon(lambda: logging.getLogger("kafka_s3.engine.control").info("beats"), "heartbeat").join()
        done.append(settings.name)

    with shown(verbosity=1) as log:
        (failed,) = run_side_by_side(sinks, work)
    assert (failed.sink, sorted(done)) == ("bad", ["good", "other"])
    lines = log.getvalue().splitlines()
    assert all(any(f" sink={name}" in line for name in ("good", "bad", "other")) for line in lines), lines
    assert sum("request is tried again" in line for line in lines) == 2
    assert any("CRITICAL" in line and "sink=bad" in line and "offset=7" in line for line in lines)


def test_a_failure_that_is_none_of_ours_is_reported_with_its_trace() -> None:
    def work(settings: Settings) -> None:
        raise ZeroDivisionError("not for the bucket")

    sinks = [settings_of({"name": name, "flush.size": "3"}) for name in ("a", "b")]
    with shown() as log:
        assert len(run_side_by_side(sinks, work)) == 2
    assert log.getvalue().count("ZeroDivisionError: not for the bucket") == 2


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([], 0),
        ([StorageUnavailable("away")], 1),
        ([WRONG, WRONG], 2),
        ([WRONG, StorageUnavailable("away")], 1),
        ([TopicMissing("no topic")], 4),
        ([TopicMissing("no topic"), WRONG], 1),
    ],
)
def test_the_exit_code_says_whether_another_start_may_mend_something(errors: list[SinkError], code: int) -> None:
    assert exit_code([FailedSink("orders", error) for error in errors]) == code


class Session:
    """What the shared session asks of Spark's."""

    def __init__(self) -> None:
        self.thread, self.stopped = get_ident(), 0

    def stop(self) -> None:
        self.stopped += 1


def test_a_session_starts_once_beside_the_callers_work_and_ends_with_it() -> None:
    asked, started = Event(), list[Session]()

    def start() -> Session:
        assert asked.wait(60)
        started.append(Session())
        return started[-1]

    shared = SharedSession(start, sinks=1)  # type: ignore[arg-type]
    shared.begin()
    asked.set()  # reached while it starts
    assert shared.for_sink("orders") is shared.for_sink("payments") is started[0]  # type: ignore[comparison-overlap]
    shared.close()
    assert (len(started), started[0].stopped, started[0].thread == get_ident()) == (1, 1, False)


def test_a_session_ends_when_nobody_has_used_it_for_a_while_and_the_next_use_begins_another() -> None:
    started = list[Session]()

    def start() -> Session:
        started.append(Session())
        return started[-1]

    shared = SharedSession(start, sinks=1, idle_s=0.05)  # type: ignore[arg-type]
    one, other = shared.turns_of("orders"), shared.turns_of("payments")
    with one.used() as first:
        with other.used() as second:
            assert first is second
        eventually(lambda: not any(isinstance(thread, Timer) for thread in threading.enumerate()), what=str)
        assert started[0].stopped == 0, "one of them still uses it"
    eventually(lambda: started[0].stopped == 1, what=lambda: str(started[0].stopped))
    with one.used() as third:
        assert third is started[1]  # type: ignore[comparison-overlap]
    shared.close()
    assert [session.stopped for session in started] == [1, 1]


def test_a_start_that_fails_once_is_tried_again_with_the_next_use() -> None:
    """Spark begins again in the midst of a sink's life: a machine that is short of memory then must not stop the sink for good."""
    outcomes: list[Session | StorageUnavailable] = [StorageUnavailable("no memory"), Session()]

    def start() -> Session:
        outcome = outcomes.pop(0)
        if isinstance(outcome, StorageUnavailable):
            raise outcome
        return outcome

    shared = SharedSession(start, sinks=1, idle_s=60)  # type: ignore[arg-type]
    turns = shared.turns_of("orders")
    with pytest.raises(StorageUnavailable), turns.used():
        pass
    with turns.used() as session:
        assert session.stopped == 0  # type: ignore[attr-defined]
    shared.close()


def test_a_session_that_one_sink_holds_for_good_never_ends() -> None:
    session, before = Session(), threading.enumerate()  # a timer of the test before may still be about to end
    shared = SharedSession(lambda: session, sinks=2, idle_s=0.0)  # type: ignore[arg-type, return-value]
    shared.for_sink("with a table")
    with shared.turns_of("orders").used():
        pass
    assert not any(isinstance(thread, Timer) for thread in threading.enumerate() if thread not in before)
    assert session.stopped == 0
    shared.close()
    assert session.stopped == 1


@pytest.mark.parametrize(("limits", "seconds"), [(["1000"], 1.0), (["1000", "5000"], 5.0), (["0", "5000"], None)])
def test_the_most_patient_sink_of_a_process_says_when_spark_ends(limits: list[str], seconds: float | None) -> None:
    sinks = [settings_of({"name": "orders", "flush.size": "3", "spark.idle.ms": limit}) for limit in limits]
    assert idle_s(sinks) == seconds


def test_a_start_that_fails_is_the_error_of_whoever_needs_the_session_and_of_nobody_else() -> None:
    def start() -> Session:
        raise StorageUnavailable("no jars")

    shared = SharedSession(start, sinks=1)  # type: ignore[arg-type]
    shared.begin()
    shared.close()
    with pytest.raises(StorageUnavailable, match="no jars"):
        shared.for_sink("orders")
    SharedSession(start, sinks=1).close()  # type: ignore[arg-type]
