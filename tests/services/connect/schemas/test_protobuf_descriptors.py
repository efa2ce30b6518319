"""Why can a Protobuf schema not be read? In the words of protoc, which is asked as a process of its own."""

from __future__ import annotations

import base64

import pytest

from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.protobuf_descriptors import message_type
from kafka_s3.connect.schemas.registered import Reference, RegisteredSchema
from tests.support.protobuf import CUSTOMER, ORDER, PROTO3, registered


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (registered(PROTO3 + "message A { Nope n = 1; }"), r'schema:2:13: "Nope" is not defined'),
        (registered(ORDER), "customer.proto"),
        (registered("not a schema"), "not valid"),
        (registered(base64.b64encode(b"\xff\xff").decode()), "not of a serialized FileDescriptorProto"),
        (registered(ORDER, Reference("../shop/customer.proto", CUSTOMER)), "relative path"),
        (registered(ORDER, Reference("/etc/customer.proto", CUSTOMER)), "relative path"),
    ],
)
def test_a_schema_that_cannot_be_read_says_why(schema: RegisteredSchema, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        message_type(schema, (0,))
