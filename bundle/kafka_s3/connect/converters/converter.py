"""What turns Kafka's bytes into runs of records? The seams that converters fill.

A `Converter` decodes the keys or values of a topic. Where records name their schemas, it hands the payloads of each schema to a
`PayloadDecoder`: that is the seam between the wire format and the schema languages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.runs import Decoded, Run
from kafka_s3.connect.records.values import Longs, Values
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.expansion import BatchAllowance

BAD_DATA: Final = (ValueError, ArithmeticError, RecursionError, SchemaError)
"""What decoders raise for payloads that are none of theirs."""
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


@dataclass(frozen=True, slots=True)
class Payloads:
    """What became of an array of payloads: `values` of the positions `rows` (ascending), `failures` as (position, reason),
    and the positions of payloads that mean null.
    """

    rows: Longs
    values: Values
    failures: list[tuple[int, str]] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)


class PayloadDecoder(Protocol):
    """Decodes payloads (without magic byte, schema id and message indexes) of one schema; of one message type, with Protobuf."""

    schema: ConnectSchema | None

    def decode_payloads(self, payloads: pa.Array) -> Payloads:
        """The values of a binary array without nulls. Bad data never raises: it is among the failures."""
        ...


class DecodedEach(NamedTuple):
    """What became of payloads that were decoded one by one: rows and items of good ones, (row, reason) of bad ones, rows of nulls."""

    rows: Longs
    items: list[Any]
    failures: list[tuple[int, str]]
    nulls: list[int]


def decode_each(
    payloads: pa.Array, decode: Callable[[bytes], tuple[Any, int]], reason: Callable[[Exception], str] = str
) -> DecodedEach:
    """Decodes payloads one by one. `decode` gives an item, None for null, and the values that it is (`connect.schemas.expansion`).

    Raises TooManyValues where several payloads become more values than may be held at once.
    """
    rows: list[int] = []
    found = DecodedEach(np.empty(0, np.int64), [], [], [])
    left = BatchAllowance(len(payloads))
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            item, values = decode(payload)
        except BAD_DATA as error:
            found.failures.append((row, reason(error)))
            continue
        left.spend(values, len(payload))
        if item is None:
            found.nulls.append(row)
        else:
            rows.append(row)
            found.items.append(item)
    return found._replace(rows=np.array(rows, np.int64))
