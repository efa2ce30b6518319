"""Which time zone does an id name, and what is its offset at an instant? As Joda's `DateTimeZone.forID`, over the IANA rules."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

OFFSET = re.compile(r"([+-])(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?")
SHORT = frozenset({
    "UTC", "GMT", "UCT", "EST", "MST", "HST", "WET", "CET", "MET", "EET", "EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT", "Zulu",
    "Universal", "Greenwich", "GB", "NZ", "PRC", "ROC", "ROK", "Cuba", "Egypt", "Eire", "Hongkong", "Iceland", "Iran", "Israel", "Jamaica",
    "Japan", "Kwajalein", "Libya", "Navajo", "Poland", "Portugal", "Singapore", "Turkey", "W-SU", "GB-Eire", "NZ-CHAT", "GMT0",
})  # fmt: skip
INSTEAD = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "EDT": "America/New_York", "CST": "America/Chicago",
    "CDT": "America/Chicago", "MDT": "America/Denver", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "BST": "Europe/London",
    "CEST": "Europe/Paris", "Z": "UTC", "utc": "UTC", "gmt": "GMT",
}  # fmt: skip
QUARTER_MS = 900_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = -62_135_596_800_000 + 86_400_000
LAST_MS = 253_402_300_799_999 - 86_400_000
Millis = npt.NDArray[np.int64]


@lru_cache(maxsize=256)
def zone(id: str) -> tzinfo:
    """The zone of a long IANA id, `UTC`, an offset like `+05:30`, or one of the few short ids. Raises ValueError with a way out."""
    offset = OFFSET.fullmatch(id)
    if offset:
        return _fixed(id, offset)
    if id in SHORT or "/" in id:
        try:
            return UTC if id == "UTC" else ZoneInfo(id)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    hint = f"Write {INSTEAD[id]}." if id in INSTEAD else "Write an id like Europe/Paris, UTC, or an offset like +02:00."
    raise ValueError(f"The time zone {id!r} is not known. {hint}")


def offset_ms(where: tzinfo, epoch_ms: int) -> int:
    """The offset from UTC at an instant, in milliseconds; outside the years 1 to 9999 that of the nearest known instant."""
    at = EPOCH + timedelta(milliseconds=min(max(epoch_ms, FIRST_MS), LAST_MS))
    offset = at.astimezone(where).utcoffset()
    assert offset is not None
    return int(offset / timedelta(milliseconds=1))


def offsets_ms(where: tzinfo, epoch_ms: Millis) -> Millis:
    """The offset at each instant. It is looked up once per quarter of an hour: no zone has changed at any other minute since 1972."""
    if where is UTC or isinstance(where, timezone):
        return np.full(len(epoch_ms), offset_ms(where, 0), np.int64)
    quarters = epoch_ms // QUARTER_MS
    if not len(quarters):
        return np.zeros(0, np.int64)
    if quarters.min() == quarters.max() and _steady(where, int(quarters[0])):
        return np.full(len(epoch_ms), offset_ms(where, int(epoch_ms[0])), np.int64)
    distinct, codes = np.unique(quarters, return_inverse=True)
    found = np.array([offset_ms(where, int(quarter) * QUARTER_MS) for quarter in distinct], np.int64)
    result: Millis = found[codes]
    for quarter in (q for q in distinct if not _steady(where, int(q))):  # a transition inside the quarter: before 1972
        for row in np.flatnonzero(quarters == quarter):
            result[row] = offset_ms(where, int(epoch_ms[row]))
    return result


def to_local(where: tzinfo, epoch_ms: int) -> int:
    """The local time at an instant, as milliseconds since the local 1970-01-01T00:00."""
    return epoch_ms + offset_ms(where, epoch_ms)


def to_utc(where: tzinfo, local_ms: int) -> int:
    """The instant of a local time, as Joda's `convertLocalToUTC(local, false)`: the earlier one in an overlap, shifted in a gap."""
    before = offset_ms(where, local_ms - offset_ms(where, local_ms))
    candidates = {offset_ms(where, local_ms - 86_400_000), offset_ms(where, local_ms + 86_400_000), before}
    fitting = [offset for offset in candidates if offset_ms(where, local_ms - offset) == offset]
    if fitting:
        return local_ms - max(fitting)
    return local_ms - offset_ms(where, local_ms - 86_400_000)


@lru_cache(maxsize=65_536)
def _steady(where: tzinfo, quarter: int) -> bool:
    return offset_ms(where, quarter * QUARTER_MS) == offset_ms(where, quarter * QUARTER_MS + QUARTER_MS - 1)


def _fixed(id: str, match: re.Match[str]) -> tzinfo:
    sign, hours, minutes, seconds = match.groups()
    h, m, s = int(hours), int(minutes or 0), int(seconds or 0)
    if h > 23 or m > 59 or s > 59:
        raise ValueError(f"The time zone {id!r} is not known. Write an offset between -23:59 and +23:59.")
    delta = timedelta(hours=h, minutes=m, seconds=s)
    return timezone(delta if sign == "+" else -delta)
