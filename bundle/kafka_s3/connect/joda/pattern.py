"""What text does a Joda pattern give for an instant? All letters of SEMANTICS A4.3, which differ from Java's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import NamedTuple

from kafka_s3.connect.joda.calendar import Fields, fields
from kafka_s3.connect.joda.texts import fixed_id, offset_text, texts, zone_text
from kafka_s3.connect.joda.zones import offset_ms

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
