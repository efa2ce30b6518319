"""What does a pattern of `java.text.SimpleDateFormat` write and read? In UTC, in English, and leniently: month 13 is next January.

Days and dates are those of `java.util.GregorianCalendar`: Julian before 15 October 1582.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
SHORT: Final = 3
NUMERIC: Final = frozenset("ykHmsSDFwWdhKYu")


class Token(NamedTuple):
    """So many times a letter (`length`), or literal text where that is 0."""

    text: str
    length: int

    @property
    def numeric(self) -> bool:
        """Whether it stands for digits."""
        return self.length > 0 and (self.text in NUMERIC or (self.text in "ML" and self.length < SHORT))


def tokens(pattern: str) -> list[Token]:
    """The parts of a pattern. Raises ValueError with Java's reason."""
    found: list[Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at + 1)
            found.append(Token(text, 0))
        elif char.isascii() and char.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == char:
                end += 1
            if char not in LETTERS:
                raise ValueError(f"Illegal pattern character '{char}'")
            if char == "X" and end - at > SHORT:
                raise ValueError(f"invalid ISO 8601 format: length={end - at}")
            found.append(Token(char, end - at))
            at = end
        else:
            found.append(Token(char, 0))
            at += 1
    return found


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    if pattern.startswith("'", at):
        return "'", at + 1
    text = ""
    while at < len(pattern):
        if pattern[at] != "'":
            text += pattern[at]
            at += 1
        elif pattern.startswith("''", at):
            text += "'"
            at += 2
        else:
            return text, at + 1
    raise ValueError("Unterminated quote")


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


MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ZONES: Final = {
    "Coordinated Universal Time": 0, "Greenwich Mean Time": 0, "UTC": 0, "GMT": 0, "EST": -300, "EDT": -240, "CST": -360, "CDT": -300,
    "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "CEST": 120, "CET": 60, "EEST": 180, "EET": 120, "BST": 60, "JST": 540,
    "IST": 330, "MSK": 180,
}  # fmt: skip
"""Minutes east of UTC of the zones that are read by name."""


class SimpleDates:
    """A pattern. Years of two digits lie within the 80 before `now_ms` (epoch) and 20 after. Raises ValueError, see `tokens`."""

    def __init__(self, pattern: str, *, now_ms: int) -> None:
        self.pattern = pattern
        self.tokens = tokens(pattern)
        now = moment(now_ms)
        self._century = days_of(now.year - 80, now.month, now.day) * DAY_MS + now.ms

    @property
    def deterministic(self) -> bool:
        """Whether it reads a text alike whenever that is: which century two digits of a year mean depends on the time."""
        return not any(token.text in ("y", "Y") and 0 < token.length <= 2 for token in self.tokens)

    def format(self, epoch_ms: int) -> str:
        """The text of an instant."""
        at = moment(epoch_ms)
        return "".join(_written(token, at) if token.length else token.text for token in self.tokens)

    def parse(self, text: str) -> int:
        """The instant of a text, epoch ms; what follows the pattern does not count. Raises ValueError where it does not match."""
        reading = _Reading(text, self._century)
        for index, token in enumerate(self.tokens):
            following = self.tokens[index + 1] if index + 1 < len(self.tokens) else None
            reading.read(token, abutting=following is not None and following.numeric)
        return reading.epoch_ms()


def iso_text(epoch_ms: int) -> str:
    """How Connect writes a date as text: a time within the first day, a date at midnight, else both."""
    if epoch_ms < DAY_MS:
        return _ISO_TIME.format(epoch_ms)
    return _ISO_DATE.format(epoch_ms) if epoch_ms % DAY_MS == 0 else _ISO.format(epoch_ms)


def _written(token: Token, at: Instant) -> str:
    letter, count = token
    if letter in "yY":
        year = week_of_year(at)[0] if letter == "Y" else at.year
        era = year if year > 0 else 1 - year
        return f"{era % 100:02d}" if count == 2 else f"{era:0{count}d}"
    if letter in "ML":
        name = MONTHS[at.month - 1]
        return f"{at.month:0{count}d}" if count < SHORT else name if count > SHORT else name[:SHORT]
    if letter == "E":
        name = DAYS[at.weekday - SUNDAY]
        return name if count > SHORT else name[:SHORT]
    if letter in NUMBERS:
        return f"{NUMBERS[letter](at):0{count}d}"
    texts = {"G": "AD" if at.year > 0 else "BC", "a": "PM" if _hour(at) >= 12 else "AM", "Z": "+0000", "X": "Z"}
    return texts.get(letter) or ("Coordinated Universal Time" if count > SHORT else "UTC")


def _hour(at: Instant) -> int:
    return at.ms // 3_600_000


NUMBERS: Final[dict[str, Callable[[Instant], int]]] = {
    "d": lambda at: at.day,
    "k": lambda at: _hour(at) or 24,
    "H": _hour,
    "m": lambda at: at.ms // 60_000 % 60,
    "s": lambda at: at.ms // 1000 % 60,
    "S": lambda at: at.ms % 1000,
    "D": lambda at: at.day_of_year,
    "F": lambda at: (at.day - 1) // 7 + 1,
    "w": lambda at: week_of_year(at)[1],
    "W": week_of_month,
    "h": lambda at: _hour(at) % 12 or 12,
    "K": lambda at: _hour(at) % 12,
    "u": lambda at: (at.weekday - 2) % 7 + 1,
}


class _Reading:
    """A text that is read from left to right, and the fields that were found so far, in their order."""

    def __init__(self, text: str, century: int) -> None:
        self._text = text
        self._at = 0
        self._century = century
        self._ambiguous = False
        self._fields: dict[str, int] = {}

    def read(self, token: Token, *, abutting: bool) -> None:
        letter, count = token
        if not count:
            if not self._text.startswith(letter, self._at):
                raise ValueError(self._text)
            self._at += len(letter)
            return
        start = self._at
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if self._at >= len(self._text):
            raise ValueError(self._text)
        if letter in "zZX":
            self._zone(letter, count)
        elif token.numeric:
            self._number(letter, count, start + count if abutting else None)
        elif self._at == start:
            self._name(letter)
        else:
            raise ValueError(self._text)

    def _set(self, what: str, number: int) -> None:
        self._fields.pop(what, None)
        self._fields[what] = number

    def _number(self, letter: str, count: int, stop: int | None) -> None:
        """Digits, up to `stop` where others follow at once; blanks in front of them count there."""
        start = self._at
        stop = len(self._text) if stop is None else stop
        if not start < stop <= len(self._text):
            raise ValueError(self._text)
        end = start + (self._text[start] == "-")
        while end < stop and self._text[end].isdecimal():
            end += 1
        digits = self._text[start:end]
        if not digits.lstrip("-"):
            raise ValueError(self._text)
        self._at = end
        number = int(digits)
        if letter in "yY" and count <= 2 and len(digits) == 2 and digits.isdecimal():
            start_year = moment(self._century).year
            self._ambiguous = self._ambiguous or number == start_year % 100
            number += start_year // 100 * 100
            number += 100 * (number < start_year)
        self._set({"L": "M"}.get(letter, letter), number)

    def _name(self, letter: str) -> None:
        names: Sequence[str] = {"M": MONTHS, "L": MONTHS, "E": DAYS, "a": ("AM", "PM")}.get(letter, ("BC", "AD"))
        shorter = [name[:SHORT] for name in names] if letter in "MLE" else []
        rest = self._text[self._at :].lower()
        matches = [
            (len(name), index % len(names))
            for index, name in enumerate((*names, *shorter))
            if rest.startswith(name.lower())
        ]
        if not matches:
            raise ValueError(self._text)
        length, index = max(matches)
        self._at += length
        self._set({"L": "M"}.get(letter, letter), index + (letter in "ML") + (letter == "E"))

    def _zone(self, letter: str, count: int) -> None:
        rest = self._text[self._at :]
        if letter == "X":
            if rest[0] == "Z":
                self._at += 1
                self._set("z", 0)
            else:
                self._offset(rest, 0, minutes=count > 1, colon=count == SHORT)
            return
        if rest[0] in "+-":
            self._offset(rest, 0, minutes=True, colon=False)
            return
        if rest[:3].upper() == "GMT" and rest[3:4] in ("+", "-"):
            self._offset(rest, 3, minutes=True, colon=True)
            return
        name = next((name for name in ZONES if rest[: len(name)].lower() == name.lower()), None)
        if name is None:
            raise ValueError(self._text)
        self._at += len(name)
        self._set("z", ZONES[name])

    def _offset(self, rest: str, start: int, *, minutes: bool, colon: bool) -> None:
        sign = {"+": 1, "-": -1}.get(rest[start : start + 1], 0)
        hours = rest[start + 1 : start + 3]
        if start and not hours.isdecimal():
            hours = hours[:1]
        end = start + 1 + len(hours)
        past = "00"
        if minutes:
            end += colon
            past = rest[end : end + 2]
            if colon and rest[end - 1 : end] != ":":
                past = ""
            end += 2
        wide = (1, 2) if start else (2,)
        if not sign or len(hours) not in wide or not hours.isdecimal() or len(past) != 2 or not past.isdecimal():
            raise ValueError(self._text)
        if int(hours) > 23 or int(past) > 59:
            raise ValueError(self._text)
        self._at += end
        self._set("z", sign * (int(hours) * 60 + int(past)))

    def epoch_ms(self) -> int:
        """The instant of the fields that were read; of two digits of a year, the one not before the century's start."""
        found = self._day() * DAY_MS + self._time() - self._fields.get("z", 0) * 60_000
        if self._ambiguous and found < self._century:
            self._fields["y"] += 100
            found = self._day() * DAY_MS + self._time() - self._fields.get("z", 0) * 60_000
        return found

    def _time(self) -> int:
        fields = self._fields
        hour = max(self._order("H"), self._order("k"))
        half = max(self._order("h"), self._order("K"))
        of_day = {24: 0}.get(fields["k"], fields["k"]) if self._order("k") > self._order("H") else fields.get("H", 0)
        of_half = {12: 0}.get(fields["h"], fields["h"]) if self._order("h") > self._order("K") else fields.get("K", 0)
        if hour < 0 or (half >= 0 and "a" in fields and max(half, self._order("a")) > hour):
            of_day = of_half + 12 * fields.get("a", 0)
        return ((of_day * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)) * 1000 + fields.get("S", 0)

    def _order(self, name: str) -> int:
        """The place of a field in the order of reading, -1 where it was not read."""
        return list(self._fields).index(name) if name in self._fields else -1

    def _day(self) -> int:
        """Days since 1970; which fields count is decided as `Calendar` does, by what was read last."""
        fields = self._fields
        weekday, week = fields.get("E", SUNDAY), fields.get("w", 1)
        if self._order("u") > self._order("E"):
            later, iso = divmod(fields["u"] - 1, 7)
            weekday, week = (iso + 1) % 7 + 1, week + later
        if "Y" in fields and self._order("Y") > self._order("y"):
            return first_sunday(fields["Y"]) + 7 * (week - 1) + weekday - SUNDAY
        year = fields.get("y", 1970)
        if fields.get("G") == 0:
            year = 1 - year
        first = days_of(year, fields.get("M", 1), 1)
        sunday = first - (first + 4) % 7
        match self._by():
            case "D":
                return days_of(year, 1, 1) + fields["D"] - 1
            case "w":
                return first_sunday(year) + 7 * (week - 1) + weekday - SUNDAY
            case "W":
                return sunday + 7 * (fields["W"] - 1) + weekday - SUNDAY
            case "F":
                start = sunday + weekday - SUNDAY
                return start + 7 * (start < first) + 7 * (fields.get("F", 1) - 1)
            case _:
                return days_of(year, fields.get("M", 1), fields.get("d", 1))

    def _by(self) -> str:
        """The field that decides about the day: of the complete ones the last, else a week, else the day of the month."""
        weekday = max(self._order("E"), self._order("u"))
        alone = {name: self._order(name) for name in "dD"}
        weeks = {name: max(self._order(name), weekday) if self._order(name) >= 0 <= weekday else -1 for name in "wFW"}
        stamps = alone | weeks
        if max(stamps.values()) < 0:
            stamps = {name: self._order(name) for name in "wW"} | {"F": max(self._order("F"), weekday)}
        best = max(stamps.values())
        return max((name for name in stamps if stamps[name] == best), key=self._order) if best >= 0 else "d"


_ISO_TIME = SimpleDates("HH:mm:ss.SSS'Z'", now_ms=0)
_ISO_DATE = SimpleDates("yyyy-MM-dd", now_ms=0)
_ISO = SimpleDates("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", now_ms=0)
