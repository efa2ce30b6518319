"""How do whole records go through converters and transforms? What the writer wants of a record is asked of what comes out at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.header_text import HEADERS
from kafka_s3.connect.converters.whole_records import (
    NO_HEADERS,
    NO_KEY,
    Headers,
    RecordConverter,
    with_keys,
    with_tombstones,
    without,
)  # fmt: skip
from kafka_s3.connect.records.runs import Decoded, Run, Sidecar
from kafka_s3.connect.records.values import Nulls, Objects
from kafka_s3.connect.transforms.chain import Chain
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True)
class TransformedRecords:
    """The records of one topic-partition as a chain leaves them. `converter` says how they are read and what is stored of them.

    `placing` is what the partitioner looks at beside the value.
    """

    converter: RecordConverter
    chain: Chain
    topic_partition: TopicPartition
    placing: frozenset[Role] = frozenset()

    @property
    def needs_envelopes(self) -> bool:
        """Whether keys and headers are read."""
        return self.converter.needs_envelopes or bool(self.chain.reads)

    def decode(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars and topics, failures of every stage, null values, and what was dropped.

        A null value, a key or a header that is missing counts as such only behind the last transform.
        """
        whole = batch
        runs, failures = self._read(batch, keys)
        found = self.chain.through(runs, self.topic_partition)
        out = _Sorted(self.converter.stores, self.placing, self.converter.tombstones)
        for run in found.runs:
            out.take(run)
        kept = out.runs
        if self.converter.metadata is not None:
            kept, refused = self.converter.metadata.added(kept, whole, keys)
            out.refused += refused
        return Decoded(apart(kept), failures + found.failures + out.refused, sorted(out.nulls), found.dropped)

    def _read(self, batch: KafkaBatch, keys: pa.Array | None) -> tuple[list[Run], list[Failure]]:
        """The records as the transforms see them: null values, and with key and headers where those are read."""
        converter = self.converter
        key_runs, failures = converter.keys(batch, keys)
        batch = without(batch, [failure.offset for failure in failures])
        decoded = converter.value.decode(batch)
        failures = [*failures, *decoded.failures]
        runs = with_tombstones(decoded.runs, decoded.nulls, batch) if decoded.nulls else decoded.runs
        if converter.key is not None and keys is not None:
            runs = _with_any_keys(runs, key_runs)
        if batch.headers is not None and (Role.HEADER in converter.stores or Role.HEADER in self.chain.reads):
            read, failed = converter.headers(batch)
            bad = np.array([failure.offset for failure in failed], np.int64)
            runs = [piece for run in runs for piece in _with_any_headers(run, batch, read, bad=bad)]
            failures += [
                failure for failure in failed if failure.offset not in {one.offset for one in decoded.failures}
            ]
        return runs, failures


@dataclass(slots=True)
class _Sorted:
    """What comes out of a chain, sorted by what becomes of it."""

    stores: frozenset[Role]
    placing: frozenset[Role]
    tombstones: bool
    runs: list[Run] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    refused: list[Failure] = field(default_factory=list)

    def take(self, run: Run) -> None:
        if run.tombstones and not self.tombstones:
            self.nulls += run.offsets.tolist()
            return
        if Role.KEY in self.stores and isinstance(run.sidecars.get(Role.KEY, _NOTHING).values, Nulls):
            self.refused += [rejection(int(offset), NO_KEY) for offset in run.offsets]
            return
        if Role.HEADER in self.stores:
            run = self._with_headers(run)
        if len(run):
            stored = {role: run.sidecars[role] for role in self.stores}
            placed_by = {role: run.sidecars[role] for role in self.placing & run.sidecars.keys()}
            self.runs.append(replace(run, sidecars=stored, placed_by=placed_by))

    def _with_headers(self, run: Run) -> Run:
        rows = run.sidecars[Role.HEADER].values.objects() if Role.HEADER in run.sidecars else [[]] * len(run)
        usable = np.array([bool(own) and all(one["value"] is not None for one in own) for own in rows], bool)
        self.refused += [rejection(int(offset), NO_HEADERS) for offset in run.offsets[~usable]]
        return run if usable.all() else run.take(np.flatnonzero(usable))


_NOTHING = Sidecar(Nulls(0), None)


def apart(runs: list[Run]) -> list[Run]:
    """The runs cut where values and null values alternate, in the order of their offsets: those go to different files."""
    if len({run.tombstones for run in runs}) < 2:
        return runs
    offsets = np.concatenate([run.offsets for run in runs])
    order = np.argsort(offsets, kind="stable")
    kinds = np.repeat([run.tombstones for run in runs], [len(run) for run in runs])[order]
    changes = offsets[order][1:][kinds[1:] != kinds[:-1]]
    pieces = [run.slice(a, b) for run in runs for a, b in pairwise(_cuts(run, changes))]
    return sorted(pieces, key=lambda piece: int(piece.offsets[0]))


def _cuts(run: Run, changes: np.ndarray) -> list[int]:
    found: list[int] = np.unique([0, *np.searchsorted(run.offsets, changes), len(run)]).tolist()
    return found


def _with_any_keys(runs: list[Run], keys: list[Run]) -> list[Run]:
    """The runs with their keys; those without one have a null key."""
    found, missing = with_keys(runs, keys)
    if not missing:
        return found
    for run in runs:
        rows = np.flatnonzero(np.isin(run.offsets, missing))
        if len(rows):
            found.append(replace(run.take(rows), sidecars={**run.sidecars, Role.KEY: Sidecar(Nulls(len(rows)), None)}))
    return sorted(found, key=lambda run: int(run.offsets[0]))


def _with_any_headers(run: Run, batch: KafkaBatch, read: list[Headers], *, bad: np.ndarray) -> Iterator[Run]:
    """The run with its headers, without the records whose headers are bad."""
    rows = np.flatnonzero(~np.isin(run.offsets, bad))
    if not len(rows):
        return
    run = run if len(rows) == len(run) else run.take(rows)
    places = np.searchsorted(batch.offsets, run.offsets)
    headers = Sidecar(Objects([read[place] for place in places]), HEADERS)
    yield replace(run, sidecars={**run.sidecars, Role.HEADER: headers})
