"""The marks of the rotation schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.joda import zone
from kafka_s3.schedule import next_rotation

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
