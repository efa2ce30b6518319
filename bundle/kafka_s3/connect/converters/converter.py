"""What turns Kafka's bytes into runs of records? The seam that every converter fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.runs import Decoded, Run
from kafka_s3.connect.records.values import Longs, Values
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.model.dead_letters import Failure

VALUE_SCHEMA: Final = "__value_schema_id"
"""The header in which a record may name the schema of its value."""
SCHEMA_NAME: Final = "schema_name"
"""The column that holds the content of that header, where no other header is read."""


@dataclass(frozen=True, slots=True)
class KafkaBatch:
    """Records of one topic-partition as Kafka has them, in offset order; `values` is a binary array with nulls for tombstones.

    `headers` are lists of structs (`key`, `value`) where they are wanted; a schema id may be among them (SEMANTICS A11). Where only that
    one is wanted, `schema_names` holds it.
    """

    offsets: Longs
    timestamps: Longs
    values: pa.Array
    headers: pa.Array | None = None
    schema_names: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, rows: Longs) -> KafkaBatch:
        """The records at these positions."""
        indices = pa.array(rows)
        headers, names = (None if one is None else one.take(indices) for one in (self.headers, self.schema_names))
        return KafkaBatch(self.offsets[rows], self.timestamps[rows], self.values.take(indices), headers, names)

    def slice(self, start: int, stop: int) -> KafkaBatch:
        """The records `[start, stop)`."""
        values = self.values.slice(start, stop - start)
        columns = (self.headers, self.schema_names)
        headers, names = (None if one is None else one.slice(start, stop - start) for one in columns)
        return KafkaBatch(self.offsets[start:stop], self.timestamps[start:stop], values, headers, names)

    def run(self, values: Values, schema: ConnectSchema | None) -> Run:
        """All records of the batch as one run."""
        return Run(self.offsets, self.timestamps, values, schema)


class Converter(Protocol):
    """Decodes the values of one topic."""

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Runs in offset order, what cannot be decoded, and the offsets of null values. Never raises for bad data."""
        ...


def without_tombstones(batch: KafkaBatch) -> tuple[KafkaBatch, list[int]]:
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
