r"""Translate Java's regular expressions to Python's.

A translated pattern matches the same texts as in `java.util.regex`. What has no exact translation is refused with its name: flags of
multiple lines, comments and Unicode, line breaks (`\R`), graphemes, references to later groups, Unicode scripts and blocks. Character
classes are computed as ranges of code points, so that unions, intersections and negations need no form in Python. Java's releases differ
in the version of Unicode that categories follow, and in whether letters outside ASCII are parts of words at `\b`; here they are not.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points: first and last of each range, ascending and apart."""

QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
QUANTIFIER: Final = re.compile(r"(?:[?*+]|\{[0-9]+(?:,[0-9]*)?\})[?+]?")
INLINE_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
NAMED_REFERENCE: Final = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
PROPERTY: Final = re.compile(r"\\[pP](?:\{([^}]*)\}|([^{]))", re.DOTALL)
CODE: Final = re.compile(
    r"\\(?:0([0-3][0-7]{2}|[0-7]{1,2})|x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|c(.))", re.DOTALL
)
CONTROLS: Final = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
REFERENCE: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$([0-9]+)|([\\$])", re.DOTALL)

LAST_END: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
"""Before the last line terminator, or at the end."""
ASSERTIONS: Final = {"A": r"(?:\A)", "z": r"(?:\Z)", "Z": LAST_END, "b": r"(?:\b)", "B": r"(?!\b)"}
LINE_TERMINATORS: Final = "\n\r\x85\u2028\u2029"


def _ranges(*spans: str) -> Ranges:
    return _merged((ord(span[0]), ord(span[-1])) for span in spans)


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), sys.maxunicode]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)


def _intersection(left: Ranges, right: Ranges) -> Ranges:
    return _complement(_merged(_complement(left) + _complement(right)))


SETS: Final[dict[str, Ranges]] = {
    "d": _ranges("09"), "w": _ranges("az", "AZ", "09", "_"), "s": _ranges("\t\r", " "), "v": _ranges("\n\r", "\x85", "\u2028\u2029"),
    "h": _ranges("\t", " ", "\xa0", "\u1680", "\u180e", "\u2000\u200a", "\u202f", "\u205f", "\u3000"),
}  # fmt: skip
"""What `\\d` and the others stand for; a capital letter stands for all else."""
POSIX: Final[dict[str, Ranges]] = {
    "Lower": _ranges("az"), "Upper": _ranges("AZ"), "ASCII": _ranges("\x00\x7f"), "Alpha": _ranges("az", "AZ"), "Digit": _ranges("09"),
    "Alnum": _ranges("az", "AZ", "09"), "Punct": _ranges("!/", ":@", "[`", "{~"), "Graph": _ranges("!~"), "Print": _ranges(" ~"),
    "Blank": _ranges(" ", "\t"), "Cntrl": _ranges("\x00\x1f", "\x7f"), "XDigit": _ranges("09", "af", "AF"), "Space": SETS["s"],
}  # fmt: skip
CATEGORIES: Final = frozenset({
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
    "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co", "Cn",
})  # fmt: skip
NO_WHITESPACE: Final = _ranges("\xa0", "\u2007", "\u202f")
JAVA: Final[dict[str, Callable[[str], bool]]] = {
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaLetter": lambda char: unicodedata.category(char)[0] == "L",
    "javaDigit": lambda char: unicodedata.category(char) == "Nd",
    "javaLetterOrDigit": lambda char: unicodedata.category(char)[0] == "L" or unicodedata.category(char) == "Nd",
}
CASED: Final = frozenset({"Lower", "Upper", "Lu", "Ll", "Lt", "javaLowerCase", "javaUpperCase"})


@lru_cache(maxsize=64)
def _of_property(name: str) -> Ranges | None:
    if name in POSIX:
        return POSIX[name]
    if name == "javaWhitespace":
        spaces = _merged((_of_property("Z") or ()) + _ranges("\t\r", "\x1c\x1f"))
        return _intersection(spaces, _complement(NO_WHITESPACE))
    category = name.removeprefix("Is").removeprefix("gc=").removeprefix("general_category=")
    if name in JAVA:
        holds = JAVA[name]
    elif category in CATEGORIES:
        holds = lambda char: unicodedata.category(char).startswith(category)  # noqa: E731
    else:
        return None
    return _merged((code, code) for code in range(sys.maxunicode + 1) if holds(chr(code)))


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Java. Raises ValueError with what is wrong, or with the construct that is not supported."""
    try:
        return re.compile(_Translation(QUOTED.sub(_unquoted, pattern)).translate(), re.ASCII)
    except re.error as error:
        raise ValueError(error.msg) from None
    except (OverflowError, RecursionError):
        raise ValueError("it is too large") from None


def _unquoted(quotation: re.Match[str]) -> str:
    text = quotation[1]
    if text is None:
        return quotation[0]
    # a digit must not join a reference to a group before it
    escaped = "".join(char if char.isascii() and char.isalnum() else f"\\{char}" for char in text)
    return f"\\x3{escaped}" if text[:1].isdecimal() and text[0].isascii() else escaped


class _Translation:
    """One pass over a pattern. Each translated element stands for itself, so that a quantifier may follow it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._outer_flags: list[frozenset[str]] = []
        self._groups = 0

    def translate(self) -> str:
        translated: list[str] = []
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "(":
                translated.append(self._open_group())
            elif char == "|":
                self._at += 1
                translated.append("|")
            else:
                translated += [self._close_group() if char == ")" else self._element(char), self._quantifier()]
        if self._outer_flags:
            raise ValueError("Unclosed group")
        return "".join(translated)

    def _open_group(self) -> str:
        self._outer_flags.append(self._flags)
        remainder = self._pattern[self._at :]
        named = NAMED_GROUP.match(remainder)
        if named is not None:
            self._groups += 1
            self._at += named.end()
            return f"(?P<{named[1]}>"
        if not remainder.startswith("(?"):
            self._groups += 1
            self._at += 1
            return "("
        for opening in ("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"):
            if remainder.startswith(opening):
                self._at += len(opening)
                return opening
        return self._set_flags(remainder)

    def _set_flags(self, remainder: str) -> str:
        inline = INLINE_FLAGS.match(remainder)
        if inline is None:
            raise ValueError(f"the group {remainder[:3]} is not one of Java, or not supported")
        added, removed, end = inline.groups("")
        for flag in added + removed:
            if flag not in "is":
                raise ValueError(f"the flag {flag} of (?{added}{'-' if removed else ''}{removed}) is not supported")
        self._at += inline.end()
        self._flags = (self._flags | set(added)) - set(removed)
        if end == ":":
            return "(?:"
        self._outer_flags.pop()  # the flags last until the end of the group around them
        return ""

    def _close_group(self) -> str:
        if not self._outer_flags:
            raise ValueError("Unmatched closing ')'")
        self._at += 1
        self._flags = self._outer_flags.pop()
        return ")"

    def _quantifier(self) -> str:
        quantifier = QUANTIFIER.match(self._pattern, self._at)
        if quantifier is None:
            return ""
        self._at = quantifier.end()
        return quantifier[0]

    def _element(self, char: str) -> str:
        if char == "\\":
            return self._escape()
        self._at += 1
        match char:
            case "[":
                return _written(self._character_class())
            case ".":
                return r"[\s\S]" if "s" in self._flags else f"[^{LINE_TERMINATORS}]"
            case "^":
                return ASSERTIONS["A"]
            case "$":
                return LAST_END
            case "*" | "+" | "?":
                raise ValueError(f"Dangling meta character '{char}'")
            case "{":
                raise ValueError("Illegal repetition")
        return _written(self._cased([(ord(char), ord(char))]))

    def _escape(self) -> str:
        letter = self._pattern[self._at + 1 : self._at + 2]
        reference = NAMED_REFERENCE.match(self._pattern, self._at)
        if reference is not None:
            self._at = reference.end()
            return self._reference(f"(?P={reference[1]})")
        if letter in "123456789" and letter:
            return self._numbered_reference()
        if letter == "b" and self._pattern.startswith("{", self._at + 2):
            raise ValueError(r"\b{ is not supported")
        if letter in ASSERTIONS:
            self._at += 2
            return ASSERTIONS[letter]
        code = self._code()
        return _written(self._escaped_set() if code is None else self._cased([(code, code)]))

    def _numbered_reference(self) -> str:
        """Java takes as many digits as there are groups for."""
        number = 0
        self._at += 1
        while self._at < len(self._pattern) and self._pattern[self._at] in "0123456789":
            longer = 10 * number + int(self._pattern[self._at])
            if number and longer > self._groups:
                break
            number = longer
            self._at += 1
        return self._reference(rf"\{number}")

    def _reference(self, text: str) -> str:
        return f"(?i:{text})" if "i" in self._flags else f"(?:{text})"

    def _code(self) -> int | None:
        """Return the code point of an escape that stands for one character, None for any other escape."""
        written = CODE.match(self._pattern, self._at)
        if written is not None:
            self._at = written.end()
            octal, short, braced, unit, control = written.groups()
            if control is not None:
                return ord(control) ^ 64
            code = int(octal, 8) if octal is not None else int(short or braced or unit, 16)
            return self._with_low_surrogate(code) if unit is not None else code
        letter = self._pattern[self._at + 1 : self._at + 2]
        if not letter:
            raise ValueError("it ends with a backslash")
        if letter not in CONTROLS and letter.isascii() and letter.isalnum():
            return None
        self._at += 2
        return CONTROLS.get(letter, ord(letter))

    def _with_low_surrogate(self, code: int) -> int:
        low = CODE.match(self._pattern, self._at)
        if 0xD800 <= code < 0xDC00 and low is not None and low[4] is not None and 0xDC00 <= int(low[4], 16) < 0xE000:
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[4], 16) - 0xDC00
        return code

    def _escaped_set(self) -> Ranges:
        letter = self._pattern[self._at + 1]
        if letter.lower() in SETS:
            self._at += 2
            return SETS[letter] if letter in SETS else _complement(SETS[letter.lower()])
        written = PROPERTY.match(self._pattern, self._at)
        if written is None:
            raise ValueError(rf"the escape \{letter} is not one of Java, or not supported")
        name = written[1] or written[2] or ""
        ranges = None if name in CASED and "i" in self._flags else _of_property(name)
        if ranges is None:
            flagged = " under the flag i" if name in CASED else ""
            raise ValueError(f"the class {written[0]}{flagged} is not supported")
        self._at = written.end()
        return ranges if letter == "p" else _complement(ranges)

    def _character_class(self) -> Ranges:
        """Read a class behind its bracket. Unions bind more tightly than `&&`, and a negation is about all of it."""
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        sides: list[Ranges] = []
        members: list[tuple[int, int]] | None = None
        while True:
            char = self._pattern[self._at : self._at + 1]
            if not char:
                raise ValueError("Unclosed character class")
            if char == "]" and (members is not None or sides):
                break
            if self._pattern.startswith("&&", self._at):
                if members is None or self._pattern[self._at + 2 : self._at + 3] in ("&", "]"):
                    raise ValueError("a side of && that is empty or begins with & is not supported")
                sides.append(_merged(members))
                members = None
                self._at += 2
                continue
            members = [*(members or ()), *self._member(char)]
        self._at += 1
        ranges = _merged(members or ())
        for side in sides:
            ranges = _intersection(ranges, side)
        return _complement(ranges) if negated else ranges

    def _member(self, char: str) -> Ranges:
        if char == "[":
            self._at += 1
            return self._character_class()
        first = self._single(char)
        if first is None:
            if self._pattern.startswith(r"\v-", self._at):
                raise ValueError(r"\v in a range is not supported")
            return self._escaped_set()
        if self._pattern[self._at : self._at + 1] != "-" or self._pattern[self._at + 1 : self._at + 2] in ("[", "]"):
            return self._cased([(first, first)])
        self._at += 1
        end = self._single(self._pattern[self._at : self._at + 1])
        if end is None or end < first:
            raise ValueError("Illegal character range")
        return self._cased([(first, end)])

    def _single(self, char: str) -> int | None:
        if char == "\\":
            return self._code()
        if not char:
            raise ValueError("Unclosed character class")
        self._at += 1
        return ord(char)

    def _cased(self, ranges: Iterable[tuple[int, int]]) -> Ranges:
        """Under the flag i, add the other case of ASCII letters."""
        plain = _merged(ranges)
        if "i" not in self._flags:
            return plain
        upper, lower = _intersection(plain, POSIX["Upper"]), _intersection(plain, POSIX["Lower"])
        swapped = [(first + 32, last + 32) for first, last in upper] + [
            (first - 32, last - 32) for first, last in lower
        ]
        return _merged((*plain, *swapped))


def _written(ranges: Ranges) -> str:
    """Return the Python class of code points; without any it matches nothing."""
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]"


def replace_first(match: re.Match[str], replacement: str) -> str:
    """Replace the match in its text as `Matcher.replaceFirst` does: `$1` and `${name}` are groups, a backslash quotes the next character.

    Raises ValueError or IndexError with Java's reason.
    """
    text = REFERENCE.sub(lambda reference: _expanded(match, reference), replacement)
    return match.string[: match.start()] + text + match.string[match.end() :]


def _expanded(match: re.Match[str], reference: re.Match[str]) -> str:
    escaped, name, digits, stray = reference.groups()
    if escaped is not None:
        return str(escaped)
    if stray is not None:
        raise ValueError(
            "Illegal group reference: group index is missing" if stray == "$" else "character to be escaped is missing"
        )
    if name is not None:
        if name not in match.re.groupindex:
            raise ValueError(f"No group with name {{{name}}}")
        return match[name] or ""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= match.re.groups:
        length += 1
    if int(digits[:length]) > match.re.groups:
        raise IndexError(f"No group {digits[:length]}")
    return (match[int(digits[:length])] or "") + digits[length:]
