"""How do dead letters look as a table, by what their messages have in common, one by one, and as a file? Records stay text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from kafka_s3.engine.log.dead_letters import FiledLetter
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.ops.dead_letter_text import csv_rows, details, readable
from kafka_s3_dashboard.figures.text import cell

PREVIEW: Final = 200
MESSAGE: Final = 500
SHOWN_BYTES: Final = 8 << 10
SHOWN_HEADERS: Final = 50
MOST_PATTERNS: Final = 1000
OTHERS: Final = "(others)"
BEGINNING: Final = 20
"""A shorter common beginning is no trouble."""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


def letters_table(found: Sequence[FiledLetter]) -> pd.DataFrame:
    """A row per letter, with the beginning of key and value as text."""
    rows = [
        (
            one.letter.topic, one.letter.partition, one.letter.offset, one.committed_ms, one.letter.stage, one.letter.exception,
            one.letter.message, str(one.state), _preview(one.letter.key), _preview(one.letter.value),
        )
        for one in found
    ]  # fmt: skip
    columns = ["topic", "partition", "offset", "committed_ms", "stage", "exception", "message", "state", "key", "value"]
    return pd.DataFrame(rows, columns=columns)


def by_pattern(found: Iterable[FiledLetter]) -> pd.DataFrame:
    """Letters whose messages differ only in numbers and quoted texts, together: how many, since when and until when, and one of them.

    Columns `pattern`, `stage`, `letters`, `first_ms`, `last_ms`, `example` (see `name_of`); most letters first. Letters are taken one by
    one, and of patterns no more than MOST_PATTERNS are distinguished: those beyond go into OTHERS.
    """
    groups: dict[tuple[str, str], _Group] = {}
    for one in found:
        key = (pattern_of(one.letter.message), one.letter.stage)
        if key not in groups and len(groups) >= MOST_PATTERNS:
            key = (OTHERS, "")
        group = groups.setdefault(key, _Group(0, one.committed_ms, one.committed_ms, name_of(one.letter)))
        group.letters += 1
        group.first_ms, group.last_ms = min(group.first_ms, one.committed_ms), max(group.last_ms, one.committed_ms)
    rows = [(*key, group.letters, group.first_ms, group.last_ms, group.example) for key, group in groups.items()]
    made = pd.DataFrame(rows, columns=["pattern", "stage", "letters", "first_ms", "last_ms", "example"])
    return made.sort_values("letters", ascending=False, ignore_index=True, kind="stable")


def told_apart(patterns: Sequence[str]) -> list[str]:
    """The patterns without the words with which all of them begin, so that a narrow column shows where they differ."""
    if len(set(patterns)) < 2:
        return list(patterns)
    low, high = min(patterns), max(patterns)
    same = next((place for place, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    begin = low.rfind(" ", 0, same) + 1
    return [f"... {pattern[begin:]}" if begin > BEGINNING else pattern for pattern in patterns]


@dataclass(slots=True)
class _Group:
    letters: int
    first_ms: int
    last_ms: int
    example: str


def pattern_of(message: str) -> str:
    """The message without what differs from record to record."""
    return _NUMBER.sub("#", _QUOTED.sub("'...'", message[:MESSAGE]))


def name_of(letter: DeadLetter) -> str:
    """Which record it is, in a word that fits into an address: `orders-0-28`."""
    return f"{letter.topic}-{letter.partition}-{letter.offset}"


def place_of(name: str) -> tuple[str, int, int] | None:
    """Topic, partition and offset of such a word; None where it is none."""
    parts = name.rsplit("-", 2)
    if len(parts) == 3 and parts[0] and all(part.isascii() and part.isdecimal() for part in parts[1:]):
        return parts[0], int(parts[1]), int(parts[2])
    return None


def holds(letter: DeadLetter, text: str) -> bool:
    """Whether a text, in any case of letters, is in the message, the key, the value or a header."""
    raw = (letter.key, letter.value, *(value for _, value in letter.headers))
    names = (letter.message, *(name for name, _ in letter.headers))
    wanted = text.casefold()
    return any(
        wanted in one.casefold() for one in (*names, *(readable(content) for content in raw if content is not None))
    )


def members(filed: FiledLetter) -> Iterator[tuple[str, str]]:
    """Everything of a letter, as names and printable texts, shortened to what a page can show."""
    yield from details(shortened(filed))
    if (more := len(filed.letter.headers) - SHOWN_HEADERS) > 0:
        yield "headers", f"{more:,} more, in the export"


def shortened(filed: FiledLetter) -> FiledLetter:
    """The letter with no more of key, value and all headers together than a page can show."""
    letter, left = filed.letter, SHOWN_BYTES
    headers = []
    for name, value in letter.headers[:SHOWN_HEADERS]:
        headers.append((name[:MESSAGE], value and value[:left]))
        left -= len(value[:left]) if value else 0
    key, value = letter.key and letter.key[:SHOWN_BYTES], letter.value and letter.value[:SHOWN_BYTES]
    return replace(filed, letter=replace(letter, key=key, value=value, headers=tuple(headers)))


def pretty(raw: bytes | None) -> str | None:
    """A JSON object or array on several lines, None where it is none, or too large to be shown."""
    if raw is None or len(raw) > SHOWN_BYTES or raw.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.dumps(json.loads(raw), indent=2, ensure_ascii=True)
    except (ValueError, RecursionError):
        return None


def export(found: Iterable[FiledLetter]) -> bytes:
    """The letters as CSV that no spreadsheet calculates, as `kafka-s3 dead-letters export` writes it."""
    return "".join(csv_rows(found)).encode()


def _preview(raw: bytes | None) -> str:
    """Enough to recognise a record by; the whole of it is shown for one record at a time."""
    if raw is None:
        return "null"
    text = str(cell(readable(raw[:PREVIEW])))
    return f"{text} ..." if len(raw) > PREVIEW else text
