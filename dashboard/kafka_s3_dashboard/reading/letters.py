"""Which dead letters are there? The log's tables say which files to read; only what was asked for is read, a page at a time.

What became of each letter is judged by the product's own ledger (`kafka_s3.engine.log.dead_letters`). Fields that the operator named are
masked where letters are read; one that names a schema of a registry is shown as JSON, by the sink's own converter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.registry_values import RegistryValues
from kafka_s3.engine.log.dead_letters import FiledLetter, Ledger, LetterFile, LetterSelection, Settled, letters_of
from kafka_s3.engine.log.entry import read_entry
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.text import MASK
from kafka_s3.run.wiring.conversion import registry_converter
from kafka_s3.store.store import ObjectStore
from kafka_s3_dashboard.reading.frames import Frames

HIDDEN: Final = MASK.encode()
_FROM_RECORDS: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
"""What messages may cite of a record."""
_SECRET: Final = re.compile(
    r"authori[sz]ation|authenticat|(?<![a-z])auth(?![a-z])|cookie|token|secret|passw|pwd|credential|api.?key|private.?key|session|jwt",
    re.IGNORECASE,
)
"""Headers of such names carry what lets somebody in."""
Mask = Callable[[DeadLetter], DeadLetter]


def mask_of(fields: frozenset[str]) -> Mask:
    """Masks headers whose names say that they are secret, and the values of these fields, at any depth and of any letter case.

    With fields headers of their names are masked, too. What is not a JSON object or array cannot be taken apart, so it is hidden as a
    whole, as are citations and numbers in messages.
    """
    names = frozenset(name.casefold() for name in fields)

    def headers_of(letter: DeadLetter) -> tuple[tuple[str, bytes | None], ...]:
        secret = {name for name, _ in letter.headers if name.casefold() in names or _SECRET.search(name)}
        return tuple(
            (name, HIDDEN if value is not None and name in secret else value) for name, value in letter.headers
        )

    def mask(letter: DeadLetter) -> DeadLetter:
        headers = headers_of(letter)
        message = _FROM_RECORDS.sub(MASK, letter.message)
        key, value = _content(letter.key, names), _content(letter.value, names)
        return replace(letter, key=key, value=value, headers=headers, message=message)

    return mask if names else lambda letter: replace(letter, headers=headers_of(letter))


def _content(raw: bytes | None, names: frozenset[str]) -> bytes | None:
    if raw is None:
        return None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return HIDDEN
    if not isinstance(found, dict | list):
        return HIDDEN
    return json.dumps(_masked(found, names), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _masked(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: MASK if name.casefold() in names else _masked(inner, names) for name, inner in value.items()}
    return [_masked(inner, names) for inner in value] if isinstance(value, list) else value


MOST_FILES: Final = 200
MOST_LETTERS: Final = 1000
MOST_BYTES: Final = 16 << 20
"""Of one page: files that are looked into, letters, and bytes that these take together."""
MOST_COUNTED: Final = 2000
"""Files that are looked into to count letters by their messages."""
_STAND_IN: Final = DataFile("", "", 0, 0, 0, 0, 0, None, None, "", "", "", Reason.FLUSH_NOW, Upload("", "", (), 0))
"""For the files of a replay, which the tables keep apart: the ledger only asks whether an entry has any."""
Wanted = Callable[[DeadLetter], bool]


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """Where a page of letters begins: at a file, by its key, with letter number `letter` of it."""

    key: str
    letter: int = 0


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """A page of letters, newest files first. `older` is where the next page begins, None where there is none.

    Of the `files` that were looked into, `missing` ones are not in the bucket.
    """

    letters: tuple[FiledLetter, ...]
    older: LetterPlace | None
    files: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LetterFiles:
    """Where letters are read from: `files` that may hold some, newest first, and what settled letters."""

    store: ObjectStore
    files: Sequence[LetterFile]
    settled: Mapping[TopicPartition, Sequence[Settled]]
    selection: LetterSelection
    wanted: Wanted
    mask: Mask

    def of_file(self, origin: LetterFile, first: int = 0) -> Iterator[tuple[int, FiledLetter]]:
        """The letters of a file that are looked for, with their numbers in it. Raises ObjectMissing, LogDamaged, StorageError."""
        for number, filed in enumerate(letters_of(self.store, origin, self.settled, first=first), first):
            if self.selection.takes(filed):
                letter = self.mask(filed.letter)
                if self.wanted(letter):
                    yield number, replace(filed, letter=letter)


def letter_files(frames: Frames) -> pd.DataFrame:
    """The dead letter files among the files of the log; one that an erasure made is of the time and entry of that which it replaced."""
    found = frames.files[(frames.files["role"] == Role.DEAD_LETTER).to_numpy()]
    if frames.swaps.empty:
        return found
    first = found.groupby(["topic", "partition", "first_offset"], observed=True)[["version", "committed_ms"]].transform(
        "min"
    )
    return found.assign(version=first["version"], committed_ms=first["committed_ms"])[found["live"].to_numpy()]


def source_of(
    store: ObjectStore,
    frames: Frames,
    candidates: pd.DataFrame,
    selection: LetterSelection,
    *,
    wanted: Wanted = lambda _: True,
    masked: frozenset[str] = frozenset(),
) -> LetterFiles:
    """The selected letters of these files that are `wanted`, with some fields `masked` before that; nothing is read yet."""
    chosen = [one for one in map(_letter_file, candidates.iloc[::-1].itertuples()) if selection.may_hold(one)]
    return LetterFiles(store, chosen, _settled(frames), selection, wanted, mask_of(masked))


def read_page(source: LetterFiles, begin: LetterPlace | None = None) -> FoundLetters:
    """A page from a place on, without one the newest letters: of MOST_FILES files at most MOST_LETTERS letters and MOST_BYTES.

    Raises LogDamaged, StorageError.
    """
    at = next((row for row, one in enumerate(source.files) if begin and one.file.key == begin.key), 0)
    kept: list[FiledLetter] = []
    missing: list[str] = []
    left = MOST_BYTES
    for row, origin in enumerate(source.files[at : at + MOST_FILES], 1):
        first = begin.letter if begin is not None and origin.file.key == begin.key else 0
        try:
            for number, filed in source.of_file(origin, first):
                left -= size_of(filed.letter)
                if kept and (left < 0 or len(kept) == MOST_LETTERS):
                    return FoundLetters(tuple(kept), LetterPlace(origin.file.key, number), row, tuple(missing))
                kept.append(filed)
        except ObjectMissing:
            missing.append(origin.file.key)
    behind = source.files[at + MOST_FILES : at + MOST_FILES + 1]
    older = LetterPlace(behind[0].file.key) if behind else None
    return FoundLetters(tuple(kept), older, min(len(source.files) - at, MOST_FILES), tuple(missing))


def every_letter(source: LetterFiles) -> Iterator[FiledLetter]:
    """All letters, newest files first, one in memory at a time; of MOST_COUNTED files. Raises LogDamaged, StorageError."""
    for origin in source.files[:MOST_COUNTED]:
        try:
            yield from (filed for _, filed in source.of_file(origin))
        except ObjectMissing:
            continue


def size_of(letter: DeadLetter) -> int:
    """Bytes of a letter's key, value, headers and message."""
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


NO_TIME: Final = -1
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class DecodedContent:
    """A key or value: the schema that it names (blank where it names none), and either the record as JSON or why there is none."""

    role: Role
    schema: str
    text: str = ""
    failure: str = ""


class LetterDecoder:
    """The registry converters of a configuration, for single letters. Thread-safe; made of resolved settings.

    Raises ValueError where they do not go together.
    """

    def __init__(self, settings: Settings) -> None:
        made = {role: registry_converter(settings, role) for role in (Role.KEY, Role.VALUE)}
        self._converters = {role: make for role, make in made.items() if make is not None}

    def decoded(self, letter: DeadLetter) -> list[DecodedContent]:
        """Key and value, as far as a registry converter is configured for them and they are there. A registry is asked."""
        raw = {Role.KEY: letter.key, Role.VALUE: letter.value}
        return [
            _decoded(make(letter.topic), role, content, letter)
            for role, make in self._converters.items()
            if (content := raw[role]) is not None
        ]


def _decoded(converter: RegistryValues, role: Role, content: bytes, letter: DeadLetter) -> DecodedContent:
    offsets, times = np.array([letter.offset]), np.array([NO_TIME])
    headers = pa.array([[{"key": name, "value": value} for name, value in letter.headers]], _HEADERS)
    batch = KafkaBatch(offsets, times, pa.array([content], pa.binary()), headers)
    schema = converter.schema_names(batch)[0]
    try:
        found = converter.decode(batch)
    except SinkError as error:  # the registry does not answer, or refuses us
        return DecodedContent(role, schema, failure=str(error))
    if found.failures:
        return DecodedContent(role, schema, failure=found.failures[0].message)
    (run,) = found.runs
    return DecodedContent(
        role, schema, json.dumps(run.values.objects()[0], default=_as_text, ensure_ascii=True, indent=2)
    )


def _as_text(value: object) -> str:
    """What JSON has no form for: bytes as text with escapes, decimals and times as they are written."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
