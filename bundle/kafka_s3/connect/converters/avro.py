"""How are the payloads of one Avro schema decoded? A batch at a time into columns, one by one where that cannot be (SEMANTICS A11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.avro_columns import AvroColumns, columns_of
from kafka_s3.connect.converters.payload import Payloads
from kafka_s3.connect.records.avro_bodies import AvroBodies
from kafka_s3.connect.records.values import Longs, Plain
from kafka_s3.connect.schemas.arrow import arrow_table
from kafka_s3.connect.schemas.avro_binary import Datum
from kafka_s3.connect.schemas.avro_in import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.avro_values import decoder, measuring_decoder
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.expansion import BatchAllowance, width
from kafka_s3.connect.schemas.registered import RegisteredSchema


class Extent(Enum):
    """Whether columns are those of all fields."""

    WHOLE = auto()
    PART = auto()


class AvroPayloads:
    """The payload decoder of a registered Avro schema. Raises SchemaError where the schema is broken or recursive.

    With `fields` only those are decoded, where that is cheaper: the bodies are written as they came, and all else is only checked.
    """

    def __init__(
        self,
        registered: RegisteredSchema,
        options: AvroOptions,
        *,
        version: int | None,
        fields: frozenset[str] | None = None,
    ) -> None:
        self._writer = parse_avro(registered.text, registered.references)
        self.schema = connect_schema_of_avro(self._writer, options=options, version=version)
        self._decode = decoder(self._writer, self.schema)
        self._measure = measuring_decoder(self._writer, self.schema)
        self._width = width(self.schema)
        self._columns = None if self.schema is None else columns_of(self._writer, self.schema, fields)
        self._raw = self._writer == "bytes" or (isinstance(self._writer, dict) and self._writer == {"type": "bytes"})

    def decode(self, payloads: pa.Array) -> Payloads:
        """The values; a payload that is no datum of the schema is a failure. Bytes after the datum are ignored, as in the original.

        Raises TooManyValues where several payloads become more values than may be held at once.
        """
        if self._raw:
            return Payloads(np.arange(len(payloads)), Plain(payloads))
        if self._columns is None or self.schema is None:
            return self._one_by_one(payloads).as_payloads(self._writer, self._decode)
        whole = len(self._columns.names) == len(self.schema.fields)
        part = self._in_columns(self._columns, payloads, self.schema)
        return part.as_payloads(self._writer, self._decode, Extent.WHOLE if whole else Extent.PART)

    def _in_columns(self, columns: AvroColumns, payloads: pa.Array, schema: ConnectSchema) -> _Part:
        """The columns, with a row for what is good though it did not pass: that is judged one by one."""
        table, passed = columns.read(payloads)
        rows = np.flatnonzero(passed)
        if len(rows) == len(payloads):
            return _Part(rows, payloads, table=table)
        others = np.flatnonzero(~passed)
        part = self._one_by_one(payloads.take(pa.array(others)))
        rows = np.concatenate([rows, others[part.rows]])
        order = pa.array(np.argsort(rows))
        bodies = pa.concat_arrays([payloads.filter(pa.array(passed)), part.bodies])
        table = pa.concat_tables([table, arrow_table(part.items or [], schema).select(columns.names)])
        failures = [(int(others[row]), text) for row, text in part.failures]
        return _Part(np.sort(rows), bodies.take(order), table=table.take(order), failures=failures)

    def _one_by_one(self, payloads: pa.Array) -> _Part:
        rows, items, bodies, failures = [], [], [], []
        left = BatchAllowance(len(payloads))
        for row, payload in enumerate(map(Datum.of, payloads.to_pylist())):
            try:
                item, length = self._measure(payload)
            except (SchemaError, ValueError, OverflowError) as error:
                failures.append((row, f"Error deserializing Avro message: {error}"))
                continue
            left.spend(self._width + payload.allowance.spent, len(payload))
            rows.append(row)
            items.append(item)
            bodies.append(payload[:length])
        return _Part(np.array(rows, np.int64), pa.array(bodies, pa.binary()), items=items, failures=failures)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of a batch: positions of good payloads, their bodies without trailing bytes, and their values in one form or the other."""

    rows: Longs
    bodies: pa.Array
    table: pa.Table | None = None
    items: list[Any] | None = None
    failures: list[tuple[int, str]] = field(default_factory=list)

    def as_payloads(self, writer: Any, decode: Callable[[bytes], Any], extent: Extent = Extent.WHOLE) -> Payloads:
        some = self.table if extent is Extent.PART else None
        table = self.table if extent is Extent.WHOLE else None
        return Payloads(self.rows, AvroBodies(self.bodies, writer, decode, table, self.items, some), self.failures)
