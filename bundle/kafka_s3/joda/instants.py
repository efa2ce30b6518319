"""Which instant does a text mean? Joda's `ISODateTimeFormat.dateTimeParser()`, as the RecordField extractor uses it (SEMANTICS A5)."""

from __future__ import annotations

import re
from datetime import tzinfo
from fractions import Fraction

from kafka_s3.joda.calendar import DAY_MS, days_of, month_days, weeks_start
from kafka_s3.joda.zones import offset_ms, to_utc

DIGITS = re.compile(r"-?[0-9]{1,19}")
INSTANT = re.compile(
    r"(?P<date>(?P<year>[+-]?\d{1,9})(?:-W(?P<week>\d{1,2})(?:-(?P<weekday>\d))?|-(?P<ordinal>\d{3})(?!\d)"
    r"|-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?)?)?"
    r"(?:T(?:(?P<hour>\d{1,2})(?:(?P<hour_part>[.,]\d+)|:(?P<minute>\d{1,2})(?:(?P<minute_part>[.,]\d+)"
    r"|:(?P<second>\d{1,2})(?P<second_part>[.,]\d+)?)?)?)?(?P<zone>Z|[+-]\d{2}(?::?\d{2}(?::?\d{2}(?:[.:]?\d{1,3})?)?)?)?)?"
)
LONG = 2**63


def parse_timestamp(text: str, *, default_zone: tzinfo) -> int:
    """Epoch milliseconds of a field's text: digits are milliseconds, anything else is ISO 8601. Raises ValueError."""
    if DIGITS.fullmatch(text):
        number = int(text)
        if not -LONG <= number < LONG:
            raise ValueError(f'For input string: "{text}" is beyond 64 bits')
        return number
    return parse_instant(text, default_zone=default_zone)


def parse_instant(text: str, *, default_zone: tzinfo) -> int:
    """Epoch milliseconds of an ISO 8601 text; what is missing counts from 1970-01-01T00:00 in `default_zone`. Raises ValueError."""
    match = INSTANT.match(text)
    if match is None or match.end() != len(text) or not (match["date"] or match["hour"]):
        end = match.end() if match and match.end() > 0 else 0
        place = f' is malformed at "{text[end:]}"' if 0 < end < len(text) else ""
        raise ValueError(f'Invalid format: "{text}"{place}')
    local = _days(match, text) * DAY_MS + _millis_of_day(match, text)
    if match["zone"]:
        return local - _offset(match["zone"])
    instant = to_utc(default_zone, local)
    if instant + offset_ms(default_zone, instant) != local:
        raise ValueError(f'Cannot parse "{text}": Illegal instant due to time zone offset transition ({default_zone})')
    return instant


def _days(match: re.Match[str], text: str) -> int:
    if match["year"] is None:
        return 0
    year = int(match["year"])
    if match["week"]:
        weeks = (weeks_start(year + 1) - weeks_start(year)) // 7
        week = _within(match["week"], 1, weeks, "weekOfWeekyear", text)
        return weeks_start(year) + 7 * (week - 1) + _within(match["weekday"] or "1", 1, 7, "dayOfWeek", text) - 1
    if match["ordinal"]:
        length = days_of(year + 1, 1, 1) - days_of(year, 1, 1)
        return days_of(year, 1, 1) + _within(match["ordinal"], 1, length, "dayOfYear", text) - 1
    month = _within(match["month"] or "1", 1, 12, "monthOfYear", text)
    return days_of(year, month, _within(match["day"] or "1", 1, month_days(year, month), "dayOfMonth", text))


def _millis_of_day(match: re.Match[str], text: str) -> int:
    millis = 0
    for name, most, unit in (("hour", 23, 3_600_000), ("minute", 59, 60_000), ("second", 59, 1000)):
        if match[name]:
            millis += _within(match[name], 0, most, f"{name}Of", text) * unit
        part = match[f"{name}_part"]
        if part:
            millis += int(Fraction(f"0.{part[1:]}") * unit)
    return millis


def _within(digits: str, low: int, high: int, name: str, text: str) -> int:
    number = int(digits)
    if not low <= number <= high:
        raise ValueError(f'Cannot parse "{text}": Value {number} for {name} must be in the range [{low},{high}]')
    return number


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = re.sub(r"[^0-9]", "", zone)
    hours, minutes, seconds, millis = (int(digits[a:b] or 0) for a, b in ((0, 2), (2, 4), (4, 6), (6, 9)))
    offset = ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis
    return -offset if zone[0] == "-" else offset
