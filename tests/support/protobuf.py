"""Protobuf schemas and messages."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema


def message_classes():
    """The messages of two files: `order.proto` imports `money.proto`, and nests `Line` in its second message."""
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="acme", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="acme", syntax="proto3", dependency=["money.proto"]
    )
    order.message_type.add(name="Other")
    message = order.message_type.add(name="Order")
    message.field.add(name="price", number=1, type=11, label=1, type_name=".acme.Money")
    message.nested_type.add(name="Line").field.add(name="text", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    for file in (money, order):
        pool.Add(file)
    return message_factory.GetMessages([money, order], pool=pool)


PROTO3 = 'syntax = "proto3"; package shop;\n'


def registered(text: str, *references: Reference) -> RegisteredSchema:
    return RegisteredSchema(Language.PROTOBUF, text, references)


CUSTOMER = PROTO3 + "message Customer { string name = 1; }"

ORDER = PROTO3 + 'import "shop/customer.proto"; message Order { Customer customer = 1; }'
