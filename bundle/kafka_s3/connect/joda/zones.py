"""Which time zone does an id name, and what is its offset at an instant? As Joda's `DateTimeZone.forID`, over the IANA rules.

The calendar below it is the proleptic Gregorian one over plain integers, so that no year is out of range.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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


OFFSET = re.compile(
    r"([+-])([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,3}))?)?|([0-9]{2})(?:([0-9]{2})([0-9]{1,3})?)?)?"
)
PREFIXED = re.compile(r"(?:UTC|GMT|UT)(?=[+-])")
SHORT = frozenset({
    "UTC", "GMT", "UCT", "EST", "MST", "HST", "WET", "CET", "MET", "EET", "EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT", "Zulu",
    "Universal", "Greenwich", "GB", "NZ", "PRC", "ROC", "ROK", "Cuba", "Egypt", "Eire", "Hongkong", "Iceland", "Iran", "Israel", "Jamaica",
    "Japan", "Kwajalein", "Libya", "Navajo", "Poland", "Portugal", "Singapore", "Turkey", "W-SU", "GB-Eire", "NZ-CHAT", "GMT0", "GMT+0",
    "GMT-0",
})  # fmt: skip
INSTEAD = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "EDT": "America/New_York", "CST": "America/Chicago",
    "CDT": "America/Chicago", "MDT": "America/Denver", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "BST": "Europe/London",
    "CEST": "Europe/Paris", "utc": "UTC", "gmt": "GMT",
}  # fmt: skip
CYCLE_MS = (
    146_097 * DAY_MS
)  # the Gregorian calendar, and with it every rule of daylight saving, repeats after 400 years
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = -62_135_596_800_000 + DAY_MS
LAST_MS = 253_402_300_799_999 - DAY_MS


@lru_cache(maxsize=256)
def zone(id: str) -> tzinfo:
    """The zone of a long IANA id, `UTC`, an offset like `+05:30`, or one of the few short ids (SEMANTICS A4.3).

    Ids are case-sensitive. `UTC+02:00` and `GMT+02:00` are offsets too. Raises ValueError with a remedy.
    """
    if id in ("UTC", "UT", "Z"):
        return UTC
    known_here_only = id.startswith(("posix/", "right/"))  # folders of the system's database, not ids
    if id in SHORT or ("/" in id and not known_here_only):
        try:
            return ZoneInfo(id)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    text = PREFIXED.sub("", id, count=1)
    if OFFSET.fullmatch(text):
        try:
            return timezone(timedelta(milliseconds=fixed_offset_ms(text)))
        except ValueError as problem:
            raise ValueError(f"The time zone {id!r} is not known. {problem}") from None
    hint = f"Write {INSTEAD[id]}." if id in INSTEAD else "Write an id like Europe/Paris, UTC, or an offset like +02:00."
    raise ValueError(f"The time zone {id!r} is not known. {hint}")


def fixed_offset_ms(text: str) -> int:
    """Milliseconds of an offset that `OFFSET` matches: `+hh`, `+hh:mm`, `+hhmm`, with seconds and thousandths as Joda has them."""
    match = OFFSET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an offset. Write one like +02:00.")
    sign, hours, *colons = match.groups()
    minutes, seconds, part = (a or b or "" for a, b in zip(colons[:3], colons[3:], strict=True))
    h, m, s = int(hours), int(minutes or 0), int(seconds or 0)
    if h > 23 or m > 59 or s > 59:
        raise ValueError("Write an offset between -23:59 and +23:59.")
    millis = ((h * 60 + m) * 60 + s) * 1000 + int(part.ljust(3, "0"))
    return -millis if sign == "-" else millis


def offset_ms(where: tzinfo, epoch_ms: int) -> int:
    """The offset from UTC at an instant, in milliseconds; any year: later rules repeat, before year 1 the first offset holds."""
    if epoch_ms > LAST_MS:
        epoch_ms -= -((LAST_MS - epoch_ms) // CYCLE_MS) * CYCLE_MS
    at = EPOCH + timedelta(milliseconds=max(epoch_ms, FIRST_MS))
    offset = at.astimezone(where).utcoffset()
    assert offset is not None
    return offset // timedelta(milliseconds=1)


def to_local(where: tzinfo, epoch_ms: int) -> int:
    """The local time at an instant, as milliseconds since the local 1970-01-01T00:00."""
    return epoch_ms + offset_ms(where, epoch_ms)


def to_utc(where: tzinfo, local_ms: int) -> int:
    """The instant of a local time as Joda's `convertLocalToUTC(local, false)` finds it, which buckets go through.

    In an overlap that is the earlier instant west of Greenwich and the later one east of it; in a gap it is shifted by the gap.
    """
    guess = offset_ms(where, local_ms)
    offset = offset_ms(where, local_ms - guess)
    # Joda compares the next transitions after both candidates; they differ just where the offset changes in between.
    in_gap = offset != guess and guess < 0 and offset_ms(where, local_ms - offset) != offset
    return local_ms - (guess if in_gap else offset)


def to_earliest_utc(where: tzinfo, local_ms: int) -> int:
    """The first instant of a local time, as Joda parses texts and begins days; shifted forward in a gap."""
    near = (local_ms - DAY_MS, local_ms + DAY_MS, local_ms - offset_ms(where, local_ms))
    fitting = [offset for at in near if offset_ms(where, local_ms - (offset := offset_ms(where, at))) == offset]
    return local_ms - (max(fitting) if fitting else offset_ms(where, local_ms - DAY_MS))
