"""Which day is it? Days since 1970 and calendar dates as `java.util.GregorianCalendar` has them: Julian before 15 October 1582."""

from __future__ import annotations

from typing import Final, NamedTuple

CUTOVER: Final = -141_427
"""1582-10-15, the first Gregorian day, in days since 1970."""
DAY_MS: Final = 86_400_000
SUNDAY: Final = 1


class Instant(NamedTuple):
    """An instant in UTC: the year is 0 for 1 BC, the month 1 to 12; `days` since 1970, `ms` of the day."""

    year: int
    month: int
    day: int
    days: int
    ms: int

    @property
    def weekday(self) -> int:
        """1 for Sunday to 7 for Saturday."""
        return (self.days + 4) % 7 + SUNDAY

    @property
    def day_of_year(self) -> int:
        """From 1."""
        return self.days - days_of(self.year, 1, 1) + 1


def moment(epoch_ms: int) -> Instant:
    """The date and time of an instant."""
    days, ms = divmod(epoch_ms, DAY_MS)
    return Instant(*_date(days), days, ms)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date whose month and day may lie outside of their year and month."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    found = _gregorian(year, month, 1) + day - 1
    return found if found >= CUTOVER else _julian(year, month, 1) + day - 1


def week_of_year(at: Instant) -> tuple[int, int]:
    """Week year and week where weeks begin on Sunday and week 1 holds 1 January, as in the locale `en`."""
    sunday = at.days - (at.weekday - SUNDAY)
    year = at.year + 1 if days_of(at.year + 1, 1, 1) <= sunday + 6 else at.year
    return year, (sunday - first_sunday(year)) // 7 + 1


def first_sunday(year: int) -> int:
    """The first day of week 1 of a year, in days since 1970."""
    first = days_of(year, 1, 1)
    return first - (first + 4) % 7


def week_of_month(at: Instant) -> int:
    """The week within its month, from 1."""
    return (at.day - 1 + (at.weekday - at.day) % 7) // 7 + 1


def _gregorian(year: int, month: int, day: int) -> int:
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _julian(year: int, month: int, day: int) -> int:
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 + of_year - 719_470


def _date(days: int) -> tuple[int, int, int]:
    if days >= CUTOVER:
        era, of_era = divmod(days + 719_468, 146_097)
        year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        cycle, of_cycle = divmod(days + 719_470, 1461)
        year_of_cycle = (of_cycle - of_cycle // 1460) // 365
        of_year = of_cycle - 365 * year_of_cycle
        year = 4 * cycle + year_of_cycle
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + (month <= 2), month, day
