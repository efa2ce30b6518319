"""How is text shown that must not be shown as it is? What comes from data is escaped, passwords are masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MASK: Final = "****"
ESCAPED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text with everything escaped that is no visible character or blank: control characters, and what turns text around."""
    return "".join(char if char.isprintable() else ESCAPED.get(char, _escape(ord(char))) for char in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """An immutable text that shows as `****` however it is printed; pickling keeps it, because workers need it."""

    _text: str

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)
