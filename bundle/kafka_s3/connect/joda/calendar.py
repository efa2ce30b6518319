"""What day is it? The proleptic Gregorian calendar over plain integers, so that no year is out of range."""

from __future__ import annotations

from typing import NamedTuple

DAY_MS = 86_400_000


class Fields(NamedTuple):
    """A local time taken apart. `weekday` is 1 (Monday) to 7; `week_year` and `week` are ISO 8601's."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    week_year: int
    week: int
    hour: int
    minute: int
    second: int
    milli: int


def fields(local_ms: int) -> Fields:
    """The fields of a local time given as milliseconds since the local 1970-01-01T00:00."""
    days, rest = divmod(local_ms, DAY_MS)
    year, month, day = date_of(days)
    weekday = (days + 3) % 7 + 1
    monday = days - weekday + 1
    week_year = date_of(monday + 3)[0]
    week = (monday + 3 - days_of(week_year, 1, 1)) // 7 + 1
    hour, rest = divmod(rest, 3_600_000)
    minute, rest = divmod(rest, 60_000)
    second, milli = divmod(rest, 1000)
    day_of_year = days - days_of(year, 1, 1) + 1
    return Fields(year, month, day, day_of_year, weekday, week_year, week, hour, minute, second, milli)


def days_of(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date."""
    y = year - (month <= 2)
    era, year_of_era = divmod(y, 400)
    shifted = month - 3 if month > 2 else month + 9
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def month_days(year: int, month: int) -> int:
    """How many days a month has."""
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return days_of(*following, 1) - days_of(year, month, 1)


def weeks_start(week_year: int) -> int:
    """The Monday of week 1 of a week-year, in days from 1970-01-01."""
    fourth = days_of(week_year, 1, 4)
    return fourth - (fourth + 3) % 7
