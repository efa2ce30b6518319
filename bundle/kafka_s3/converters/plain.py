"""How do the string and byte-array converters decode? They take any bytes; malformed UTF-8 becomes replacement characters, as in Java."""

from __future__ import annotations

import pyarrow as pa

from kafka_s3.converters.converter import KafkaBatch, without_nulls
from kafka_s3.records import Decoded, Plain
from kafka_s3.schemas.connect import ConnectSchema, Kind

STRING = ConnectSchema(Kind.STRING, optional=True)
BYTES = ConnectSchema(Kind.BYTES, optional=True)


class Strings:
    """The string converter."""

    def decode(self, batch: KafkaBatch) -> Decoded:
        """One run of strings."""
        batch, nulls = without_nulls(batch)
        if not len(batch):
            return Decoded(nulls=nulls)
        try:
            texts = batch.values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([raw.decode("utf-8", "replace") for raw in batch.values.to_pylist()], pa.string())
        return Decoded([batch.run(Plain(texts), STRING)], nulls=nulls)


class ByteArrays:
    """The byte-array converter."""

    def decode(self, batch: KafkaBatch) -> Decoded:
        """One run of bytes."""
        batch, nulls = without_nulls(batch)
        return Decoded([batch.run(Plain(batch.values), BYTES)] if len(batch) else [], nulls=nulls)
