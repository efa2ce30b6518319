"""Tests of the numbers for other settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_s3.ops.alternatives import FEWER, TopicPace, alternatives, rules_of
from tests.support.configurations import FIELD, PARTITIONER, TIME
from tests.support.memory_world import settings_of

PACE = TopicPace(per_second=5, record_bytes=120, partitions=2, directories=1, files=2 * 144)


def rules(config: dict[str, Any]) -> dict[str, Any]:
    return rules_of(settings_of({"flush.size": "500", **config}))


def test_ten_times_the_limit_that_binds_makes_a_tenth_of_the_files() -> None:
    today, larger = alternatives(rules({}), PACE)
    assert (today.files, larger.changes) == (pytest.approx(864), {"flush.size": "5000"})
    assert larger.files == pytest.approx(86.4)
    assert (today.file_bytes, larger.file_bytes) == (pytest.approx(60_000), pytest.approx(600_000))


def test_fewer_directories_make_fewer_files_if_all_of_them_get_records() -> None:
    by_change = {
        tuple(one.changes): one.files
        for one in alternatives(rules(FIELD), replace(PACE, directories=40, files=864.0 * 40))
    }
    assert by_change[()] == pytest.approx(864)
    assert by_change["flush.size",] == pytest.approx(86.4)
    scheduled = rules({**FIELD, "flush.size": "100000", "rotate.schedule.interval.ms": "600000", "timezone": "UTC"})
    by_change = {tuple(one.changes): one.files for one in alternatives(scheduled, replace(PACE, directories=40))}
    assert by_change[()] == pytest.approx(2 * 144 * 40)
    assert by_change[(FEWER,)] == pytest.approx(2 * 144 * 4)


def test_an_entry_with_several_hours_is_no_entry_with_several_directories_at_a_time() -> None:
    """The page of a sink with an hourly partitioner could not be drawn."""
    hourly = rules({**TIME, "partitioner.class": f"{PARTITIONER}HourlyPartitioner"})
    assert next(alternatives(hourly, replace(PACE, directories=5))) == next(alternatives(hourly, PACE))


def test_a_limit_in_bytes_makes_as_many_files_as_the_records_that_fill_it() -> None:
    pace = TopicPace(per_second=20_000, record_bytes=50, partitions=4, directories=1, files=86_400)
    by_change = {
        tuple(one.changes): one
        for one in alternatives(rules({"flush.size": "100000000", "flush.bytes": "1000000"}), pace)
    }
    assert by_change[()].files == pytest.approx(86_400)
    assert by_change["flush.bytes",].files == pytest.approx(8_640)
    assert by_change[()].reasons.keys() == {"flush.bytes"}


def test_an_interval_of_record_time_closes_files_of_all_directories_of_that_time() -> None:
    config = {
        **TIME,
        "flush.size": "10000000",
        "rotate.interval.ms": "900000",
        "rotate.file.on.partition.change": "false",
    }
    by_change = {tuple(one.changes): one.files for one in alternatives(rules(config), PACE)}
    assert by_change["rotate.interval.ms",] == pytest.approx(2 * 24 / 2.5 * 3.5, rel=0.1)


def test_a_shorter_path_makes_fewer_files_of_a_sink_that_closes_them_when_the_directory_changes() -> None:
    config = {**TIME, "path.format": "'d'=dd/'h'=HH", "flush.size": "10000000", "rotate.interval.ms": "86400000"}
    by_change = {tuple(one.changes.items()): one.files for one in alternatives(rules(config), PACE)}
    assert by_change[()] == pytest.approx(48)
    assert by_change[("path.format", "'d'=dd"),] == pytest.approx(2)
