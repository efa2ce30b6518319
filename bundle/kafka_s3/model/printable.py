"""How is text shown that comes from data? With everything escaped that a terminal, a log or a page would obey."""

from __future__ import annotations

from typing import Final

ESCAPED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text with everything escaped that is no visible character or blank: control characters, and what turns text around."""
    return "".join(char if char.isprintable() else ESCAPED.get(char, _escape(ord(char))) for char in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
