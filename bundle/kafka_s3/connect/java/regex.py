"""How do Java's regular expressions run here? As Python's, translated where the two spell the same thing differently."""

from __future__ import annotations

import re
from typing import Final

CLASSES: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7F", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "XDigit": "0-9a-fA-F", "Space": r"\s",
    "Cntrl": r"\x00-\x1F\x7F",
}  # fmt: skip
QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
PROPERTY: Final = re.compile(r"\\(?:([pP])\{(\w+)\}|(.))", re.DOTALL)
REFERENCE: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$([0-9]+)|([\\$])", re.DOTALL)


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, with ASCII classes as in Java. Raises ValueError where it is none, or says what Python cannot."""
    plain = QUOTED.sub(lambda found: re.escape(found[1]), pattern)
    plain = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", plain)
    plain = re.sub(r"\\k<(\w+)>", r"(?P=\1)", plain)
    if "&&" in plain:
        raise ValueError("it intersects classes (&&), which is not supported here")
    try:
        return re.compile(_properties(plain), re.ASCII)
    except re.error as error:
        raise ValueError(f"{error.msg} at {error.pos}") from None


def _properties(pattern: str) -> str:
    inside = False
    out, at = "", 0
    while at < len(pattern):
        found = PROPERTY.match(pattern, at)
        if found is None:
            inside = (inside or pattern[at] == "[") and pattern[at] != "]"
            out += pattern[at]
            at += 1
            continue
        out += found[0] if found[1] is None else _property(found[1], found[2], inside=inside)
        at = found.end()
    return out.replace(r"\z", r"\Z")


def _property(sign: str, name: str, *, inside: bool) -> str:
    if name not in CLASSES or (inside and sign == "P"):
        raise ValueError(f"the class {name} is not supported here")
    return CLASSES[name] if inside else f"[{'^' if sign == 'P' else ''}{CLASSES[name]}]"


def replaced_first(found: re.Match[str], replacement: str) -> str:
    """The text with the match replaced (`Matcher.replaceFirst`): `$1` and `${name}` are groups, a backslash takes the next as it is.

    Raises ValueError, IndexError with Java's reason.
    """
    text = REFERENCE.sub(lambda reference: _expanded(found, reference), replacement)
    return found.string[: found.start()] + text + found.string[found.end() :]


def _expanded(found: re.Match[str], reference: re.Match[str]) -> str:
    escaped, name, digits, stray = reference.groups()
    if escaped is not None:
        return str(escaped)
    if stray is not None:
        raise ValueError(
            "Illegal group reference: group index is missing" if stray == "$" else "character to be escaped is missing"
        )
    if name is not None:
        if name not in found.re.groupindex:
            raise ValueError(f"No group with name {{{name}}}")
        return found[name] or ""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= found.re.groups:
        length += 1
    if int(digits[:length]) > found.re.groups:
        raise IndexError(f"No group {digits[:length]}")
    return (found[int(digits[:length])] or "") + digits[length:]
