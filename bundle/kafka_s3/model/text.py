"""How is text shown that must not be shown as it is? What comes from data is escaped, passwords are masked."""

from __future__ import annotations

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


class Secret:
    """An immutable text that shows as `****` however it is printed; pickling keeps it, because workers need it."""

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A Secret cannot be changed.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A Secret cannot be changed.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)
