"""What becomes of the other sinks of a process when one of them fails."""

from __future__ import annotations

import logging
from threading import Barrier

import pytest

from kafka_s3.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem, RecordError, SinkError, StorageUnavailable
from kafka_s3.model.threads import ThreadPool, beside
from kafka_s3.spark.several import FailedSink, exit_code, run_side_by_side
from tests.support.log_lines import said
from tests.support.memory_world import settings_of

WRONG = ConfigError([Problem("delta.writer", "spark", "cannot write tables here.")])


def test_all_work_at_once_and_one_that_fails_is_told_and_holds_up_nobody() -> None:
    sinks = [settings_of({"name": name, "flush.size": "3"}) for name in ("good", "bad", "other")]
    met, done = Barrier(3, timeout=60), list[str]()

    def work(settings: Settings) -> None:
        met.wait()  # all three are under way
        if settings.name == "bad":
            raise RecordError("a record is broken", {"topic": "orders", "offset": 7})
        with ThreadPool(2) as pool:
            list(pool.map(logging.getLogger("kafka_s3.storage").info, ["request is tried again"]))
        beside(lambda: logging.getLogger("kafka_s3.control").info("beats"), "heartbeat").join()
        done.append(settings.name)

    with said(verbosity=1) as log:
        (failed,) = run_side_by_side(sinks, work)
    assert (failed.sink, sorted(done)) == ("bad", ["good", "other"])
    lines = log.getvalue().splitlines()
    assert all(any(f" sink={name}" in line for name in ("good", "bad", "other")) for line in lines), lines
    assert sum("request is tried again" in line for line in lines) == 2
    assert any("CRITICAL" in line and "sink=bad" in line and "offset=7" in line for line in lines)


def test_a_failure_that_is_none_of_ours_is_told_with_its_trace() -> None:
    def work(settings: Settings) -> None:
        raise ZeroDivisionError("not for the bucket")

    sinks = [settings_of({"name": name, "flush.size": "3"}) for name in ("a", "b")]
    with said() as log:
        assert len(run_side_by_side(sinks, work)) == 2
    assert log.getvalue().count("ZeroDivisionError: not for the bucket") == 2


@pytest.mark.parametrize(
    ("errors", "code"),
    [([], 0), ([StorageUnavailable("away")], 1), ([WRONG], 2), ([WRONG, StorageUnavailable("away")], 1)],
)
def test_the_exit_code_says_whether_another_start_may_mend_something(errors: list[SinkError], code: int) -> None:
    assert exit_code([FailedSink("orders", error) for error in errors]) == code
