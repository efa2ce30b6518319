"""How do dead letters look as a table, by what their messages have in common, one by one, and as a file? Records stay text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from figures.text import cell
from kafka_s3.commit.dead_letters import FiledLetter
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.tools.dead_letters.text import csv_rows, readable

PREVIEW: Final = 200
MESSAGE: Final = 500
SHOWN_BYTES: Final = 8 << 10
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

    Columns `pattern`, `stage`, `letters`, `first_ms`, `last_ms`, `example` (see `name_of`); most letters first.
    """
    rows = [(pattern_of(one.letter.message), one.letter.stage, one.committed_ms, name_of(one.letter)) for one in found]
    frame = pd.DataFrame(rows, columns=["pattern", "stage", "at_ms", "example"])
    groups = frame.groupby(["pattern", "stage"])
    made = groups.agg(
        letters=("example", "size"), first_ms=("at_ms", "min"), last_ms=("at_ms", "max"), example=("example", "first")
    )
    return made.reset_index().sort_values("letters", ascending=False, ignore_index=True)


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


def shortened(filed: FiledLetter, most: int = SHOWN_BYTES) -> FiledLetter:
    """The letter with no more of key, value and each header than a page can show."""
    letter = filed.letter
    headers = tuple((name, value and value[:most]) for name, value in letter.headers)
    short = replace(
        letter, key=letter.key and letter.key[:most], value=letter.value and letter.value[:most], headers=headers
    )
    return replace(filed, letter=short)


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
