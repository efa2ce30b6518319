"""What are months, days, half days, eras and zones called? As Java names them by language, through Unicode's tables in babel.

The whole `locale` property is taken as a language: `en`, `fr` and `de` are languages, `en-US` is none and gives the root texts, which are
the English short ones (SEMANTICS A4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.dates import get_timezone_name

from kafka_s3.joda.zones import EPOCH, FIRST_MS, LAST_MS, offset_ms

ROOT_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROOT_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Texts:
    """A language's texts; months from January, days from Monday, half days AM and PM, eras BC and AD."""

    months: tuple[str, ...]
    short_months: tuple[str, ...]
    days: tuple[str, ...]
    short_days: tuple[str, ...]
    half_days: tuple[str, str]
    eras: tuple[str, str]


@lru_cache(maxsize=32)
def texts(language: str) -> Texts:
    """The texts of a language code; the root texts where it is none."""
    locale = _locale(language)
    if locale is None:
        return Texts(ROOT_MONTHS, ROOT_MONTHS, ROOT_DAYS, ROOT_DAYS, ("AM", "PM"), ("BCE", "CE"))
    months, days = locale.months["format"], locale.days["format"]
    periods = locale.day_periods["format"]["abbreviated"]
    eras = locale.eras["abbreviated"]
    return Texts(
        tuple(months["wide"][n] for n in range(1, 13)),
        tuple(months["abbreviated"][n] for n in range(1, 13)),
        tuple(days["wide"][n] for n in range(7)),
        tuple(days["abbreviated"][n] for n in range(7)),
        (str(periods["am"]), str(periods["pm"])),
        (str(eras[0]), str(eras[1])),
    )


def zone_text(where: tzinfo, epoch_ms: int, *, language: str, wide: int) -> str:
    """The zone's short name (`wide` 0) or long name (1) at an instant; an offset like +02:00 where it has none."""
    locale = _locale(language) or Locale("en")
    at: datetime = (EPOCH + timedelta(milliseconds=min(max(epoch_ms, FIRST_MS), LAST_MS))).astimezone(where)
    key = getattr(where, "key", None)
    if key is None:
        return "UTC" if offset_ms(where, 0) == 0 and not wide else _fixed_text(where, wide)
    if not wide:
        name = at.tzname() or ""
        return name if name[:1].isalpha() else offset_text(offset_ms(where, epoch_ms), colon=":")
    return str(get_timezone_name(at, width="long", locale=locale))


def offset_text(offset: int, *, colon: str) -> str:
    """An offset in milliseconds as `+0100` or `+01:00`, with seconds where it has some."""
    sign, rest = ("-" if offset < 0 else "+"), abs(offset) // 1000
    text = f"{sign}{rest // 3600:02d}{colon}{rest // 60 % 60:02d}"
    return text + (f"{colon}{rest % 60:02d}" if rest % 60 else "")


def _fixed_text(where: tzinfo, wide: int) -> str:
    offset = offset_ms(where, 0)
    return "Coordinated Universal Time" if offset == 0 and wide else offset_text(offset, colon=":")


def _locale(language: str) -> Locale | None:
    if not language.isalpha() or not 2 <= len(language) <= 8:
        return None
    try:
        return Locale(language.lower())
    except UnknownLocaleError:
        return None
