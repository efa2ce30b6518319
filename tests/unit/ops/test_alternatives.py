"""Are the numbers for other settings those of `simulate`, whatever was thinned?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.alternatives import BEGUN_MS, FEWER, TopicPace, alternatives, rules_of, thinned, window_of
from kafka_s3.ops.forecast import DAY_MS
from kafka_s3.ops.simulation import simulate, steady
from tests.support.configurations import FIELD, PARTITIONER, TIME
from tests.support.memory_world import settings_of

PACE = TopicPace(per_second=5, record_bytes=120, partitions=2, directories=1, files=2 * 144)


def rules(config: dict[str, Any]) -> dict[str, Any]:
    return rules_of(settings_of({"flush.size": "500", **config}))


def test_the_numbers_are_those_of_simulate_for_the_same_input() -> None:
    given = rules(TIME)
    one = thinned(given, PACE, window_ms=window_of(PACE))
    found = simulate(
        one.settings, {TopicPartition("topic", 0): steady(one.sample, one.per_second)}, begun_ms=BEGUN_MS, window_ms=one.window_ms
    )  # fmt: skip
    today = next(alternatives(given, PACE))
    assert today.reasons == found.reasons
    assert today.files == pytest.approx(5 * 86_400 / (found.written * one.times / found.files))


@pytest.mark.nightly
def test_fewer_records_with_smaller_limits_make_as_many_files_a_day_as_all_records() -> None:
    given, pace = rules({"rotate.schedule.interval.ms": "600000", "timezone": "UTC"}), replace(PACE, per_second=40.0)
    whole = replace(thinned(given, replace(pace, per_second=0.02), window_ms=DAY_MS // 24), per_second=20.0)
    values = {**whole.settings.values, "flush.size": 500}
    every = replace(whole, settings=replace(whole.settings, values=values)).forecast(lambda done: None)
    assert thinned(given, pace, window_ms=window_of(pace)).times > 10
    assert next(alternatives(given, pace)).files == pytest.approx(every.files / every.written * 40 * 86_400, rel=0.05)


def test_ten_times_the_limit_that_binds_makes_a_tenth_of_the_files() -> None:
    today, larger = alternatives(rules({}), PACE)
    assert (today.files, larger.changes) == (pytest.approx(864), {"flush.size": "5000"})
    assert larger.files == pytest.approx(86.4)
    assert (today.file_bytes, larger.file_bytes) == (pytest.approx(60_000), pytest.approx(600_000))


@pytest.mark.nightly
def test_fewer_directories_make_fewer_files_where_all_of_them_get_records() -> None:
    found = [*alternatives(rules(FIELD), replace(PACE, directories=40, files=864.0 * 40))]
    by_change = {tuple(one.changes): one.files for one in found}
    assert by_change[()] == pytest.approx(864 * 40)
    assert by_change[(FEWER,)] == pytest.approx(864 * 4)


@pytest.mark.nightly
def test_an_entry_with_several_hours_is_no_entry_with_several_directories_at_a_time() -> None:
    """The page of a sink with an hourly partitioner could not be drawn."""
    given = rules({**TIME, "partitioner.class": f"{PARTITIONER}HourlyPartitioner"})
    assert next(alternatives(given, replace(PACE, directories=5))) == next(alternatives(given, PACE))


def test_a_limit_in_bytes_makes_as_many_files_as_the_records_that_fill_it() -> None:
    pace = TopicPace(per_second=20_000, record_bytes=50, partitions=4, directories=1, files=86_400)
    found = alternatives(rules({"flush.size": "100000000", "flush.bytes": "1000000"}), pace)
    today = next(found)
    larger = next(one for one in found if one.changes == {"flush.bytes": "10000000"})
    assert (today.files, larger.files) == (pytest.approx(86_400, rel=0.1), pytest.approx(8_640, rel=0.1))
    assert dict(today.reasons).keys() == {"flush.bytes"}


@pytest.mark.nightly
def test_files_that_close_late_are_waited_for_up_to_a_day() -> None:
    """What closed nothing in the first half an hour was "none closed in a day"."""
    pace = replace(PACE, files=2 * 1440)
    given = rules(
        {**TIME, "flush.size": "10000000", "rotate.interval.ms": "900000", "rotate.file.on.partition.change": "false"}
    )
    by_change = {tuple(one.changes): one.files for one in alternatives(given, pace)}
    assert by_change["rotate.interval.ms",] == pytest.approx(2 * 24 / 2.5 * 3, rel=0.1)  # of three hours each time
