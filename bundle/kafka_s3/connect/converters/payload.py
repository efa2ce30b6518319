"""What decodes the payloads of one registered schema? The seam between the wire format and the schema languages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from kafka_s3.connect.records.values import Longs, Values
from kafka_s3.connect.schemas.connect import ConnectSchema


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

    def decode(self, payloads: pa.Array) -> Payloads:
        """The values of a binary array without nulls. Bad data never raises: it is among the failures."""
        ...
