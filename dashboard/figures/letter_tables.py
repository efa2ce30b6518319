"""How do dead letters look as a table, as counts of their classes, and as a file to take away? Everything of a record stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pandas as pd

from figures.text import cell
from kafka_s3.commit.dead_letters import FiledLetter
from kafka_s3.tools.dead_letters.text import csv_rows, readable

PREVIEW: Final = 200


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


def by_class(found: Iterable[FiledLetter]) -> pd.DataFrame:
    """How many letters each exception class has, most first."""
    frame = pd.DataFrame([(one.letter.exception.rpartition(".")[2], 1) for one in found], columns=["class", "letters"])
    return frame.groupby("class").sum().sort_values("letters", ascending=False).reset_index()


def export(found: Iterable[FiledLetter]) -> bytes:
    """The letters as CSV that no spreadsheet calculates, as `kafka-s3 dead-letters export` writes it."""
    return "".join(csv_rows(found)).encode()


def _preview(raw: bytes | None) -> str:
    """Enough to recognise a record by; the whole of it is shown for one record at a time."""
    if raw is None:
        return "null"
    text = str(cell(readable(raw[:PREVIEW])))
    return f"{text} ..." if len(raw) > PREVIEW else text
