"""In which objects are the records of some subjects, and in which of their rows? Nothing is changed.

A *file* is an object of values with its sidecars. Of the files that the log counts those are read that cannot be excluded: by key, the
sidecar of keys alone; by a field of Parquet, those whose footers leave the text possible; else the values. Memory holds a few objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from kafka_s3.engine.log.fold import LiveObject, group_by_file
from kafka_s3.followers.compaction import FETCHES, ROLES, Compactor
from kafka_s3.model.dead_letters import DeadLetter, read_letters
from kafka_s3.model.errors import ObjectArchived, ObjectMissing, SinkError
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.objects.erasing import parse_all_members, read_rows
from kafka_s3.objects.merging import MERGED, MergeRefused
from kafka_s3.objects.readers import DAMAGE, parquet_footer
from kafka_s3.ops.erasure.subjects import NUMBER, Path, Subjects
from kafka_s3.store.store import ObjectStore

WRAPPED: Final = frozenset({"key"})
"""What Avro and Parquet have around a key that is not a record."""
NONE: Final = OffsetSet()
LONG_DIGITS: Final = 40
"""No column of integers holds a number of so many digits."""


@dataclass(frozen=True, slots=True)
class LiveSlice:
    """Rows of a file that are of one topic-partition, and how much of them counts, as `LiveObject` says it. `erased` are offsets erased
    before.
    """

    facts: DataFile
    until: int | None
    erased: OffsetSet

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose records these are."""
        return self.facts.topic_partition

    @property
    def first_row(self) -> int:
        """How many rows of the file are before them."""
        return 0 if self.facts.place is None else self.facts.place[0]

    @property
    def offsets(self) -> np.ndarray | None:
        """The offset of each row; None where its records do not fill its offsets in their order."""
        file = self.facts
        if file.sorted_by or file.last_offset - file.first_offset + 1 - len(self.erased) != file.records:
            return None
        span = np.arange(file.first_offset, file.last_offset + 1)
        return span[~self.erased.mask(span)]

    @property
    def counts(self) -> int | None:
        """How many of its first rows count; None where only a part does, and it is not known which."""
        if self.until is None or not self.facts.records:
            return self.facts.records
        offsets = self.offsets
        return None if offsets is None else int(np.searchsorted(offsets, self.until))

    @property
    def counted(self) -> OffsetSet | None:
        """The rows of the file that count; None as with `counts`."""
        counts = self.counts
        if counts is None:
            return None
        return OffsetSet(((self.first_row, self.first_row + counts - 1),)) if counts else NONE


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that counts: its objects, and their slices that count."""

    objects: Mapping[Role, DataFile]
    slices: tuple[LiveSlice, ...]

    @property
    def facts(self) -> DataFile:
        """What the log says of its records."""
        return next(iter(self.objects.values()))

    @property
    def counted(self) -> OffsetSet | None:
        """The rows that count; None where that is not known of some slice."""
        found = NONE
        for one in self.slices:
            rows = one.counted
            if rows is None:
                return None
            found = found.plus(rows)
        return found


@dataclass(frozen=True, slots=True)
class Match:
    """Rows of a file, or of a dead letter file, that are to go: of one of its slices. `offsets` are theirs; None: they are not known."""

    file: LiveFile
    slice: LiveSlice
    rows: OffsetSet
    offsets: OffsetSet | None

    @property
    def is_letters(self) -> bool:
        """Whether these are dead letters."""
        return Role.DEAD_LETTER in self.file.objects


@dataclass
class Found:
    """What a search has looked at: how many files it has `read`, and could be `excluded` unread; which hold matches; and `problems`: files
    of which it cannot say that, each with the reason.
    """

    read: int = 0
    excluded: int = 0
    letters_read: int = 0
    letters_opaque: int = 0
    matches: list[Match] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records match."""
        return sum(len(match.rows) for match in self.matches if not match.is_letters)

    @property
    def letters(self) -> int:
        """How many dead letters match."""
        return sum(len(match.rows) for match in self.matches if match.is_letters)

    @property
    def objects(self) -> int:
        """How many objects hold them."""
        return len({file.key for match in self.matches for file in match.file.objects.values()})

    def offsets(self) -> dict[TopicPartition, OffsetSet]:
        """The offsets of all matches, as far as they are known."""
        found: dict[TopicPartition, OffsetSet] = {}
        for match in self.matches:
            tp = match.slice.topic_partition
            if match.offsets is not None and match.offsets.ranges:
                found[tp] = found.get(tp, NONE).plus(match.offsets)
        return found


def live_files(
    live: Iterable[LiveObject], erased: Mapping[TopicPartition, OffsetSet], topics: frozenset[str]
) -> tuple[list[LiveFile], list[LiveFile]]:
    """The files, and the dead letter files, that a log counts of these topics (empty: all)."""
    wanted = [one for one in live if not topics or one.file.topic in topics]
    letters = [
        LiveFile({Role.DEAD_LETTER: one.file}, (LiveSlice(one.file, None, NONE),))
        for one in wanted
        if one.file.role is Role.DEAD_LETTER
    ]
    files = group_by_file(one for one in wanted if one.file.role in ROLES)
    return [_live_file(parts, erased) for parts in files], letters


def _live_file(parts: Mapping[Role, LiveObject], erased: Mapping[TopicPartition, OffsetSet]) -> LiveFile:
    slices = list[LiveSlice]()
    for one in next(iter(parts.values())).by_slice:
        offsets = erased.get(one.file.topic_partition, NONE)
        within = offsets.since(one.file.first_offset).before(one.file.last_offset + 1)
        slices.append(LiveSlice(one.file, one.until, within))
    return LiveFile({role: parts[role].file for role in ROLES if role in parts}, tuple(slices))


@dataclass(frozen=True, slots=True)
class Search:
    """A search for some subjects. `most` is how large an object may be that is read, in bytes."""

    store: ObjectStore
    compactor: Compactor
    subjects: Subjects
    most: int

    def run(self, files: Sequence[LiveFile], letters: Sequence[LiveFile]) -> Found:
        """Searches files, then dead letters, whose records may be among those found. Raises StorageError."""
        found = Found()
        wanted = [one for one in files if self._is_readable(one, found)]
        for some in self._together(wanted):
            with ThreadPool(FETCHES) as pool:
                for one, match in zip(some, pool.each(self._looked_into, some), strict=True):
                    self._note(one, match, found)
        offsets = found.offsets()
        for one in letters:
            try:
                self._look_at_letters(one, offsets.get(one.facts.topic_partition, NONE), found)
            except (MergeRefused, ObjectMissing, ObjectArchived) as error:
                found.problems.append((one.facts.key, str(error)))
        return found

    def _is_readable(self, one: LiveFile, found: Found) -> bool:
        role = Role.KEY if self.subjects.by_key else Role.VALUE
        if role not in one.objects:
            if role is Role.KEY:
                found.problems.append((one.facts.key, "It was written without keys, so that its records have none."))
            return False
        file = one.objects[role]
        if file.format not in MERGED or (file.format == "bytearray" and role is Role.VALUE):
            found.problems.append((file.key, f"Its format, {file.format}, has no fields."))
            return False
        if max(part.bytes for part in one.objects.values()) > self.most:
            text = f"It is larger than a quarter of writer.memory.bytes, {self.most}: set that higher for this command."
            found.problems.append((file.key, text))
            return False
        return True

    def _together(self, files: Sequence[LiveFile]) -> Iterator[list[LiveFile]]:
        held, size = list[LiveFile](), 0
        for one in files:
            own = max(part.bytes for part in one.objects.values())
            if held and (size + own > self.most or len(held) == FETCHES):
                yield held
                held, size = [], 0
            held.append(one)
            size += own
        if held:
            yield held

    def _looked_into(self, one: LiveFile) -> OffsetSet | SinkError | None:
        """The rows of a file that match; None where it is excluded unread."""
        role = Role.KEY if self.subjects.by_key else Role.VALUE
        file = one.objects[role]
        try:
            if file.format == "parquet" and role is Role.VALUE and not self._may_hold(file):
                return None
            content = self.compactor.fetched(file)
            rows = read_rows(file.format, content, separator=self.compactor.separator)
            matches = self._has_key if role is Role.KEY else self.subjects.has_value
            numbers, count = list[int](), 0
            for row, _ in rows:
                if matches(row):
                    numbers.append(count)
                count += 1
            if count != file.records:
                raise MergeRefused(f"It holds {count} records, the log claims {file.records}.")
            return OffsetSet.of(numbers)
        except (MergeRefused, ObjectMissing, ObjectArchived) as error:
            return error

    def _has_key(self, row: Any) -> bool:
        if isinstance(row, dict) and row.keys() == WRAPPED and self.subjects.has_key(row["key"]):
            return True
        return self.subjects.has_key(row)

    def _note(self, one: LiveFile, match: OffsetSet | SinkError | None, found: Found) -> None:
        if isinstance(match, SinkError):
            found.problems.append((one.facts.key, str(match)))
        elif match is None:
            found.excluded += 1
        else:
            found.read += 1
            if one.counted is None and match.ranges:
                found.problems.append((one.facts.key, "A part of it was read again, and which is not known."))
                return
            for part in one.slices:
                counted = part.counted or NONE
                rows = match.since(part.first_row).before(counted.until)
                if rows.ranges:
                    found.matches.append(Match(one, part, rows, _offsets_of(part, rows)))

    def _look_at_letters(self, one: LiveFile, erased: OffsetSet, found: Found) -> None:
        content = self.compactor.fetched(one.facts)
        try:
            letters = read_letters(content)
        except DAMAGE as error:
            raise MergeRefused(f"It cannot be read as dead letters ({type(error).__name__}).") from error
        found.letters_read += len(letters)
        rows = []
        for row, letter in enumerate(letters):
            if letter.offset in erased or self._is_of_subject(letter, found):
                rows.append(row)
        if rows:
            offsets = OffsetSet.of(letters[row].offset for row in rows)
            found.matches.append(Match(one, one.slices[0], OffsetSet.of(rows), offsets))

    def _is_of_subject(self, letter: DeadLetter, found: Found) -> bool:
        if self.subjects.by_key:
            return letter.key is not None and self.subjects.has_key(letter.key)
        try:
            return letter.value is not None and self.subjects.has_value(parse_all_members(letter.value))
        except (ValueError, RecursionError):
            found.letters_opaque += 1
            return False

    def _may_hold(self, file: DataFile) -> bool:
        """Whether the footer of a Parquet object leaves it possible that one of the texts is in it."""
        try:
            footer = parquet_footer(self.store, file.key, file.bytes)  # None: reading it says what is wrong with it
            return footer is None or all(
                _column_may_hold(footer, path, self.subjects.texts_of(path)) for path in self.subjects.paths
            )
        except DAMAGE as error:
            raise MergeRefused(f"Its footer cannot be read ({type(error).__name__}: {error}).") from error


def _offsets_of(one: LiveSlice, rows: OffsetSet) -> OffsetSet | None:
    offsets = one.offsets
    if offsets is None:
        return None
    return OffsetSet.of(offsets[rows.mask(np.arange(one.first_row, one.first_row + len(offsets)))].tolist())


def _column_may_hold(footer: pq.FileMetaData, path: Path, texts: frozenset[str]) -> bool:
    """Integers and texts have an order that is theirs; of all else, lists among it, nothing is excluded."""
    name = ".".join(path)
    columns = [number for number in range(footer.num_columns) if footer.schema.column(number).path == name]
    if len(columns) != 1:
        return True
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(columns[0]).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        low, high = statistics.min, statistics.max
        if type(low) is int and any(low <= number <= high for number in _integers(texts)):
            return True
        if type(low) is str and any(low <= text <= high for text in texts):
            return True
        if type(low) not in (int, str):
            return True
    return False


def _integers(texts: Iterable[str]) -> list[int]:
    """Return the integers among texts, however they are spelt."""
    numbers = [Decimal(text) for text in texts if NUMBER.fullmatch(text)]
    return [int(one) for one in numbers if one.adjusted() <= LONG_DIGITS and one == one.to_integral_value()]
