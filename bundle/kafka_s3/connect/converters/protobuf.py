"""How do the payloads of one Protobuf message type decode? Each row on its own, into Connect values.

Before the bytes of a message are parsed, the values that they become are counted: an empty message of two bytes takes as much memory as
its type has fields.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from kafka_s3.connect.converters.converter import Payloads, decode_each
from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.avro_values import read_varint
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.schemas.expansion import Allowance, check_parts, depth_check, most_values
from kafka_s3.connect.schemas.protobuf import DEEPEST, ProtobufOptions, message_of, translation

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; those of groups have no bytes of their own."""
SIZES: Final = {FIXED64: 8, FIXED32: 4}
LEAST_ITEM: Final = 2
"""Bytes of a message that is empty: its tag and its length."""


class RepeatedItems:
    """Counter of what a message type's bytes may hold any number of: items of repeated messages, and messages of types in themselves."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._widths: dict[str, int] = {}
        types = {descriptor.full_name: descriptor} | _types_within(descriptor)
        self._recursive = {name for name, kind in types.items() if name in _types_within(kind)}
        self._width = self._width_of(descriptor)
        fields = [field for kind in types.values() for field in kind.fields if _is_message(field)]
        items = [self._width_of(message_of(field)) for field in fields if self._is_item(field)]
        self._widest_item = max(items, default=0)

    def most_values(self, payload: bytes) -> int:
        """The values of a message, or more. Raises SchemaError where they are more than a record may become."""
        bound = len(payload) // LEAST_ITEM * self._widest_item
        if bound <= most_values(len(payload)):
            return self._width + bound
        allowance = Allowance(len(payload))
        with suppress(IndexError):  # the parser says what is wrong
            self._count(payload, 0, len(payload), self._descriptor, allowance, depth=0)
        return self._width + allowance.spent

    def _width_of(self, descriptor: Descriptor) -> int:
        """The values of one message, nested ones included, items not."""
        name = descriptor.full_name
        if name not in self._widths:
            messages = [field for field in descriptor.fields if _is_message(field)]
            nested = [message_of(field) for field in messages if not self._is_item(field)]
            self._widths[name] = 1 + len(descriptor.fields) + sum(map(self._width_of, nested))
            check_parts(self._widths[name])
        return self._widths[name]

    def _is_item(self, field: FieldDescriptor) -> bool:
        return field.is_repeated or message_of(field).full_name in self._recursive

    def _count(
        self, data: bytes, pos: int, end: int, descriptor: Descriptor, allowance: Allowance, *, depth: int
    ) -> None:
        """Counts the items in the bytes of one message. Raises IndexError where these are malformed, SchemaError."""
        if depth > DEEPEST:
            raise IndexError
        while pos < end:
            tag, pos = read_varint(data, pos)
            kind = tag & 7
            size = SIZES.get(kind, 0)
            if kind == VARINT:
                _, pos = read_varint(data, pos)
            elif kind == BYTES:
                size, pos = read_varint(data, pos)
                field = descriptor.fields_by_number.get(tag >> 3)
                if field is not None and _is_message(field):
                    inner = message_of(field)
                    if self._is_item(field):
                        allowance.spend(1, self._widths[inner.full_name])
                    self._count(data, pos, min(pos + size, end), inner, allowance, depth=depth + 1)
            pos += size


def _is_message(field: FieldDescriptor) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_MESSAGE)


def _types_within(descriptor: Descriptor) -> dict[str, Descriptor]:
    """Return the message types of the fields of a type, and of their fields, by name."""
    types: dict[str, Descriptor] = {}
    waiting = [descriptor]
    while waiting:
        for field in waiting.pop().fields:
            if _is_message(field) and message_of(field).full_name not in types:
                waiting.append(message_of(field))
                types[message_of(field).full_name] = message_of(field)
    return types


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
        self._check_depth = depth_check(made.schema)

    def decode_payloads(self, payloads: pa.Array) -> Payloads:
        """The values, and the rows whose bytes are no such message: malformed, without a required field, or without a Connect form.

        Raises TooManyValues where several messages may become more values than may be held at once.
        """
        found = decode_each(
            payloads, self._value, lambda error: f"The bytes are no Protobuf message {self._name}: {error}"
        )
        return Payloads(found.rows, Objects(found.items), found.failures)

    def _value(self, payload: bytes) -> tuple[Any, int]:
        values = self._items.most_values(payload)
        try:
            message = self._message.FromString(payload)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not self._message.IsInitialized(message):
            lacking = self._message.FindInitializationErrors(message)
            raise ValueError(f"it lacks the required fields {', '.join(lacking)}")
        value = self._read(message)
        self._check_depth(value)
        return value, values
