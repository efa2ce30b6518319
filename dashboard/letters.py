"""Which dead letters are there, and how do they look? The log's tables say which files to read; only what was asked for is read.

What became of each letter is judged by the product's own ledger (`kafka_s3.dead_letter_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import pandas as pd

from frames import Frames
from kafka_s3.cli.dead_letter_text import csv_rows, readable
from kafka_s3.commit_entry import read_entry
from kafka_s3.dead_letter_files import Filed, Ledger, LetterFile, Selection, Settled, letters
from kafka_s3.model import DataFile, Reason, Role, TopicPartition, Upload
from kafka_s3.storage.store import ObjectStore
from text import cell

MOST_FILES: Final = 200
MOST_LETTERS: Final = 5000
PREVIEW: Final = 200
_STAND_IN: Final = DataFile("", "", 0, 0, 0, 0, 0, None, None, "", "", "", Reason.FLUSH_NOW, Upload("", "", (), 0))
"""For the files of a replay, which the tables keep apart: the ledger only asks whether an entry has any."""


@dataclass(frozen=True, slots=True)
class Found:
    """Letters that were read, newest files first; `unread` files were left out, `missing` ones are not in the bucket."""

    letters: tuple[Filed, ...]
    unread: int
    missing: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether these are all."""
        return not self.unread and len(self.letters) < MOST_LETTERS


def letter_files(frames: Frames) -> pd.DataFrame:
    """The dead letter files among the files of the log."""
    return frames.files[(frames.files["role"] == Role.DEAD_LETTER).to_numpy()]


def read_letters(store: ObjectStore, frames: Frames, candidates: pd.DataFrame, selection: Selection) -> Found:
    """The selected letters of these files, at most MOST_FILES files and MOST_LETTERS letters. Raises LogDamaged, StorageError."""
    chosen = [one for one in map(_letter_file, candidates.iloc[::-1].itertuples()) if selection.may_hold(one)]
    ledger = Ledger(files={one.file.key: one for one in chosen[:MOST_FILES]}, settled=_settled(frames))
    missing: list[str] = []
    found = letters(ledger, store, selection=selection, missing=lambda gone: missing.append(gone.file.key))
    return Found(tuple(islice(found, MOST_LETTERS)), max(len(chosen) - MOST_FILES, 0), tuple(missing))


def _settled(frames: Frames) -> dict[TopicPartition, list[Settled]]:
    """What settled letters: the entries of kind position and replay, in the order of the log."""
    ledger = Ledger()
    notes = frames.entries[(frames.entries["note"] != "").to_numpy(dtype=bool)]
    for row in notes.itertuples():
        entry = read_entry(str(row.note).encode(), key=f"entry {row.version}")
        ledger.add(replace(entry, files=(_STAND_IN,)) if row.files else entry)
    return ledger.settled


def _letter_file(row: Any) -> LetterFile:
    key = f"{row.folder}{row.name}"
    file = DataFile(
        key, str(row.topic), row.partition, row.first_offset, row.last_offset, row.records, row.bytes, None, None, "", "", str(row.format),
        Reason.DEAD_LETTER, Upload(key, "", (), row.bytes), Role.DEAD_LETTER,
    )  # fmt: skip
    return LetterFile(file, row.version, row.committed_ms)


def letters_table(found: Sequence[Filed]) -> pd.DataFrame:
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


def by_class(found: Iterable[Filed]) -> pd.DataFrame:
    """How many letters each exception class has, most first."""
    frame = pd.DataFrame([(one.letter.exception.rpartition(".")[2], 1) for one in found], columns=["class", "letters"])
    return frame.groupby("class").sum().sort_values("letters", ascending=False).reset_index()


def export(found: Iterable[Filed]) -> bytes:
    """The letters as CSV that no spreadsheet calculates, as `kafka-s3 dead-letters export` writes it."""
    return "".join(csv_rows(found)).encode()


def _preview(raw: bytes | None) -> str:
    """Enough to recognise a record by; the whole of it is shown for one record at a time."""
    if raw is None:
        return "null"
    text = str(cell(readable(raw[:PREVIEW])))
    return f"{text} ..." if len(raw) > PREVIEW else text
