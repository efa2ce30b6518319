"""Where do the rows of thousands of small files wait? In long tables that know each row's file: none of the files costs Python an object.

Each step adds one table, as it came, with the order in which its rows lie by the numbers of their files. So the rows of some hundred
neighbours are one stretch of each table, wherever it waits, and are merged when the files close, as an external sort does it: a row is
moved once, and twice where it waits on local disk meanwhile. What is known of a directory's rows is in columns of numbers.

Say directories come as b a b, and later as a: b is file 0, a file 1. In order the tables are "b b a" and "a": the rows of a end the first
one and are all of the second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from os import PathLike
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.records.values import COLUMN_BYTES, NO_TIMESTAMP, Longs, stream_of, table_bytes, table_of
from kafka_s3.engine.open_files.batch import MixedBatch
from kafka_s3.engine.open_files.row_forms import RowForm, row_form
from kafka_s3.engine.open_files.spill import Spilled, SpillFile, read_back, spilled
from kafka_s3.engine.open_files.states import MOST_BYTES, StateBytes, in_memory
from kafka_s3.model.deflate import Bytes
from kafka_s3.objects.format import CannotPause, Paused

Ids: TypeAlias = npt.NDArray[np.int32]
"""Numbers of files, or of rows in a table."""

ENTRY_BYTES: Final = 256
"""What a small file takes beside its content: its name, its number, its facts."""
SHARE_FILES: Final = 1_000
SHARE_BYTES: Final = 8 << 20
"""So many files, with so many bytes or one file, are made of the tables at once."""
JOINED_BYTES: Final = 1 << 20
"""Tables below that are put together: steps may have a few records only."""
MERGED: Final = 32
"""On local disk so many pieces of one tier become one of the next: whoever looks for a few files reads some of each piece."""
STREAM_BYTES: Final = 128 << 10
"""On local disk rows lie in streams of about so many bytes, each of which is read as a whole."""
ROW_BYTES: Final = 8
"""What a row that waits in memory takes beside its content: two numbers."""
ID: Final = "kafka_s3.file"
"""The last column of a stream: the number of each row's file."""
NO_LOW: Final = int(np.iinfo(np.int64).max)


class DirectoryRows(NamedTuple):
    """Rows of one directory, with the bytes of their content; without timestamps `low` and `high` are None."""

    table: pa.Table
    first_offset: int
    last_offset: int
    records: int
    low: int | None
    high: int | None
    size: int


class RowFacts(NamedTuple):
    """What is known of rows, in columns with a value for each directory. Without timestamps `lows` have NO_LOW, `highs` NO_TIMESTAMP."""

    first_offsets: Longs
    last_offsets: Longs
    records: Longs
    lows: Longs
    highs: Longs
    sizes: Longs
    """Bytes of content."""

    def select(self, chosen: Longs) -> RowFacts:
        """Those of these directories, in this order."""
        return RowFacts(*(column[chosen] for column in self))

    def extended(self, count: int) -> RowFacts:
        """With room for so many directories more."""
        return RowFacts(*(np.concatenate([column, np.zeros(count, np.int64)]) for column in self))

    def add(self, numbers: Longs, new: RowFacts) -> None:
        """Counts later rows of the directories with these numbers."""
        known = self.select(numbers)
        fresh = known.records == 0
        self.first_offsets[numbers] = np.where(fresh, new.first_offsets, known.first_offsets)
        self.last_offsets[numbers] = new.last_offsets
        self.records[numbers] += new.records
        self.lows[numbers] = np.minimum(np.where(fresh, NO_LOW, known.lows), new.lows)
        self.highs[numbers] = np.maximum(np.where(fresh, NO_TIMESTAMP, known.highs), new.highs)
        self.sizes[numbers] += new.sizes

    def rows(self, table: pa.Table) -> Iterator[DirectoryRows]:
        """The rows of the directories, which lie behind each other in a table; slices of it."""
        begin = 0
        for first, last, records, low, high, size in zip(*(column.tolist() for column in self), strict=True):
            low, high = (None, None) if high == NO_TIMESTAMP else (low, high)
            yield DirectoryRows(table.slice(begin, records), first, last, records, low, high, size)
            begin += records


@dataclass(frozen=True, slots=True)
class RowsByDirectory:
    """Rows by directory: those of `names[i]` are the rows `rows[starts[i]:starts[i + 1]]` of a table, ascending."""

    form: RowForm
    table: pa.Table
    names: list[str]
    facts: RowFacts
    rows: Longs
    starts: Longs

    def select(self, chosen: Longs) -> RowsByDirectory:
        """These directories, in this order."""
        counts = self.facts.records[chosen]
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = self.rows[np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)]
        names = [self.names[number] for number in chosen.tolist()]
        return RowsByDirectory(self.form, self.table, names, self.facts.select(chosen), rows, starts)

    def each(self) -> Iterator[tuple[str, DirectoryRows]]:
        return zip(self.names, self.facts.rows(self.table.take(pa.array(self.rows))), strict=True)


def rows_by_directory(batch: MixedBatch, start: int, stop: int) -> RowsByDirectory:
    """The records `[start, stop)`, at least one, of a batch that is one run and has a `row_form`."""
    run, (order, firsts) = batch.runs[0], batch.sorted_by_partition(start, stop)
    form = row_form(run)
    assert form is not None
    rows, starts, whole = batch.rows[order], np.append(firsts, len(order)), len(order) == len(run)
    table, places = form.table(run.values, None if whole else rows), rows if whole else np.arange(len(order))
    names = [batch.partitions[code] for code in batch.codes[order[firsts]].tolist()]
    facts = _facts(run.offsets[rows], run.timestamps[rows], form.sizes(table)[places], starts)
    return RowsByDirectory(form, table, names, facts, places, starts)


def _facts(offsets: Longs, times: Longs, sizes: Longs, starts: Longs) -> RowFacts:
    begins = starts[:-1]
    return RowFacts(
        offsets[begins],
        offsets[starts[1:] - 1],
        np.diff(starts),
        np.minimum.reduceat(np.where(times == NO_TIMESTAMP, NO_LOW, times), begins),
        np.maximum.reduceat(times, begins),
        np.add.reduceat(sizes, begins),
    )


@dataclass(slots=True)
class _Held:
    """A table in memory with `size` bytes of content, whose rows numbered `rows` are of the files `ids`, which ascend; what came later is
    behind.
    """

    ids: Ids
    rows: Ids
    table: pa.Table
    size: int

    @classmethod
    def of(cls, numbers: Longs, found: RowsByDirectory) -> _Held:
        """The rows of directories, which have these numbers. It keeps no memory but theirs."""
        ids, rows, table = np.repeat(numbers, found.facts.records), found.rows, found.table
        size = table_bytes(table)
        if len(rows) < len(table) or table.get_total_buffer_size() > 2 * size:
            table, rows = table.take(pa.array(rows)), np.arange(len(rows))
            size = table_bytes(table)
        order = np.argsort(ids, kind="stable")
        return cls(ids[order].astype(np.int32), rows[order].astype(np.int32), table, size)

    def memory(self) -> int:
        """Bytes that it holds."""
        return self.size + ROW_BYTES * len(self.rows) + COLUMN_BYTES * len(self.table.schema)

    def follows(self, other: _Held) -> bool:
        """Whether the other one is to have these rows, too: both are short, and that is not much longer."""
        return self.size <= JOINED_BYTES and other.size <= min(2 * self.size, JOINED_BYTES)

    def behind(self, other: _Held) -> _Held:
        """The rows of both."""
        ids = np.concatenate([other.ids, self.ids])
        rows = np.concatenate([other.rows, self.rows + len(other.table)])
        order = np.argsort(ids, kind="stable")
        table = pa.concat_tables([other.table, self.table]).combine_chunks()
        return _Held(ids[order], rows[order], table, self.size + other.size)

    def stretch(self, first: int, last: int) -> tuple[Ids, pa.Table]:
        """The rows of the files from number `first` to `last`, with these numbers."""
        at, end = np.searchsorted(self.ids, [first, last + 1]).tolist()
        return self.ids[at:end], self.table.take(pa.array(self.rows[at:end]))


@dataclass(slots=True)
class _Sorted:
    """Streams of rows by file, from the files `firsts` to `lasts`, which ascend; the last column of a stream is the number of the file.

    They are on local disk, or come from a state that is in memory as a whole.
    """

    columns: pa.Schema
    streams: list[Bytes | Spilled] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    tier: int = 0

    def stretch(self, first: int, last: int) -> tuple[Ids, pa.Table]:
        """The rows of the files from number `first` to `last`, with these numbers. Raises OSError."""
        begin, end = bisect_left(self.lasts, first), bisect_right(self.firsts, last)
        tables = [table_of(content) for content in read_back(self.streams[begin:end])]
        if not tables:
            return np.zeros(0, np.int32), self.columns.empty_table()
        table = pa.concat_tables(tables)
        ids = table[ID].to_numpy()
        at, stop = np.searchsorted(ids, [first, last + 1]).tolist()
        return ids[at:stop], table.drop_columns([ID]).slice(at, stop - at)

    def memory(self) -> int:
        """Bytes that are held in memory."""
        return sum(len(stream) for stream in self.streams if not isinstance(stream, Spilled))

    def release(self, into: SpillFile) -> None:
        """Moves what is held in memory to local disk. Raises LocalDiskError."""
        held = [stream for stream in self.streams if not isinstance(stream, Spilled)]
        if held:  # then all of them are
            self.streams[:] = _behind_each_other(into, held, self.lasts[-1] - self.firsts[0] + 1)

    def drop(self) -> None:
        """Gives back what waits on local disk."""
        for stream in self.streams:
            if isinstance(stream, Spilled):
                stream.file.drop()


class SmallFiles:
    """The files of one topic-partition that have few rows yet, and nothing in the bucket, by directory; their rows are of one form."""

    __slots__ = ("_facts", "_held", "_names", "_numbers", "_sorted", "bytes", "form")

    def __init__(self) -> None:
        self.form: RowForm | None = None
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._facts = RowFacts(*np.zeros((6, 0), np.int64))
        self._sorted: list[_Sorted] = []
        self._held: list[_Held] = []  # what came after all that is sorted
        self.bytes = 0

    @classmethod
    def resumed(cls, paused: Paused, form: RowForm | None) -> SmallFiles:
        """The files of another task; what waits on local disk stays there. Raises KeyError, TypeError, ValueError where it is none."""
        files, streams = cls(), paused["streams"]
        facts = np.frombuffer(in_memory(paused["facts"]), np.int64).reshape(6, len(paused["names"]))
        files._numbered(paused["names"])
        files._facts, files.form = RowFacts(*facts.copy()), form
        files.bytes = int(files._facts.sizes.sum())
        if streams:
            firsts, lasts, contents = ([*column] for column in zip(*streams, strict=True))
            columns = table_of(read_back(contents[:1])[0]).schema
            # packed, as they are: unpacked they may be more than the memory of the task
            packed = [one.file.share(one.begin, one.end) if isinstance(one, Spilled) else one for one in contents]
            files._sorted.append(_Sorted(columns.remove(columns.get_field_index(ID)), packed, firsts, lasts))
        return files

    def pause(self, content: StateBytes) -> Paused:
        """What another task needs to go on. Raises OSError, LocalDiskError, and CannotPause where it would be too large for a state."""
        if self.bytes > MOST_BYTES:
            raise CannotPause(f"open files hold {self.bytes} bytes, more than {MOST_BYTES}")
        streams, known = list[tuple[int, int, dict[str, list[int]]]](), list[int]()
        for wanted in self._shares(self._all()):
            ids, table = _merged([*self._sorted, *self._held], wanted)
            ids = (np.searchsorted(wanted, ids) + len(known)).astype(np.int32)  # the numbers that they will have
            known += wanted.tolist()
            streams += [(first, last, content.keep([rows])) for first, last, rows in _streams(ids, table, codec="zstd")]
        facts = self._facts.select(np.array(known, np.int64))
        names = [self._names[number] for number in known]
        self.drop()
        return {"names": names, "facts": content.keep([np.stack(facts).tobytes()]), "streams": streams}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def names(self) -> list[str]:
        """The directories."""
        return [*self._numbers]

    def sizes(self, names: list[str]) -> Longs:
        """Bytes of content that directories have here."""
        return np.append(self._facts.sizes, 0)[self._known(names)]

    def add(self, found: RowsByDirectory) -> None:
        """Adds rows of some directories, at least of one, in the form of those that are here."""
        self.form = found.form
        numbers = self._numbered(found.names)
        self._facts.add(numbers, found.facts)
        self.bytes += int(found.facts.sizes.sum())
        piece = _Held.of(numbers, found)
        while self._held and piece.follows(self._held[-1]):
            piece = piece.behind(self._held.pop())
        self._held.append(piece)

    def shares(self) -> Iterator[list[tuple[str, DirectoryRows]]]:
        """Every directory with its rows, some at a time. Raises OSError."""
        for wanted in self._shares(self._all()):
            yield self._each(wanted)

    def pop(self, names: Iterable[str]) -> Iterator[tuple[str, DirectoryRows]]:
        """Those of some directories that have rows here, with these: they leave for files of their own. Raises OSError.

        What has not been given yet is here as ever: meanwhile memory may be released.
        """
        numbers = [self._numbers[name] for name in names if name in self._numbers]
        for wanted in self._shares(np.array(sorted(numbers), np.int64)):
            found = self._each(wanted)
            for name, _ in found:
                del self._numbers[name]
            self.bytes -= int(self._facts.sizes[wanted].sum())
            yield from found
        if not self._numbers:
            self.drop()

    def memory(self) -> int:
        """Bytes that are held in memory."""
        return sum(piece.memory() for piece in self._held) + sum(piece.memory() for piece in self._sorted)

    def release(self, folder: PathLike[str]) -> None:
        """Moves what is held in memory to local disk, into one file below a folder for each tier. Raises LocalDiskError."""
        into = self._newest_file() or SpillFile(folder)
        for piece in self._sorted:
            piece.release(into)
        if not self._held:
            return
        moved = self._moved(self._held, into, _Sorted(self._held[0].table.schema))
        self._held = []
        if not moved.streams:  # all of them had left for files of their own
            return
        self._sorted.append(moved)
        while len(some := self._sorted[-MERGED:]) == MERGED and some[0].tier == some[-1].tier:
            merged = self._moved(some, SpillFile(folder), _Sorted(some[0].columns, tier=some[0].tier + 1))
            self._sorted[-MERGED:] = [merged] if merged.streams else []
            for piece in some:
                piece.drop()  # with the last of them goes their file

    def _newest_file(self) -> SpillFile | None:
        """The file of the first tier, where there is one."""
        streams = self._sorted[-1].streams if self._sorted and not self._sorted[-1].tier else []
        return streams[0].file if streams and isinstance(streams[0], Spilled) else None

    def _moved(self, pieces: Sequence[_Held | _Sorted], into: SpillFile, made: _Sorted) -> _Sorted:
        """The rows of some pieces as one on local disk. Raises LocalDiskError."""
        for wanted in self._shares(self._all()):
            streams = _streams(*_merged(pieces, wanted), codec=None)
            made.streams += _behind_each_other(into, [stream for *_, stream in streams], len(wanted))
            made.firsts += [first for first, *_ in streams]
            made.lasts += [last for _, last, _ in streams]
        return made

    def drop(self) -> None:
        """Forgets all of it, also what is on local disk."""
        for piece in self._sorted:
            piece.drop()
        self._sorted, self._held, self._numbers, self._names, self.form = [], [], {}, [], None
        self._facts = RowFacts(*np.zeros((6, 0), np.int64))
        self.bytes = 0

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
        """The numbers of directories, -1 for those that have no rows here."""
        return np.fromiter(map(self._numbers.get, names, repeat(-1)), np.int64, len(names))

    def _all(self) -> Longs:
        """The numbers of all files, ascending."""
        return np.fromiter(self._numbers.values(), np.int64, len(self._numbers))

    def _shares(self, numbers: Longs) -> Iterator[Longs]:
        """These numbers, which ascend, some at a time: the rows of these are no long stretch of any table."""
        if not len(numbers):
            return
        stretch = np.cumsum(self._facts.sizes) // SHARE_BYTES + np.arange(len(self._facts.sizes)) // SHARE_FILES
        yield from np.split(numbers, np.flatnonzero(np.diff(stretch[numbers])) + 1)

    def _each(self, wanted: Longs) -> list[tuple[str, DirectoryRows]]:
        """These files, whose numbers ascend, with their rows."""
        _, table = _merged([*self._sorted, *self._held], wanted)
        names = [self._names[number] for number in wanted.tolist()]
        return [*zip(names, self._facts.select(wanted).rows(table), strict=True)]


def _merged(pieces: Iterable[_Held | _Sorted], wanted: Longs) -> tuple[Ids, pa.Table]:
    """The rows of these files, whose numbers ascend: those of each behind each other, as they came; with the number of each row's file.

    Raises OSError.
    """
    stretches = [piece.stretch(int(wanted[0]), int(wanted[-1])) for piece in pieces]
    ids = np.concatenate([ids for ids, _ in stretches])
    table = pa.concat_tables([table for _, table in stretches])
    order = np.argsort(ids, kind="stable") if len(stretches) > 1 else np.arange(len(ids))
    if wanted[-1] - wanted[0] >= len(wanted):
        order = order[np.isin(ids[order], wanted)]  # others have left for files of their own
    if len(stretches) > 1 or len(order) < len(ids):
        table = table.take(pa.array(order))
    return ids[order], table


def _streams(ids: Ids, table: pa.Table, *, codec: str | None) -> list[tuple[int, int, bytes]]:
    """Rows by file as streams, each with the number of its first row's file and that of its last one's."""
    table = table.append_column(ID, pa.array(ids))
    rows = max(1, len(table) * STREAM_BYTES // max(table_bytes(table), 1))
    return [
        (int(ids[at]), int(ids[min(at + rows, len(ids)) - 1]), stream_of(table.slice(at, rows), codec=codec))
        for at in range(0, len(table), rows)
    ]


def _behind_each_other(into: SpillFile, contents: Sequence[Bytes], files: int) -> list[Spilled]:
    """Moves contents to local disk, each for itself. Raises LocalDiskError."""
    ends = np.cumsum([0, *map(len, contents)])
    whole = spilled(into, contents, f"{ends[-1]} bytes of {files} files")
    streams = [into.share(begin, end) for begin, end in pairwise((ends + whole.begin).tolist())]
    into.drop()  # the streams have their shares
    return streams
