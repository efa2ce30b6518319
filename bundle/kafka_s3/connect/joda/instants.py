"""Which instant does a text mean? Joda's `ISODateTimeFormat.dateTimeParser()`, as the RecordField extractor uses it (SEMANTICS A5)."""

from __future__ import annotations

import re
from datetime import tzinfo

from kafka_s3.connect.joda.zones import (
    DAY_MS,
    days_of,
    fixed_offset_ms,
    month_days,
    offset_ms,
    to_earliest_utc,
    weeks_start,
)

DIGITS = re.compile(r"-?[0-9]{1,19}")
# ASCII, for Joda reads no other digits; letters of either case, as Joda reads its literals.
INSTANT = re.compile(
    r"(?P<date>(?P<year>[+-]?\d{1,9})(?:-W(?P<week>\d{1,2})(?:-(?P<weekday>\d))?|-(?P<ordinal>\d{3})(?!\d)"
    r"|-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?)?)?"
    r"(?:T(?:(?P<hour>\d{1,2})(?:(?P<hour_part>[.,]\d+)|:(?P<minute>\d{1,2})(?:(?P<minute_part>[.,]\d+)"
    r"|:(?P<second>\d{1,2})(?P<second_part>[.,]\d+)?)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::\d{2}(?::\d{2}(?:[.,]\d{1,3})?)?|\d{2}(?:\d{2}(?:\d{1,3})?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
TIMES = (
    ("hour", "hourOfDay", 23, 3_600_000),
    ("minute", "minuteOfHour", 59, 60_000),
    ("second", "secondOfMinute", 59, 1000),
)
FIRST_YEAR, LAST_YEAR = -292_275_054, 292_278_993
LONG = 2**63


def parse_timestamp(text: str, *, default_zone: tzinfo) -> int:
    """Epoch milliseconds of a field's text: digits are milliseconds, anything else is ISO 8601. Raises ValueError."""
    if DIGITS.fullmatch(text):
        return _within_64_bits(int(text), text)
    return parse_instant(text, default_zone=default_zone)


def parse_instant(text: str, *, default_zone: tzinfo) -> int:
    """Epoch milliseconds of an ISO 8601 text; what is missing counts from 1970-01-01T00:00 in `default_zone`.

    A local time that the clocks repeat is its first occurrence. Raises ValueError in Joda's words, also for a local time they skip.
    """
    match = INSTANT.match(text)
    if match is None or match.end() != len(text) or not (match["date"] or match["hour"]):
        raise _malformed(text, match.end() if match else 0)
    local = _days(match, text) * DAY_MS + _millis_of_day(match, text)
    if match["zone"]:
        return _within_64_bits(local - _offset(match, text), text)
    instant = to_earliest_utc(default_zone, local)
    if instant + offset_ms(default_zone, instant) != local:
        raise ValueError(f'Cannot parse "{text}": Illegal instant due to time zone offset transition ({default_zone})')
    return _within_64_bits(instant, text)


def _days(match: re.Match[str], text: str) -> int:
    if match["year"] is None:
        return 0
    year = _within(match["year"], FIRST_YEAR, LAST_YEAR, "year", text)
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
    for name, field, most, unit in TIMES:
        if match[name]:
            millis += _within(match[name], 0, most, field, text) * unit
        part = match[f"{name}_part"]
        if part:
            digits = part[1:19]  # what lies beyond cannot make a millisecond of an hour
            millis += int(digits) * unit // 10 ** len(digits)
    return millis


def _within(digits: str, low: int, high: int, name: str, text: str) -> int:
    number = int(digits)
    if not low <= number <= high:
        raise ValueError(f'Cannot parse "{text}": Value {number} for {name} must be in the range [{low},{high}]')
    return number


def _within_64_bits(millis: int, text: str) -> int:
    if not -LONG <= millis < LONG:
        raise ValueError(f'Cannot parse "{text}": {millis} ms is beyond 64 bits')
    return millis


def _offset(match: re.Match[str], text: str) -> int:
    if match["zone"] in "Zz":
        return 0
    try:
        return fixed_offset_ms(match["zone"])
    except ValueError:
        raise _malformed(text, match.start("zone")) from None


def _malformed(text: str, end: int) -> ValueError:
    if text and end == len(text):
        return ValueError(f'Invalid format: "{text}" is too short')
    return ValueError(f'Invalid format: "{text}"' + (f' is malformed at "{text[end:]}"' if end else ""))
