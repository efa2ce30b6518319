"""How do the converters of single values decode? Strings, bytes, numbers and booleans, as Kafka's own serializers write them.

Strings and bytes take any bytes, malformed UTF-8 becomes replacement characters, as in Java. Numbers are big-endian and of one length.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.converter import KafkaBatch, without_tombstones
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.connect.records.values import Plain
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage
from kafka_s3.model.files import Role

STRING = ConnectSchema(SchemaType.STRING, optional=True)
BYTES = ConnectSchema(SchemaType.BYTES, optional=True)


def is_utf8(raw: bytes) -> bool:
    """Return whether bytes are UTF-8 text."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class Strings:
    """The string converter."""

    def decode(self, batch: KafkaBatch) -> Decoded:
        """One run of strings."""
        batch, nulls = without_tombstones(batch)
        if not len(batch):
            return Decoded(nulls=nulls)
        malformed: Counter[Role] = Counter()
        try:
            texts = batch.values.cast(pa.string())
        except pa.ArrowInvalid:
            raws = batch.values.to_pylist()
            texts = pa.array([raw.decode("utf-8", "replace") for raw in raws], pa.string())
            malformed[Role.VALUE] = sum(not is_utf8(raw) for raw in raws)
        return Decoded([batch.run(Plain(texts), STRING)], nulls=nulls, malformed=malformed)


class ByteArrayConverter:
    """The byte-array converter; nulls stay nulls unless `empty_for_null` stands for them."""

    def __init__(self, *, empty_for_null: bytes | None = None) -> None:
        self._instead = empty_for_null

    def decode(self, batch: KafkaBatch) -> Decoded:
        """One run of bytes."""
        if self._instead is not None:
            batch = replace(batch, values=pc.fill_null(batch.values, self._instead))
        batch, nulls = without_tombstones(batch)
        return Decoded([batch.run(Plain(batch.values), BYTES)] if len(batch) else [], nulls=nulls)


NUMBERS: Final = {
    "short": (SchemaType.INT16, ">i2", "ShortConverter"),
    "integer": (SchemaType.INT32, ">i4", "IntegerConverter"),
    "long": (SchemaType.INT64, ">i8", "LongConverter"),
    "float": (SchemaType.FLOAT32, ">f4", "FloatConverter"),
    "double": (SchemaType.FLOAT64, ">f8", "DoubleConverter"),
    "boolean": (SchemaType.BOOLEAN, "u1", "BooleanConverter"),
}


class Numbers:
    """The converters of numbers and booleans; `name` is one of `NUMBERS`."""

    def __init__(self, name: str) -> None:
        self._kind, code, java = NUMBERS[name]
        self._type = np.dtype(code)
        self._component = f"org.apache.kafka.connect.converters.{java}"

    def decode(self, batch: KafkaBatch) -> Decoded:
        """One run of numbers; bytes of another length, and booleans that are neither 0 nor 1, are failures."""
        batch, nulls = without_tombstones(batch)
        valid = pc.equal(pc.binary_length(batch.values), self._type.itemsize).to_numpy(zero_copy_only=False)
        raw = b"".join(value for value, good in zip(batch.values.to_pylist(), valid, strict=True) if good)
        numbers = np.frombuffer(raw, self._type)
        if self._kind is SchemaType.BOOLEAN:
            valid[np.flatnonzero(valid)[numbers > 1]] = False
            numbers = numbers[numbers <= 1].astype(bool)
        failures = [self._failure(int(offset)) for offset in batch.offsets[~valid]]
        good = batch.take(np.flatnonzero(valid))
        values = Plain(pa.array(numbers.astype(self._type.newbyteorder("=")) if numbers.dtype != bool else numbers))
        runs = [good.run(values, ConnectSchema(self._kind, optional=True))] if len(good) else []
        return Decoded(runs, failures, nulls)

    def _failure(self, offset: int) -> Failure:
        text = f"Failed to deserialize: {self._kind} takes {self._type.itemsize} byte(s)."
        return Failure(offset, Stage.VALUE_CONVERTER, self._component, DATA_EXCEPTION, text)
