"""How do the payloads of one Protobuf message type decode? Each row on its own, into Connect values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from kafka_s3.connect.converters.payload import Payloads
from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.expansion import BatchAllowance
from kafka_s3.connect.schemas.protobuf import ProtobufOptions, translation
from kafka_s3.connect.schemas.protobuf_items import RepeatedItems


class ProtobufPayloads:
    """The decoder of one message type. Making it raises SchemaError where the type has no Connect schema."""

    schema: ConnectSchema | None

    def __init__(self, descriptor: Descriptor, options: ProtobufOptions, *, version: int | None) -> None:
        made = translation(descriptor, options=options, version=version)
        self.schema = made.schema
        self._read = made.read
        self._name = descriptor.full_name
        self._message: Any = message_factory.GetMessageClass(descriptor)
        self._items = RepeatedItems(descriptor)

    def decode(self, payloads: pa.Array) -> Payloads:
        """The values, and the rows whose bytes are no such message: malformed, without a required field, or without a Connect form.

        Raises TooManyValues where several messages may become more values than may be held at once.
        """
        rows: list[int] = []
        values: list[Any] = []
        failures: list[tuple[int, str]] = []
        left = BatchAllowance(len(payloads))
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                left.spend(self._items.most_values(payload), len(payload))
                value = self._value(payload)
            except (DecodeError, ValueError, ArithmeticError, SchemaError) as error:
                failures.append((row, f"The bytes are no Protobuf message {self._name}: {error}"))
            else:
                rows.append(row)
                values.append(value)
        return Payloads(np.array(rows, dtype=np.int64), Objects(values), failures)

    def _value(self, payload: bytes) -> Any:
        message = self._message.FromString(payload)
        if not self._message.IsInitialized(message):
            lacking = self._message.FindInitializationErrors(message)
            raise ValueError(f"it lacks the required fields {', '.join(lacking)}")
        return self._read(message)
