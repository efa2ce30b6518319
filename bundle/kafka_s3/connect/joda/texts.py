"""What are months, days, half days, eras and zones called? As Java names them by language, through Unicode's tables in babel.

The whole `locale` property is taken as a language: `en`, `fr` and `de` are languages, `en-US` is none and gives the root texts, which are
the English short ones (SEMANTICS A4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from functools import lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import get_timezone_name
from babel.localedata import LocaleDataDict, load

from kafka_s3.connect.joda.languages import DAYS, LANGUAGES, RENAMED, SHORT_DAYS, SHORT_MONTHS
from kafka_s3.connect.joda.zones import EPOCH, FIRST_MS, LAST_MS, offset_ms

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
    # A copy, for babel writes resolved aliases into data that languages share: what was asked before would change the answer.
    code = str(locale.language)
    data = LocaleDataDict(cast(MutableMapping[str | int | None, Any], deepcopy(load(code))))
    months, days, eras = data["months"]["format"], data["days"]["format"], data["eras"]["abbreviated"]
    periods = data["day_periods"]["format"]
    return Texts(
        tuple(months["wide"][n] for n in range(1, 13)),
        SHORT_MONTHS.get(code) or tuple(months["abbreviated"][n] for n in range(1, 13)),
        DAYS.get(code) or tuple(days["wide"][n] for n in range(7)),
        SHORT_DAYS.get(code) or tuple(days["abbreviated"][n] for n in range(7)),
        (_period(periods, "am"), _period(periods, "pm")),
        (str(eras[0]), str(eras[1])),
    )


def zone_text(where: tzinfo, epoch_ms: int, *, language: str, wide: int) -> str:
    """The zone's short name (`wide` 0) or long name (1) at an instant; an offset like +02:00 where it has none."""
    locale = _locale(language) or Locale("en")
    key = getattr(where, "key", None)
    if key is None and offset_ms(where, 0):
        return fixed_id(where)
    at = (EPOCH + timedelta(milliseconds=min(max(epoch_ms, FIRST_MS), LAST_MS))).astimezone(
        where if key else ZoneInfo("UTC")
    )
    offset = offset_text(offset_ms(where, epoch_ms), colon=":")
    if wide:
        name = str(get_timezone_name(at, width="long", locale=locale))
        return offset if name.startswith("GMT") and name != "GMT" else name
    local = str(get_timezone_name(at, width="short", locale=locale)) if key else "UTC"
    name = local if local.isalpha() else at.tzname() or ""
    return name if name[:1].isalpha() else offset


def offset_text(offset: int, *, colon: str) -> str:
    """An offset in milliseconds as `+0100` or `+01:00`; seconds, which zones had before 1900, are cut off as Joda does."""
    minutes = abs(offset) // 60_000
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{colon}{minutes % 60:02d}"


def fixed_id(where: tzinfo) -> str:
    """The id of a fixed offset: `UTC`, or `+05:30` with seconds and thousandths where it has some."""
    offset = offset_ms(where, 0)
    seconds, millis = divmod(abs(offset) % 60_000, 1000)
    if not offset:
        return "UTC"
    tail = f":{seconds:02d}" if seconds or millis else ""
    return offset_text(offset, colon=":") + tail + (f".{millis:03d}" if millis else "")


def _locale(language: str) -> Locale | None:
    code = RENAMED.get(language.lower(), language.lower())
    if code not in LANGUAGES:
        return None
    try:
        return Locale(code)
    except UnknownLocaleError:
        return None


def _period(periods: Mapping[str, Mapping[str, str]], name: str) -> str:
    """Java shows the wide text. Newer tables than Java 17's have a narrow blank in `a. m.`."""
    for width in ("wide", "abbreviated"):
        if name in periods[width]:
            return periods[width][name].replace("\u202f", "\u00a0")
    return name.upper()
