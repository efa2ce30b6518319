"""How does a whole record decode? Key, value and headers, each by its converter, in the order and with the stages of Connect's worker.

A record whose key cannot be decoded fails before its value is looked at. Keys and headers that are stored travel with the run of values
as its sidecars; a run has keys of one schema.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.converter import Converter, KafkaBatch
from kafka_s3.connect.converters.headers import HEADERS, HeaderReader, header_text
from kafka_s3.connect.converters.kafka_struct import KafkaStruct
from kafka_s3.connect.records.runs import Decoded, Run, Sidecar
from kafka_s3.connect.records.values import Nulls, Objects
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage, rejection
from kafka_s3.model.files import Role

Headers: TypeAlias = list[dict[str, str | None]]
HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.HeaderConverter"
NO_KEY: Final = "Key cannot be null with store.kafka.keys=true."
NO_HEADERS: Final = "Headers cannot be missing, nor be without a value, with store.kafka.headers=true."


class RecordDecoder(Protocol):
    """Turns whole Kafka records into what the writer takes: converters alone, or with transforms behind them."""

    @property
    def needs_envelopes(self) -> bool:
        """Whether keys and headers are read."""
        ...

    def decode_records(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars, failures of every stage, null values. `keys` may be left out where none are needed."""
        ...


@dataclass(frozen=True)
class RecordConverter:
    """The converters of one configuration; `key` is None where keys are neither stored nor looked at.

    `stores` are the sidecars that are written. With `tombstones` null values become runs of `Nulls`; otherwise their
    offsets are in `Decoded.nulls`. `metadata` adds a field with the record's coordinates to each value; `schemas_in_headers` says
    that a record's headers may name its schema.
    """

    value: Converter
    key: Converter | None = None
    stores: frozenset[Role] = frozenset()
    tombstones: bool = False
    metadata: KafkaStruct | None = None
    header: HeaderReader = header_text
    schemas_in_headers: bool = False

    @property
    def needs_envelopes(self) -> bool:
        """Whether keys and headers are read."""
        stored = self.key is not None or bool(self.stores)
        return stored or self.metadata is not None or self.schemas_in_headers

    def decode_records(self, batch: KafkaBatch, keys: pa.Array | None) -> Decoded:
        """Runs with their sidecars, failures of every stage, and null values. `keys` may be left out where none are needed."""
        whole = batch
        key_runs, failures = self.keys(batch, keys)
        batch = without_offsets(batch, [failure.offset for failure in failures])
        decoded = self.value.decode(batch)
        runs = decoded.runs
        nulls = decoded.nulls
        if self.metadata is not None:
            runs, more = self.metadata.add_struct(runs, whole, keys)
            failures += more
        if self.tombstones and nulls:
            runs, nulls = with_tombstones(runs, nulls, batch), []
        runs, refused = self._with_sidecars(runs, key_runs, batch)
        return Decoded(runs, failures + decoded.failures + refused, nulls)

    def keys(self, batch: KafkaBatch, keys: pa.Array | None) -> tuple[list[Run], list[Failure]]:
        """The decoded keys, and those that cannot be decoded; nothing where no key is read."""
        if self.key is None or keys is None:
            return [], []
        found = self.key.decode(KafkaBatch(batch.offsets, batch.timestamps, keys, batch.headers))
        return found.runs, [replace(failure, stage=Stage.KEY_CONVERTER) for failure in found.failures]

    def _with_sidecars(self, runs: list[Run], keys: list[Run], batch: KafkaBatch) -> tuple[list[Run], list[Failure]]:
        refused: list[Failure] = []
        if Role.KEY in self.stores:
            runs, missing = with_keys(runs, keys)
            refused += [rejection(offset, NO_KEY) for offset in missing]
        if Role.HEADER in self.stores and batch.headers is not None:
            read, failed = self.headers(batch)
            refused += failed
            bad = [failure.offset for failure in failed]
            pairs = [with_usable_headers(with_headers(run, batch, read, bad=bad)) for run in runs]
            runs = [run for run, _ in pairs if len(run)]
            refused += [failure for _, failures in pairs for failure in failures]
        return runs, refused

    def headers(self, batch: KafkaBatch) -> tuple[list[Headers], list[Failure]]:
        """Each record's headers as names and texts; and those that cannot be read."""
        assert batch.headers is not None
        read: list[Headers] = []
        failed: list[Failure] = []
        for row, headers in enumerate(batch.headers.to_pylist()):
            try:
                texts = [
                    {"key": h["key"], "value": None if h["value"] is None else self.header(h["value"])}
                    for h in headers or ()
                ]
            except (ValueError, RecursionError) as error:
                text = f"Header cannot be converted: {error}"
                failed.append(
                    Failure(int(batch.offsets[row]), Stage.HEADER_CONVERTER, HEADER_CONVERTER, DATA_EXCEPTION, text)
                )
                texts = []
            read.append(texts)
        return read, failed


def without_offsets(batch: KafkaBatch, offsets: list[int]) -> KafkaBatch:
    """The batch but for the records at these offsets."""
    return batch.take(np.flatnonzero(~np.isin(batch.offsets, offsets))) if offsets else batch


def with_tombstones(runs: list[Run], nulls: list[int], batch: KafkaBatch) -> list[Run]:
    """The runs with the null values between them as runs of their own, in offset order."""
    dead = np.array(sorted(nulls), np.int64)
    pieces: list[Run] = []
    for run in runs:  # a run may stretch over tombstones: cut it there
        inside = dead[(dead > run.offsets[0]) & (dead < run.offsets[-1])]
        places = [0, *np.unique(np.searchsorted(run.offsets, inside)).tolist(), len(run)]
        pieces += [run.slice(a, b) for a, b in pairwise(places)]
    starts = np.array(sorted(int(piece.offsets[0]) for piece in pieces), np.int64)
    for place in np.unique(np.searchsorted(starts, dead)).tolist():
        low = starts[place - 1] if place else -1
        high = starts[place] if place < len(starts) else np.iinfo(np.int64).max
        offsets = dead[(dead > low) & (dead < high)]
        times = batch.timestamps[np.searchsorted(batch.offsets, offsets)]
        pieces.append(Run(offsets, times, Nulls(len(offsets)), None))
    return sorted(pieces, key=lambda piece: int(piece.offsets[0]))


def with_keys(runs: list[Run], keys: list[Run]) -> tuple[list[Run], list[int]]:
    """The runs with their keys, apart where the keys' schemas differ; and the offsets of records without a key."""
    out: list[Run] = []
    missing: list[int] = []
    offsets = np.concatenate([np.empty(0, np.int64), *(key.offsets for key in keys)])
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    owners = np.repeat(np.arange(len(keys)), [len(key) for key in keys])[order]
    for run in runs:
        places = np.searchsorted(offsets, run.offsets)
        has = np.isin(run.offsets, offsets)
        missing += run.offsets[~has].tolist()
        found, rows = owners[places[has]], np.flatnonzero(has)
        for owner in dict.fromkeys(found.tolist()):
            own = rows[found == owner]
            piece, key = run if len(own) == len(run) else run.take(own), keys[owner]
            sidecar = Sidecar(key.values.take(np.searchsorted(key.offsets, piece.offsets)), key.schema)
            out.append(replace(piece, sidecars={**piece.sidecars, Role.KEY: sidecar}))
    return sorted(out, key=lambda run: int(run.offsets[0])), missing


def with_headers(run: Run, batch: KafkaBatch, read: list[Headers], *, bad: list[int]) -> Run:
    """The run with its headers, without the records at the offsets `bad`."""
    rows = np.flatnonzero(~np.isin(run.offsets, bad))
    run = run if len(rows) == len(run) else run.take(rows)
    headers = Objects([read[row] for row in np.searchsorted(batch.offsets, run.offsets)])
    return replace(run, sidecars={**run.sidecars, Role.HEADER: Sidecar(headers, HEADERS)})


def with_usable_headers(run: Run) -> tuple[Run, list[Failure]]:
    """The records of a run that have headers, of which none is null; the others are failures."""
    rows = run.sidecars[Role.HEADER].values.objects() if Role.HEADER in run.sidecars else [[]] * len(run)
    usable = np.array([bool(own) and all(one["value"] is not None for one in own) for own in rows], bool)
    refused = [rejection(int(offset), NO_HEADERS) for offset in run.offsets[~usable]]
    return (run if usable.all() else run.take(np.flatnonzero(usable))), refused
