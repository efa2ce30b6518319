"""What turns Kafka's bytes into runs of records? The seam that every converter fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_s3.records import Decoded, Failure, Longs, Run, Values
from kafka_s3.schemas.connect import ConnectSchema


@dataclass(frozen=True, slots=True)
class KafkaBatch:
    """Records of one topic-partition as Kafka has them, in offset order; `values` is a binary array with nulls for tombstones.

    `headers` are lists of structs (`key`, `value`) where they are wanted; a schema id may be among them (SEMANTICS A11).
    """

    offsets: Longs
    timestamps: Longs
    values: pa.Array
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, rows: Longs) -> KafkaBatch:
        """The records at these positions."""
        indices = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(indices)
        return KafkaBatch(self.offsets[rows], self.timestamps[rows], self.values.take(indices), headers)

    def slice(self, start: int, stop: int) -> KafkaBatch:
        """The records `[start, stop)`."""
        values = self.values.slice(start, stop - start)
        headers = None if self.headers is None else self.headers.slice(start, stop - start)
        return KafkaBatch(self.offsets[start:stop], self.timestamps[start:stop], values, headers)

    def run(self, values: Values, schema: ConnectSchema | None) -> Run:
        """All records of the batch as one run."""
        return Run(self.offsets, self.timestamps, values, schema)


class Converter(Protocol):
    """Decodes the values of one topic."""

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Runs in offset order, what cannot be decoded, and the offsets of null values. Never raises for bad data."""
        ...


def without_nulls(batch: KafkaBatch) -> tuple[KafkaBatch, list[int]]:
    """The batch without tombstones, and the tombstones' offsets."""
    if batch.values.null_count == 0:
        return batch, []
    valid = batch.values.is_valid().to_numpy(zero_copy_only=False)
    return batch.take(np.flatnonzero(valid)), batch.offsets[~valid].tolist()


def merged(parts: list[Decoded]) -> Decoded:
    """Parts of one batch, in order, as one result."""
    runs: list[Run] = []
    failures: list[Failure] = []
    nulls: list[int] = []
    for part in parts:
        runs += part.runs
        failures += part.failures
        nulls += part.nulls
    return Decoded(runs, failures, nulls)
