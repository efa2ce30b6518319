"""What is kept of the last hours, and how late records are."""

from __future__ import annotations

import pytest

from kafka_s3.engine.control.heartbeat import (
    DEFAULT_LIMITS,
    Delay,
    Limits,
    Tally,
    add_tally,
    dead_letters_text,
    delay_of,
    percent,
)
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.run.wiring.running import health_limits
from tests.support.memory_world import settings_of


def file(first: int | None, last: int | None, records: int, role: Role = Role.VALUE) -> DataFile:
    return DataFile(
        "k",
        "t",
        0,
        0,
        records - 1,
        records,
        1,
        first,
        last,
        "",
        "",
        "json",
        Reason.FLUSH_SIZE,
        Upload("k", "u", (), 1),
        role,
    )


def test_counts_are_kept_by_steps_and_old_steps_go() -> None:
    tallies: tuple[Tally, ...] = ()
    for at_ms, read in ((5, 1), (9, 2), (12, 4), (31, 8)):
        tallies = add_tally(tallies, Tally(at_ms, read, read, 0), step_ms=10, most=3)
    assert tallies == (Tally(10, 4, 4), Tally(30, 8, 8))
    assert add_tally(tallies, Tally(18, 1, 0, 1), step_ms=10, most=3)[0] == Tally(10, 5, 4, 1)


def test_delay_is_the_time_from_record_to_commit_weighed_by_records() -> None:
    assert delay_of([file(1_000, 1_000, 5)], 3_000) == Delay(2_000, 2_000)
    assert delay_of([file(0, 1_000, 1)], 1_000) == Delay(500, 1_000)
    assert delay_of([file(900, 900, 99), file(0, 0, 1)], 1_000) == Delay(100, 100)
    assert delay_of([file(900, 900, 90), file(0, 0, 10)], 1_000) == Delay(100, 1_000)
    assert delay_of([file(2_000, 2_000, 1)], 1_000) == Delay(0, 0)  # a producer's clock may be ahead


def test_files_without_times_and_those_of_no_values_show_no_delay() -> None:
    assert delay_of([file(None, None, 1), file(0, 0, 1, Role.KEY)], 1_000) is None


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.000001, "0.01%"), (0.0004, "0.04%"), (0.5, "50%"), (0.999999, "99.99%"), (1, "100%")],
)
def test_nearly_all_is_not_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_limits_come_from_the_configuration_and_off_is_off() -> None:
    assert health_limits(settings_of({"flush.size": "1"})) == DEFAULT_LIMITS == Limits(None, None, 0.05)
    config = {
        "flush.size": "1",
        "health.lag.max.records": "9",
        "health.delay.max.ms": "8",
        "health.deadletter.max.ratio": "1",
    }
    assert health_limits(settings_of(config)) == Limits(9, 8, None)
    assert (
        dead_letters_text(Tally(0, 1, 0, 1), Limits(dead_letters=None))
        == dead_letters_text(Tally(0), DEFAULT_LIMITS)
        == ""
    )
