"""Where do the lines of thousands of small files wait? In long texts, sorted by file: none of the files costs Python an object.

Each step adds one text, in which every file's lines lie behind each other, the files in the order of their numbers. So the lines of some
hundred neighbours are one stretch of each text, wherever it waits, and are merged when the files close, as an external sort does it.
What is known of a directory's lines is in columns of numbers.

Say directories come as b a b, and later as a: b is file 0, a file 1. The texts are "b b a" and "a": the lines of a end the first one and
are all of the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from os import PathLike
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.joining import Bounds, bounds_of, gathered
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Longs
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.batch import MixedBatch
from kafka_s3.engine.open_files.spill import Spilled, SpillFile, read_back, spilled
from kafka_s3.engine.open_files.states import MOST_BYTES, StateBytes, in_memory
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.files import Role
from kafka_s3.objects.format import CannotPause, Paused

SMALL_BYTES: Final = 64 << 10
"""A file with less than that is small: gzip would not have seen anything of it yet."""
ENTRY_BYTES: Final = 256
"""What a small file takes beside its content: its name, its number, its facts."""
SHARE_FILES: Final = 1_000
SHARE_BYTES: Final = 8 << 20
"""So many files, with so many bytes or one file, are made of the texts at once."""
JOINED_BYTES: Final = 4 << 20
"""Texts below that are put together: steps may have a few records only."""
NO_SCHEMA: Final[Mapping[Role, ConnectSchema | None]] = {Role.VALUE: None}
"""The schemas of a file of lines: it has values, and they have none."""
NO_LOW: Final = int(np.iinfo(np.int64).max)


class DirectoryLines(NamedTuple):
    """Records of one directory as text, each with its newline; without timestamps `low` and `high` are None."""

    text: Bytes
    first_offset: int
    last_offset: int
    records: int
    low: int | None
    high: int | None


class LineFacts(NamedTuple):
    """What is known of lines, in columns with a value for each directory. Without timestamps `lows` have NO_LOW, `highs` NO_TIMESTAMP."""

    first_offsets: Longs
    last_offsets: Longs
    records: Longs
    lows: Longs
    highs: Longs
    sizes: Longs
    """Bytes of text."""

    def select(self, chosen: Longs) -> LineFacts:
        """Those of these directories, in this order."""
        return LineFacts(*(column[chosen] for column in self))

    def extended(self, count: int) -> LineFacts:
        """With room for so many directories more."""
        return LineFacts(*(np.concatenate([column, np.zeros(count, np.int64)]) for column in self))

    def add(self, numbers: Longs, new: LineFacts) -> None:
        """Counts later lines of the directories with these numbers."""
        known = self.select(numbers)
        fresh = known.records == 0
        self.first_offsets[numbers] = np.where(fresh, new.first_offsets, known.first_offsets)
        self.last_offsets[numbers] = new.last_offsets
        self.records[numbers] += new.records
        self.lows[numbers] = np.minimum(np.where(fresh, NO_LOW, known.lows), new.lows)
        self.highs[numbers] = np.maximum(np.where(fresh, NO_TIMESTAMP, known.highs), new.highs)
        self.sizes[numbers] += new.sizes

    def lines(self, text: memoryview, bounds: Bounds) -> Iterator[DirectoryLines]:
        """The lines of the directories, which lie behind each other in a text; views of it."""
        ends = bounds.tolist()
        for begin, end, first, last, records, low, high in zip(
            ends, ends[1:], *(column.tolist() for column in self[:5]), strict=False
        ):
            times = (None, None) if high == NO_TIMESTAMP else (low, high)
            yield DirectoryLines(text[begin:end], first, last, records, *times)


@dataclass(frozen=True, slots=True)
class LinesByDirectory:
    """Documents by directory: those of `names[i]` are `texts[row]` of the rows `rows[starts[i]:starts[i + 1]]`."""

    names: list[str]
    facts: LineFacts
    texts: pa.Array
    rows: Longs
    starts: Longs

    def select(self, chosen: Longs) -> LinesByDirectory:
        """These directories, in this order."""
        counts = self.facts.records[chosen]
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = self.rows[np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)]
        names = [self.names[number] for number in chosen.tolist()]
        return LinesByDirectory(names, self.facts.select(chosen), self.texts, rows, starts)

    def gathered(self) -> tuple[memoryview, Bounds]:
        """The lines of all directories behind each other; and where those of each begin, and the last ones end."""
        text, bounds = gathered(self.texts, self.rows, b"\n")
        return text, bounds[self.starts]

    def each(self) -> Iterator[tuple[str, DirectoryLines]]:
        """Every directory with its lines."""
        return zip(self.names, self.facts.lines(*self.gathered()), strict=True)


def are_lines(batch: MixedBatch) -> bool:
    """Whether records are nothing but lines of text: of one form, without schema, and with nothing beside them."""
    run = batch.runs[0]
    return len(batch.runs) == 1 and isinstance(run.values, JsonText) and run.values.lines and not run.sidecars


def lines_by_directory(batch: MixedBatch, start: int, stop: int) -> LinesByDirectory:
    """The records `[start, stop)`, at least one, which `are_lines`."""
    run, (order, firsts) = batch.runs[0], batch.sorted_by_partition(start, stop)
    assert isinstance(run.values, JsonText)
    rows, starts = batch.rows[order], np.append(firsts, len(order))
    names = [batch.partitions[code] for code in batch.codes[order[firsts]].tolist()]
    return LinesByDirectory(names, _line_facts(run, run.values.texts, rows, starts), run.values.texts, rows, starts)


def _line_facts(run: Run, texts: pa.Array, rows: Longs, starts: Longs) -> LineFacts:
    offsets, times, begins = run.offsets[rows], run.timestamps[rows], starts[:-1]
    return LineFacts(
        offsets[begins],
        offsets[starts[1:] - 1],
        np.diff(starts),
        np.minimum.reduceat(np.where(times == NO_TIMESTAMP, NO_LOW, times), begins),
        np.maximum.reduceat(times, begins),
        np.add.reduceat(np.diff(bounds_of(texts))[rows].astype(np.int64) + 1, begins),
    )


@dataclass(slots=True)
class _Text:
    """Lines of the files `numbers`, which ascend, from `bounds[i]` to `bounds[i + 1]`; in memory or on local disk.

    A number may be there several times, with what came later behind.
    """

    numbers: Longs
    bounds: Bounds
    content: Bytes | Spilled

    def follows(self, other: _Text) -> bool:
        """Whether the other one is to have this one's lines, too: both are in memory and short, and that is not much longer."""
        here, there = self.content, other.content
        if isinstance(here, Spilled) or isinstance(there, Spilled):
            return False
        return len(here) <= JOINED_BYTES and len(there) <= min(2 * len(here), JOINED_BYTES)

    def stretch(self, first: int, last: int) -> tuple[Longs, Longs, Bytes | Spilled]:
        """The lines of the files from number `first` to `last`: their numbers, their lengths, and where they are."""
        at, end = np.searchsorted(self.numbers, [first, last + 1]).tolist()
        begin, stop = self.bounds[[at, end]].tolist()
        held, lengths = self.content, np.diff(self.bounds[at : end + 1])
        if isinstance(held, Spilled):
            return self.numbers[at:end], lengths, held._replace(begin=held.begin + begin, end=held.begin + stop)
        return self.numbers[at:end], lengths, memoryview(held)[begin:stop]


class SmallFiles:
    """The files of one topic-partition that have few lines yet, and nothing in the bucket, by directory."""

    __slots__ = ("_facts", "_in_memory", "_names", "_numbers", "_texts", "bytes")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._facts = LineFacts(*np.zeros((6, 0), np.int64))
        self._texts: list[_Text] = []
        self._in_memory = 0
        self.bytes = 0

    @classmethod
    def resumed(cls, paused: Paused) -> SmallFiles:
        """The files of another task; what waits on local disk stays there. Raises KeyError, TypeError, ValueError where it is none."""
        files, text = cls(), paused["text"]
        facts = np.frombuffer(in_memory(paused["facts"]), np.int64).reshape(6, len(paused["names"]))
        files._numbered(paused["names"])
        files._facts = LineFacts(*facts.copy())
        bounds = np.concatenate([[0], np.cumsum(files._facts.sizes)]).astype(np.int32)
        if isinstance(text, Spilled):
            files.bytes, text = text.size, text.file.share(text.begin, text.end)
        else:
            files._in_memory = files.bytes = len(text)
        files._texts.append(_Text(np.arange(len(files)), bounds, text))
        return files

    def pause(self, content: StateBytes) -> Paused:
        """What another task needs to go on. Raises OSError, LocalDiskError, and CannotPause where it would be too large for a state."""
        if self.bytes > MOST_BYTES:
            raise CannotPause(f"open files hold {self.bytes} bytes, more than {MOST_BYTES}")
        begin, names = content.length, list[str]()
        for share in self.shares():
            content.keep([lines.text for _, lines in share])
            names += [name for name, _ in share]
        text, facts = content.since(begin), self._facts.select(self._known(names))
        self.drop()
        return {"names": names, "facts": content.keep([np.stack(facts).tobytes()]), "text": text}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def names(self) -> list[str]:
        """The directories."""
        return [*self._numbers]

    def sizes(self, names: list[str]) -> Longs:
        """Bytes of text that directories have here."""
        return np.append(self._facts.sizes, 0)[self._known(names)]

    def add(self, lines: LinesByDirectory) -> None:
        """Adds lines of some directories, at least of one."""
        numbers = self._numbered(lines.names)
        if (np.diff(numbers) < 0).any():
            order = np.argsort(numbers)
            numbers, lines = numbers[order], lines.select(order)
        text, bounds = lines.gathered()
        self._texts.append(_Text(numbers, bounds, text))
        while len(self._texts) > 1 and self._texts[-1].follows(self._texts[-2]):
            stretches = [one.stretch(0, len(self._names)) for one in self._texts[-2:]]
            self._texts[-2:] = [_Text(*_in_order(stretches))]
        self._in_memory += len(text)
        self.bytes += len(text)
        self._facts.add(numbers, lines.facts)

    def shares(self) -> Iterator[list[tuple[str, DirectoryLines]]]:
        """Every directory with its lines, some at a time. Raises OSError."""
        yield from self._in_shares(np.fromiter(self._numbers.values(), np.int64, len(self._numbers)))

    def pop(self, names: Iterable[str]) -> Iterator[tuple[str, DirectoryLines]]:
        """Those of some directories that have lines here, with these: they leave for files of their own. Raises OSError."""
        numbers = [self._numbers.pop(name) for name in names if name in self._numbers]
        for share in self._in_shares(np.array(sorted(numbers), np.int64)):
            self.bytes -= sum(len(lines.text) for _, lines in share)
            yield from share
        if not self._numbers:
            self.drop()

    def memory(self) -> int:
        """Bytes of text that are held in memory."""
        return self._in_memory

    def release(self, folder: PathLike[str]) -> None:
        """Moves what is held in memory to local disk, into one file below a folder. Raises LocalDiskError."""
        into = next((text.content.file for text in self._texts if isinstance(text.content, Spilled)), SpillFile(folder))
        for text in self._texts:
            if not isinstance(text.content, Spilled):
                text.content = spilled(into, [text.content], f"{len(text.content)} bytes of {len(text.numbers)} files")
        self._in_memory = 0

    def drop(self) -> None:
        """Forgets all of it, also what is on local disk."""
        for text in self._texts:
            if isinstance(text.content, Spilled):
                text.content.file.drop()
        self._texts, self._numbers = [], {}
        self._in_memory = self.bytes = 0

    def _numbered(self, names: list[str]) -> Longs:
        """The numbers of directories; new ones get the next."""
        numbers = self._known(names)
        for at in np.flatnonzero(numbers < 0).tolist():
            numbers[at] = self._numbers[names[at]] = len(self._names)
            self._names.append(names[at])
        room = len(self._facts.records)
        if len(self._names) > room:
            self._facts = self._facts.extended(max(len(self._names) - room, room))
        return numbers

    def _known(self, names: list[str]) -> Longs:
        """The numbers of directories, -1 for those that have no lines here."""
        return np.fromiter(map(self._numbers.get, names, repeat(-1)), np.int64, len(names))

    def _in_shares(self, numbers: Longs) -> Iterator[list[tuple[str, DirectoryLines]]]:
        """These files, which ascend, some at a time: their lines are no long stretch of any text."""
        if not len(numbers):
            return
        stretch = np.cumsum(self._facts.sizes) // SHARE_BYTES + np.arange(len(self._facts.sizes)) // SHARE_FILES
        for some in np.split(numbers, np.flatnonzero(np.diff(stretch[numbers])) + 1):
            if len(some):
                yield self._merged(some)

    def _merged(self, wanted: Longs) -> list[tuple[str, DirectoryLines]]:
        """These files, which ascend: the lines of each behind each other, as they came."""
        numbers, bounds, text = _in_order([one.stretch(int(wanted[0]), int(wanted[-1])) for one in self._texts], wanted)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        names = [self._names[number] for number in wanted.tolist()]
        lines = self._facts.select(wanted).lines(text, bounds[np.append(starts, len(numbers))])
        return [*zip(names, lines, strict=True)]


def _in_order(
    stretches: list[tuple[Longs, Longs, Bytes | Spilled]], wanted: Longs | None = None
) -> tuple[Longs, Bounds, memoryview]:
    """One text of stretches (numbers, lengths, lines), of all files or the `wanted`, each one's as they came: numbers, bounds, text.

    Raises OSError.
    """
    numbers = np.concatenate([own for own, _, _ in stretches])
    lengths = np.concatenate([own for _, own, _ in stretches])
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    content = pa.py_buffer(b"".join(read_back([text for _, _, text in stretches])))
    pieces = pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(bounds), content])
    order = np.argsort(numbers, kind="stable")
    if wanted is not None:
        order = order[np.isin(numbers[order], wanted)]  # others have left for files of their own
    text, ends = gathered(pieces, order, b"")
    return numbers[order], ends, text
