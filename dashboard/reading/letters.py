"""Which dead letters are there? The log's tables say which files to read; only what was asked for is read.

What became of each letter is judged by the product's own ledger (`kafka_s3.commit.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from kafka_s3.commit.dead_letters import FiledLetter, Ledger, LetterFile, LetterSelection, Settled, letters
from kafka_s3.commit.entry import read_entry
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.storage.store import ObjectStore
from reading.frames import Frames

MOST_FILES: Final = 200
MOST_LETTERS: Final = 5000
MOST_BYTES: Final = 32 << 20
"""What is unpacked of one file, and what the letters that are found may take together."""
_STAND_IN: Final = DataFile("", "", 0, 0, 0, 0, 0, None, None, "", "", "", Reason.FLUSH_NOW, Upload("", "", (), 0))
"""For the files of a replay, which the tables keep apart: the ledger only asks whether an entry has any."""


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """Letters that were read, newest files first; `unread` files were left out, `missing` ones are not in the bucket.

    Of `cut` files, whose letters are more than MOST_BYTES, only the first ones were read. `full`: there are more than are kept.
    """

    letters: tuple[FiledLetter, ...]
    unread: int
    missing: tuple[str, ...]
    cut: int = 0
    full: bool = False


def letter_files(frames: Frames) -> pd.DataFrame:
    """The dead letter files among the files of the log."""
    return frames.files[(frames.files["role"] == Role.DEAD_LETTER).to_numpy()]


def read_letters(
    store: ObjectStore,
    frames: Frames,
    candidates: pd.DataFrame,
    selection: LetterSelection,
    *,
    wanted: Callable[[DeadLetter], bool] = lambda _: True,
) -> FoundLetters:
    """The selected letters of these files that are `wanted`: of at most MOST_FILES files, MOST_LETTERS letters and MOST_BYTES.

    Raises LogDamaged, StorageError.
    """
    chosen = [one for one in map(_letter_file, candidates.iloc[::-1].itertuples()) if selection.may_hold(one)]
    ledger = Ledger(files={one.file.key: one for one in chosen[:MOST_FILES]}, settled=_settled(frames))
    missing: list[str] = []
    cut: list[LetterFile] = []
    found = letters(
        ledger,
        store,
        selection=selection,
        missing=lambda gone: missing.append(gone.file.key),
        most_bytes=MOST_BYTES,
        cut=cut.append,
    )
    kept: list[FiledLetter] = []
    left, full = MOST_BYTES, False
    for filed in (one for one in found if wanted(one.letter)):
        left -= _size(filed.letter)
        if full := left < 0 or len(kept) == MOST_LETTERS:
            break
        kept.append(filed)
    return FoundLetters(tuple(kept), max(len(chosen) - MOST_FILES, 0), tuple(missing), len(cut), full)


def _size(letter: DeadLetter) -> int:
    raw = (letter.key, letter.value, *(value for _, value in letter.headers))
    return sum(len(one) for one in raw if one is not None) + len(letter.message)


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
