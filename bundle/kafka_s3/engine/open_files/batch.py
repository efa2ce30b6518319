"""How do records of several schemas keep the order of their offsets, and yet go in bulk? In one batch of several runs.

Producers of two versions alternate record by record while they are rolled out. Cut into consecutive runs their records would be taken,
projected and encoded one at a time; in a mixed batch they are taken all at once, and end up in the same files in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import AvroBodies, JsonText, Longs, Nulls, Objects, Plain, StructColumns, Values
from kafka_s3.connect.schemas.connect import ConnectSchema

Codes = npt.NDArray[np.int32]

FEW: Final = 1 << 15
"""As many encoded partitions have codes of 16 bits, which NumPy sorts twice as fast as others: by radix."""


@dataclass(frozen=True, slots=True)
class RoutedRun:
    """A run with each record's encoded partition (`partitions[codes[i]]`) and, under a time partitioner, its time."""

    run: Run
    codes: Codes
    partitions: list[str]
    times: Longs | None

    def without(self, rows: list[int]) -> RoutedRun:
        """The records but those of these rows."""
        kept = np.delete(np.arange(len(self.run)), rows)
        times = None if self.times is None else self.times[kept]
        return RoutedRun(self.run.take(kept), self.codes[kept], self.partitions, times)


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """Records in offset order, in columns. The one at position i has the offset `offsets[i]`, and is row `rows[i]` of the run
    `runs[run_numbers[i]]`. It goes to the encoded partition `partitions[codes[i]]`, under a time partitioner at `times[i]`.
    """

    runs: tuple[Run, ...]
    run_numbers: Codes
    rows: Longs
    offsets: Longs
    codes: Codes
    partitions: list[str]
    times: Longs | None

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, positions: Longs) -> MixedBatch:
        """The records at these positions, which ascend."""
        return replace(
            self,
            run_numbers=self.run_numbers[positions],
            rows=self.rows[positions],
            offsets=self.offsets[positions],
            codes=self.codes[positions],
            times=None if self.times is None else self.times[positions],
        )

    def before(self, offset: int) -> MixedBatch:
        """Return the records before an offset."""
        count = int(np.searchsorted(self.offsets, offset))
        return self if count == len(self) else self.select(np.arange(count))

    def without(self, positions: list[int]) -> MixedBatch:
        """The records but those at these positions."""
        return self.select(np.delete(np.arange(len(self)), positions))

    def nbytes(self) -> int:
        """Bytes of all its runs, be they in this batch or not."""
        return sum(run.nbytes() for run in self.runs)

    def by_topic(self) -> list[tuple[str | None, MixedBatch]]:
        """The records by the topic of their run (`Run.topic`), in first-seen order."""
        topics = list(dict.fromkeys(run.topic for run in self.runs))
        if len(topics) == 1:
            return [(topics[0], self)]
        numbers = np.array([topics.index(run.topic) for run in self.runs])[self.run_numbers]
        batches = [(topic, self.select(np.flatnonzero(numbers == number))) for number, topic in enumerate(topics)]
        return [(topic, batch) for topic, batch in batches if len(batch)]

    def by_partition(self, start: int, stop: int) -> Iterator[tuple[str, Longs]]:
        """The positions `[start, stop)` by encoded partition, in first-seen order: b a b gives `("b", [0, 2])`, `("a", [1])`."""
        order, stretches = self._stretches(start, stop)
        for first, last in stretches:
            yield self.partitions[self.codes[order[first]]], order[first:last]

    def runs_by_partition(self, start: int, stop: int) -> Iterator[tuple[str, list[tuple[Run, Longs]]]]:
        """For each encoded partition what `runs_at` gives of its positions.

        These may be slices of one run that holds the records of all, which are taken at once; who keeps one keeps all.
        """
        if len(self.runs) > 1:
            yield from ((name, self.runs_at(positions)) for name, positions in self.by_partition(start, stop))
            return
        order, stretches = self._stretches(start, stop)
        rows = self.rows[order]  # ascending within an encoded partition only
        run = self.runs[0].take(rows) if len(stretches) > 1 else _rows_of(self.runs[0], rows)
        for first, last in stretches:
            yield self.partitions[self.codes[order[first]]], [(run.slice(first, last), order[first:last])]

    def runs_at(self, positions: Longs) -> list[tuple[Run, Longs]]:
        """The records at these positions: of each run those that it has, with their positions; in the order of their first records."""
        if len(self.runs) == 1:
            return [(_rows_of(self.runs[0], self.rows[positions]), positions)]
        numbers, firsts = np.unique(self.run_numbers[positions], return_index=True)
        found = []
        for number in numbers[np.argsort(firsts)]:
            own = positions[self.run_numbers[positions] == number]
            found.append((_rows_of(self.runs[number], self.rows[own]), own))
        return found

    def sorted_by_partition(self, start: int, stop: int) -> tuple[Longs, Longs]:
        """The positions `[start, stop)`, those of each encoded partition behind each other and ascending; and where each one's begin."""
        some = self.codes[start:stop]
        if not len(some) or (some == some[0]).all():
            return np.arange(start, stop), np.arange(min(1, len(some)))
        order = np.argsort(some.astype(np.int16) if len(self.partitions) <= FEW else some, kind="stable")
        return order + start, np.flatnonzero(np.diff(some[order], prepend=-1))

    def _stretches(self, start: int, stop: int) -> tuple[Longs, list[tuple[int, int]]]:
        """What `sorted_by_partition` gives, and from where to where each encoded partition's are, in first-seen order."""
        order, firsts = self.sorted_by_partition(start, stop)
        lasts, seen = np.append(firsts, len(order))[1:], np.argsort(order[firsts])
        return order, [*zip(firsts[seen].tolist(), lasts[seen].tolist(), strict=True)]


def mixed_batches(routed: Sequence[RoutedRun]) -> Iterator[MixedBatch]:
    """The records of consecutive runs, those of null values apart from the others."""
    for _, group in groupby(routed, key=lambda one: one.run.tombstones):
        yield mixed_batch(list(group))


def mixed_batch(routed: Sequence[RoutedRun]) -> MixedBatch:
    """The records of some runs, each in offset order, as one batch in offset order."""
    runs = tuple(one.run for one in routed)
    if len(routed) == 1:
        only, count = routed[0], len(runs[0])
        numbers, rows = np.zeros(count, np.int32), np.arange(count)
        return MixedBatch(runs, numbers, rows, runs[0].offsets, only.codes, only.partitions, only.times)
    partitions = list(dict.fromkeys(name for one in routed for name in one.partitions))
    code_of = {name: code for code, name in enumerate(partitions)}
    codes = [
        np.array([code_of[name] for name in one.partitions], np.int32)[one.codes] if one.partitions else one.codes
        for one in routed
    ]
    times = [one.times for one in routed if one.times is not None]
    unsorted = MixedBatch(
        runs,
        np.repeat(np.arange(len(runs), dtype=np.int32), [len(run) for run in runs]),
        np.concatenate([np.arange(len(run)) for run in runs]),
        np.concatenate([run.offsets for run in runs]),
        np.concatenate(codes),
        partitions,
        np.concatenate(times) if times else None,
    )
    return unsorted.select(np.argsort(unsorted.offsets, kind="stable"))


def joined(pieces: list[tuple[Run, Longs]]) -> list[Run]:
    """Runs of equal schemas, given with their records' positions, as one run in the order of positions.

    Several consecutive ones where the values have no form in common.
    """
    pieces = [piece for piece in pieces if len(piece[0])]
    if len(pieces) <= 1:
        return [run for run, _ in pieces]
    runs, order = [run for run, _ in pieces], np.argsort(np.concatenate([own for _, own in pieces]), kind="stable")
    values = _joined_values([run.values for run in runs], order, runs[0].schema)
    if values is None:
        return _consecutive(runs, order)
    sidecars = {}
    for role, sidecar in runs[0].sidecars.items():
        beside = _joined_values([run.sidecars[role].values for run in runs], order, sidecar.schema)
        if beside is None:
            return _consecutive(runs, order)
        sidecars[role] = Sidecar(beside, sidecar.schema)
    offsets = np.concatenate([run.offsets for run in runs])[order]
    times = np.concatenate([run.timestamps for run in runs])[order]
    return [Run(offsets, times, values, runs[0].schema, sidecars, runs[0].topic)]


def _joined_values(several: list[Values], order: Longs, schema: ConnectSchema | None) -> Values | None:
    """The values behind each other, then in this order; None where they have no form in common."""
    if all(isinstance(values, Nulls) for values in several):
        return Nulls(len(order))
    if all(isinstance(values, Plain) for values in several):
        arrays = [values.array for values in several if isinstance(values, Plain)]
        return Plain(pa.concat_arrays(arrays).take(pa.array(order))) if len({a.type for a in arrays}) == 1 else None
    if schema is None:
        return _joined_texts(several, order)
    tables = [one.table for one in several if isinstance(one, StructColumns | AvroBodies) and one.table is not None]
    if _have_equal_columns(tables, len(several)):
        return StructColumns(pa.concat_tables(tables).combine_chunks().take(pa.array(order)))
    return Objects([item for values in several for item in values.objects()]).take(order)


def _joined_texts(several: list[Values], order: Longs) -> Values | None:
    """JSON text; None where some has columns that the others lack."""
    texts = [values for values in several if isinstance(values, JsonText)]
    tables = [one.table for one in texts if one.table is not None]
    if len(texts) < len(several) or (tables and not _have_equal_columns(tables, len(several))):
        return None
    table = pa.concat_tables(tables).combine_chunks() if tables else None
    return JsonText(pa.concat_arrays([one.texts for one in texts]), table, texts[0].lines).take(order)


def _have_equal_columns(tables: list[pa.Table], count: int) -> bool:
    return len(tables) == count and all(table.schema.equals(tables[0].schema) for table in tables)


def _consecutive(runs: list[Run], order: Longs) -> list[Run]:
    """The records in this order, as slices of the runs."""
    numbers = np.repeat(np.arange(len(runs)), [len(run) for run in runs])[order]
    rows = np.concatenate([np.arange(len(run)) for run in runs])[order]
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(order)]
    return [runs[numbers[a]].slice(int(rows[a]), int(rows[b - 1]) + 1) for a, b in pairwise(cuts)]


def _rows_of(run: Run, rows: Longs) -> Run:
    """These rows of a run, which ascend; neighbours are a slice, which costs nothing."""
    if len(rows) and len(rows) == rows[-1] + 1 - rows[0]:
        return run.slice(int(rows[0]), int(rows[-1]) + 1)
    return run.take(rows)
