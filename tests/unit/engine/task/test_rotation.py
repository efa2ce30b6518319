"""The marks of the rotation schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.joda.zones import zone
from kafka_s3.engine.task.rotation import next_rotation

HOUR = 3_600_000
ZONES = [
    "UTC",
    "Europe/Paris",
    "America/Los_Angeles",
    "+05:30",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
]


def ms(text: str, where: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone(where)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "where", "hours", "wanted"),
    [
        ("2024-01-15T00:00:00", "UTC", 1, "2024-01-15T01:00:00"),
        ("2024-01-15T12:03:00", "UTC", 7, "2024-01-15T14:00:00"),
        ("2024-01-15T21:30:00", "UTC", 7, "2024-01-16T00:00:00"),
        ("2024-01-15T23:59:59", "Europe/Paris", 24, "2024-01-16T00:00:00"),
        ("2024-03-10T00:30:00", "America/Los_Angeles", 6, "2024-03-10T07:00:00"),
        ("2024-11-03T00:30:00", "America/Los_Angeles", 6, "2024-11-03T05:00:00"),
    ],
)
def test_marks_lie_at_multiples_from_local_midnight(now: str, where: str, hours: int, wanted: str) -> None:
    assert next_rotation(ms(now, where), interval_ms=hours * HOUR, zone=zone(where)) == ms(wanted, where)


@pytest.mark.parametrize(
    ("now", "interval", "where", "wanted"),
    [
        (1705276800000, 600000, "UTC", 1705277400000),
        (1705320180000, 25200000, "UTC", 1705327200000),
        (1705363199999, 600000, "UTC", 1705363200000),
        (1705276800001, 25200000, "America/Los_Angeles", 1705294800000),
        (1705354200000, 600000, "America/Los_Angeles", 1705354800000),
        (1705276800000, 25200000, "+05:30", 1705282200000),
        (1705320600000, 600000, "+05:30", 1705321200000),
        (1705363199999, 25200000, "+05:30", 1705368600000),
        (1705320180000, 600000, "Europe/Paris", 1705320600000),
        (1705354200000, 25200000, "Europe/Paris", 1705359600000),
        (1572850800000, 86400000, "America/Los_Angeles", 1572854400000),
    ],
)
def test_marks_are_those_of_the_original(now: int, interval: int, where: str, wanted: int) -> None:
    assert next_rotation(now, interval_ms=interval, zone=zone(where)) == wanted


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_without_length_is_refused(interval: int) -> None:
    with pytest.raises(ValueError, match=r"positive rotate.schedule.interval.ms"):
        next_rotation(0, interval_ms=interval, zone=UTC)


def test_a_midnight_that_comes_twice_begins_its_day_the_first_time() -> None:
    where = zone("America/Havana")  # on 2023-11-05 the clocks went from 01:00 back to 00:00
    assert (
        next_rotation(ms("2023-11-04T23:30:00", "America/Havana"), interval_ms=24 * HOUR, zone=where) == 1699156800000
    )
    assert next_rotation(1699156800000, interval_ms=25 * HOUR, zone=where) == 1699246800000


def test_a_day_without_midnight_begins_at_its_first_instant() -> None:
    where = zone("America/Sao_Paulo")  # on 2018-11-04 the clocks went from 24:00 to 01:00
    assert next_rotation(ms("2018-11-03T23:30:00", "America/Sao_Paulo"), interval_ms=24 * HOUR, zone=where) == ms(
        "2018-11-04T03:00:00"
    )


@given(st.integers(0, 4_102_444_800_000), st.integers(60_000, 30 * HOUR), st.sampled_from(ZONES))
def test_the_next_mark_is_later_and_not_beyond_the_next_midnight(now: int, interval: int, where: str) -> None:
    tz = zone(where)
    mark = next_rotation(now, interval_ms=interval, zone=tz)
    assert now < mark <= now + interval
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(tz).date()
    day_of_mark = datetime.fromtimestamp(mark / 1000, UTC).astimezone(tz)
    assert day_of_mark.date() in (today, today + timedelta(days=1))
    if day_of_mark.date() != today:
        assert (day_of_mark - timedelta(milliseconds=1)).astimezone(UTC).astimezone(
            tz
        ).date() == today or day_of_mark.hour == 0
