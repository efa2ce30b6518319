"""What are the parts of a pattern of `java.text.SimpleDateFormat`?"""

from __future__ import annotations

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
