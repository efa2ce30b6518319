"""What text does a Joda pattern give for an instant? All letters of SEMANTICS A4.3, which differ from Java's own.

Months, days, half days, eras and zones are called as Java 17 names them by language, through Unicode's tables in babel; where newer
tables differ, the older texts are pinned, so that a directory keeps its name when babel is upgraded. The whole `locale` property is taken
as a language: `en`, `fr` and `de` are languages, `en-US` is none and gives the root texts, which are the English short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import get_timezone_name
from babel.localedata import LocaleDataDict, load

from kafka_s3.connect.joda.zones import EPOCH, FIRST_MS, LAST_MS, Fields, fields, offset_ms

LANGUAGES = frozenset({
    "af", "agq", "ak", "am", "ar", "as", "asa", "ast", "az", "bas", "be", "bem", "bez", "bg", "bm", "bn", "bo", "br", "brx", "bs", "ca",
    "ccp", "ce", "ceb", "cgg", "chr", "ckb", "cs", "cy", "da", "dav", "de", "dje", "doi", "dsb", "dua", "dyo", "dz", "ebu", "ee", "el",
    "en", "eo", "es", "et", "eu", "ewo", "fa", "ff", "fi", "fil", "fo", "fr", "fur", "fy", "ga", "gd", "gl", "gsw", "gu", "guz", "gv",
    "ha", "haw", "he", "hi", "hr", "hsb", "hu", "hy", "ia", "id", "ig", "ii", "is", "it", "ja", "jgo", "jmc", "jv", "ka", "kab", "kam",
    "kde", "kea", "khq", "ki", "kk", "kkj", "kl", "kln", "km", "kn", "ko", "kok", "ks", "ksb", "ksf", "ksh", "ku", "kw", "ky", "lag",
    "lb", "lg", "lkt", "ln", "lo", "lrc", "lt", "lu", "luo", "luy", "lv", "mai", "mas", "mer", "mfe", "mg", "mgh", "mgo", "mi", "mk",
    "ml", "mn", "mni", "mr", "ms", "mt", "mua", "my", "mzn", "naq", "nb", "nd", "nds", "ne", "nl", "nmg", "nn", "nnh", "no", "nus",
    "nyn", "om", "or", "os", "pa", "pcm", "pl", "ps", "pt", "qu", "rm", "rn", "ro", "rof", "ru", "rw", "rwk", "sa", "sah", "saq", "sat",
    "sbp", "sd", "se", "seh", "ses", "sg", "shi", "si", "sk", "sl", "smn", "sn", "so", "sq", "sr", "su", "sv", "sw", "ta", "te", "teo",
    "tg", "th", "ti", "tk", "to", "tr", "tt", "twq", "tzm", "ug", "uk", "ur", "uz", "vai", "vi", "vun", "wae", "wo", "xh", "xog", "yav",
    "yi", "yo", "yue", "zgh", "zh", "zu",
})  # fmt: skip
RENAMED = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "tl": "fil", "mo": "ro"}
"""Codes that Java takes for others."""
SHORT_MONTHS = {
    "fi": ("tammik.", "helmik.", "maalisk.", "huhtik.", "toukok.", "kesäk.", "heinäk.", "elok.", "syysk.", "lokak.", "marrask.", "jouluk."),
    "nb": ("jan.", "feb.", "mar.", "apr.", "mai", "jun.", "jul.", "aug.", "sep.", "okt.", "nov.", "des."),
    "nl": ("jan.", "feb.", "mrt.", "apr.", "mei", "jun.", "jul.", "aug.", "sep.", "okt.", "nov.", "dec."),
}  # fmt: skip
"""Abbreviated months that later tables shortened or lengthened."""
SHORT_DAYS = {
    "da": ("man.", "tir.", "ons.", "tor.", "fre.", "lør.", "søn."),
}  # fmt: skip
"""Abbreviated days, the same."""
DAYS = {
    "fi": ("maanantaina", "tiistaina", "keskiviikkona", "torstaina", "perjantaina", "lauantaina", "sunnuntaina"),
}  # fmt: skip
"""Days in full, the same."""


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


LETTERS = "CYxwedEyDMaKhHkmsSzZG"
Piece = Callable[[Fields, int], str]


class JodaToken(NamedTuple):
    """A run of one pattern letter (`literal` False) or plain text, and where it begins in the pattern."""

    text: str
    start: int
    literal: bool


def check_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern, None where nothing is.

    Stricter than Joda in one thing: a quote that is not closed is refused instead of reaching to the end of the pattern.
    """
    if not pattern.strip():
        return "The pattern is empty."
    try:
        found = tokens(pattern)
    except ValueError as problem:
        return str(problem)
    for token in found:
        if not token.literal and token.text[0] not in LETTERS:
            return f"Illegal pattern component: {token.text} (at {token.start}; put literal text in single quotes)."
    return None


def tokens(pattern: str) -> list[JodaToken]:
    """A pattern's parts. Two quotes are one everywhere, inside quoted text and outside. Raises ValueError on an open quote."""
    found: list[JodaToken] = []
    at = 0
    while at < len(pattern):
        start = at
        if _is_letter(pattern[at]):
            while at < len(pattern) and pattern[at] == pattern[start]:
                at += 1
            found.append(JodaToken(pattern[start:at], start, literal=False))
        else:
            text, at = _literal(pattern, at)
            found.append(JodaToken(text, start, literal=True))
    return found


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """The plain text from a position on, up to a letter outside quotes, and where it ends."""
    text, opened = "", None
    while at < len(pattern) and (opened is not None or not _is_letter(pattern[at])):
        if pattern.startswith("''", at):
            text += "'"
            at += 1
        elif pattern[at] == "'":
            opened = at if opened is None else None
        else:
            text += pattern[at]
        at += 1
    if opened is not None:
        raise ValueError(f"A single quote is not closed (at {opened}).")
    return text, at


def _is_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


class Pattern:
    """A pattern with its locale and zone. Raises ValueError where the pattern is not valid."""

    def __init__(self, pattern: str, *, locale: str, zone: tzinfo) -> None:
        problem = check_pattern(pattern)
        if problem is not None:
            raise ValueError(problem)
        self._language = locale
        self._zone = zone
        self._texts = texts(locale)
        self._pieces = [self._piece(token) for token in tokens(pattern)]

    def format(self, epoch_ms: int) -> str:
        """The text for an instant."""
        local = fields(epoch_ms + offset_ms(self._zone, epoch_ms))
        return "".join(piece(local, epoch_ms) for piece in self._pieces)

    def _piece(self, token: JodaToken) -> Piece:
        if token.literal:
            return lambda local, at: token.text
        letter, count = token.text[0], len(token.text)
        number = NUMBERS.get(letter)
        if letter in "Yyx":
            # Joda takes two letters of any year, also `YY`, from the year itself, not from the year of its era.
            year = YEARS["y" if letter == "Y" and count == 2 else letter]
            return lambda local, at: _year(year(local), count)
        if letter == "M" and count >= 3:
            months = self._texts.months if count >= 4 else self._texts.short_months
            return lambda local, at: months[local.month - 1]
        if number is not None:
            return lambda local, at: _padded(number(local), count)
        return self._text_piece(letter, count)

    def _text_piece(self, letter: str, count: int) -> Piece:
        names = self._texts
        match letter:
            case "E":
                days = names.days if count >= 4 else names.short_days
                return lambda local, at: days[local.weekday - 1]
            case "a":
                return lambda local, at: names.half_days[local.hour >= 12]
            case "G":
                return lambda local, at: names.eras[local.year >= 1]
            case "S":
                return lambda local, at: f"{local.milli:03d}".ljust(count, "0")[:count]
            case "Z":
                return lambda local, at: self._offset(count, at)
            case _:
                return lambda local, at: zone_text(self._zone, at, language=self._language, wide=int(count >= 4))

    def _offset(self, count: int, at: int) -> str:
        if count >= 3:
            return str(getattr(self._zone, "key", None) or fixed_id(self._zone))
        return offset_text(offset_ms(self._zone, at), colon=":" if count == 2 else "")


NUMBERS: dict[str, Callable[[Fields], int]] = {
    "C": lambda f: _year_of_era(f.year) // 100,
    "w": lambda f: f.week,
    "e": lambda f: f.weekday,
    "D": lambda f: f.day_of_year,
    "M": lambda f: f.month,
    "d": lambda f: f.day,
    "H": lambda f: f.hour,
    "k": lambda f: f.hour or 24,
    "K": lambda f: f.hour % 12,
    "h": lambda f: f.hour % 12 or 12,
    "m": lambda f: f.minute,
    "s": lambda f: f.second,
}
YEARS: dict[str, Callable[[Fields], int]] = {
    "Y": lambda f: _year_of_era(f.year),
    "y": lambda f: f.year,
    "x": lambda f: f.week_year,
}


def _year(year: int, count: int) -> str:
    return f"{abs(year) % 100:02d}" if count == 2 else _padded(year, count)


def _year_of_era(year: int) -> int:
    return year if year >= 1 else 1 - year


def _padded(number: int, count: int) -> str:
    return f"-{-number:0{count}d}" if number < 0 else f"{number:0{count}d}"
