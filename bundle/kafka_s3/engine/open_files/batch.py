"""How do records of several schemas keep the order of their offsets, and yet go in bulk? Runs of one schema each, interleaved.

Producers of two versions alternate record by record while they are rolled out. Cut into consecutive runs their records would be taken,
projected and encoded one at a time; interleaved they are taken a batch at a time, and end up in the same files in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
"""As many directories have numbers of 16 bits, which NumPy sorts twice as fast as others: by radix."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A run with each record's directory (`names[codes[i]]`) and, under a time partitioner, its time."""

    run: Run
    codes: Codes
    names: list[str]
    times: Longs | None

    def without(self, rows: list[int]) -> Partitioned:
        """The records but those of these rows."""
        kept = np.delete(np.arange(len(self.run)), rows)
        times = None if self.times is None else self.times[kept]
        return Partitioned(self.run.take(kept), self.codes[kept], self.names, times)


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Records in offset order: the i-th is row `rows[i]` of `runs[owners[i]]`, and goes to `names[codes[i]]` at `times[i]`."""

    runs: tuple[Run, ...]
    owners: Codes
    rows: Longs
    offsets: Longs
    codes: Codes
    names: list[str]
    times: Longs | None

    def __len__(self) -> int:
        return len(self.offsets)

    def without(self, places: list[int]) -> Interleaved:
        """The records but those at these places."""
        kept = np.delete(np.arange(len(self)), places)
        return Interleaved(
            self.runs,
            self.owners[kept],
            self.rows[kept],
            self.offsets[kept],
            self.codes[kept],
            self.names,
            None if self.times is None else self.times[kept],
        )

    def by_topic(self) -> list[tuple[str | None, Interleaved]]:
        """The records by the topic of their run (`Run.topic`), in first-seen order."""
        topics = list(dict.fromkeys(run.topic for run in self.runs))
        if len(topics) == 1:
            return [(topics[0], self)]
        own = np.array([topics.index(run.topic) for run in self.runs])[self.owners]
        return [
            (topic, self.without(np.flatnonzero(own != at).tolist()))
            for at, topic in enumerate(topics)
            if (own == at).any()
        ]

    def by_directory(self, start: int, stop: int) -> Iterator[tuple[str, Longs]]:
        """The places `[start, stop)` by directory, in first-seen order: directories b a b give `("b", [0, 2])`, `("a", [1])`."""
        order, cuts = self._sorted(start, stop)
        for first, last in cuts:
            yield self.names[self.codes[order[first]]], order[first:last]

    def runs_by_directory(
        self, start: int, stop: int, *, shared: bool
    ) -> Iterator[tuple[str, list[tuple[Run, Longs]]]]:
        """For each directory what `by_run` gives of its places.

        `shared`: its runs may be slices of one that holds all directories' records, which are taken at once; who keeps one keeps all.
        """
        if not shared or len(self.runs) > 1:
            yield from ((name, self.by_run(places)) for name, places in self.by_directory(start, stop))
            return
        order, cuts = self._sorted(start, stop)
        rows = self.rows[order]  # ascending within a directory only
        run = self.runs[0].take(rows) if len(cuts) > 1 else _taken(self.runs[0], rows)
        for first, last in cuts:
            yield self.names[self.codes[order[first]]], [(run.slice(first, last), order[first:last])]

    def _sorted(self, start: int, stop: int) -> tuple[Longs, list[tuple[int, int]]]:
        """The places `[start, stop)`, those of each directory behind each other; and from where to where those are, in first-seen order."""
        order, firsts = self.sorted_by_directory(start, stop)
        lasts, seen = np.append(firsts, len(order))[1:], np.argsort(order[firsts])
        return order, [*zip(firsts[seen].tolist(), lasts[seen].tolist(), strict=True)]

    def sorted_by_directory(self, start: int, stop: int) -> tuple[Longs, Longs]:
        """The places `[start, stop)`, those of each directory behind each other and ascending; and where each directory's begin."""
        some = self.codes[start:stop]
        if not len(some) or (some == some[0]).all():
            return np.arange(start, stop), np.arange(min(1, len(some)))
        order = np.argsort(some.astype(np.int16) if len(self.names) <= FEW else some, kind="stable")
        return order + start, np.flatnonzero(np.diff(some[order], prepend=-1))

    def by_run(self, places: Longs) -> list[tuple[Run, Longs]]:
        """The records at these places: of each run those that it has, with their places; in the order of their first records."""
        if len(self.runs) == 1:
            return [(_taken(self.runs[0], self.rows[places]), places)]
        owners, firsts = np.unique(self.owners[places], return_index=True)
        parts = []
        for owner in owners[np.argsort(firsts)]:
            own = places[self.owners[places] == owner]
            parts.append((_taken(self.runs[owner], self.rows[own]), own))
        return parts


def interleaved(parts: Sequence[Partitioned]) -> Interleaved:
    """The records of some runs, each in offset order, as one whole in offset order."""
    if len(parts) == 1:
        only, count = parts[0], len(parts[0].run)
        return Interleaved(
            (only.run,),
            np.zeros(count, np.int32),
            np.arange(count),
            only.run.offsets,
            only.codes,
            only.names,
            only.times,
        )
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    number = {name: code for code, name in enumerate(names)}
    codes = [
        np.array([number[name] for name in part.names], np.int32)[part.codes] if part.names else part.codes
        for part in parts
    ]
    offsets = np.concatenate([part.run.offsets for part in parts])
    order = np.argsort(offsets, kind="stable")
    owners = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.run) for part in parts])
    rows = np.concatenate([np.arange(len(part.run)) for part in parts])
    times = [part.times for part in parts if part.times is not None]
    return Interleaved(
        tuple(part.run for part in parts),
        owners[order],
        rows[order],
        offsets[order],
        np.concatenate(codes)[order],
        names,
        np.concatenate(times)[order] if times else None,
    )


def joined(parts: list[tuple[Run, Longs]]) -> list[Run]:
    """Runs of equal schemas, given with their records' places, as one run in the order of places.

    Several consecutive ones where the values have no form in common.
    """
    parts = [part for part in parts if len(part[0])]
    if len(parts) <= 1:
        return [run for run, _ in parts]
    schema = parts[0][0].schema
    runs, places = [run for run, _ in parts], np.concatenate([places for _, places in parts])
    order = np.argsort(places, kind="stable")
    values = _values([run.values for run in runs], order, schema)
    if values is None:
        return _cut(runs, order)
    sidecars = {}
    for role, sidecar in runs[0].sidecars.items():
        joint = _values([run.sidecars[role].values for run in runs], order, sidecar.schema)
        if joint is None:
            return _cut(runs, order)
        sidecars[role] = Sidecar(joint, sidecar.schema)
    offsets = np.concatenate([run.offsets for run in runs])[order]
    times = np.concatenate([run.timestamps for run in runs])[order]
    return [Run(offsets, times, values, schema, sidecars, runs[0].topic)]


def _values(parts: list[Values], order: Longs, schema: ConnectSchema | None) -> Values | None:
    """The values behind each other, then in this order; None where they have no form in common."""
    if all(isinstance(part, Nulls) for part in parts):
        return Nulls(len(order))
    if all(isinstance(part, Plain) for part in parts):
        arrays = [part.array for part in parts if isinstance(part, Plain)]
        return Plain(pa.concat_arrays(arrays).take(pa.array(order))) if len({a.type for a in arrays}) == 1 else None
    if schema is None:
        return _texts(parts, order)
    tables = [part.table for part in parts if isinstance(part, StructColumns | AvroBodies) and part.table is not None]
    if _alike(tables, len(parts)):
        return StructColumns(pa.concat_tables(tables).combine_chunks().take(pa.array(order)))
    return Objects([item for part in parts for item in part.objects()]).take(order)


def _texts(parts: list[Values], order: Longs) -> Values | None:
    """JSON text; None where some has columns that the others lack."""
    texts = [part for part in parts if isinstance(part, JsonText)]
    tables = [part.table for part in texts if part.table is not None]
    if len(texts) < len(parts) or (tables and not _alike(tables, len(parts))):
        return None
    table = pa.concat_tables(tables).combine_chunks() if tables else None
    return JsonText(pa.concat_arrays([part.texts for part in texts]), table, texts[0].lines).take(order)


def _alike(tables: list[pa.Table], count: int) -> bool:
    return len(tables) == count and all(table.schema.equals(tables[0].schema) for table in tables)


def _cut(runs: list[Run], order: Longs) -> list[Run]:
    owners = np.repeat(np.arange(len(runs)), [len(run) for run in runs])[order]
    rows = np.concatenate([np.arange(len(run)) for run in runs])[order]
    cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(order)]
    return [runs[owners[a]].slice(int(rows[a]), int(rows[b - 1]) + 1) for a, b in pairwise(cuts)]


def _taken(run: Run, rows: Longs) -> Run:
    """These rows of a run, which ascend; neighbours are a slice, which costs nothing."""
    if len(rows) and len(rows) == rows[-1] + 1 - rows[0]:
        return run.slice(int(rows[0]), int(rows[-1]) + 1)
    return run.take(rows)


def apart_from_tombstones(parts: Sequence[Partitioned]) -> Iterator[Interleaved]:
    """The records of consecutive runs as wholes in offset order, those of null values apart from the others."""
    for _, group in groupby(parts, key=lambda part: part.run.tombstones):
        yield interleaved(list(group))
