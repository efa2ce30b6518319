"""Confluent's own client and serializers take the embedded registry for a real one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_s3.connect.schemas.registered import Language
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3_testing.services.demo_records import SUBJECT, register_shipments
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.protobuf import message_classes

ORDER = '{"type": "record", "name": "Order", "namespace": "com.acme", "fields": [{"name": "id", "type": "long"}]}'
JSON_ORDER = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}'


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        yield confluent


def value_of(topic: str, headers=None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_goes_there_and_back(client):
    write, read = AvroSerializer(client, ORDER), AvroDeserializer(client)
    data = write({"id": 7}, value_of("orders"))
    assert data == b"\0\0\0\0\x01\x0e"
    assert read(data, value_of("orders")) == {"id": 7}


def test_json_schema_goes_there_and_back(client):
    write, read = JSONSerializer(JSON_ORDER, client), JSONDeserializer(JSON_ORDER, schema_registry_client=client)
    data = write({"id": 7}, value_of("orders"))
    assert json.loads(data[5:]) == {"id": 7}
    assert read(data, value_of("orders")) == {"id": 7}


@pytest.mark.parametrize(
    ("name", "indexes"), [("acme.Order", b"\x02\x02"), ("acme.Order.Line", b"\x04\x02\x00"), ("acme.Other", b"\0")]
)
def test_protobuf_with_an_import_goes_there_and_back(client, registry, name, indexes):
    kind = message_classes().get(name) or message_classes()["acme.Order"].Line
    message = kind(price={"cents": 5}) if name == "acme.Order" else kind()
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    data = write(message, value_of("orders"))
    assert data[:5] == b"\0\0\0\0\x02"
    assert data[5:] == indexes + message.SerializeToString()
    assert ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)(data, value_of("orders")) == message
    assert client.get_version("orders-value", 1).schema.references == [SchemaReference("money.proto", "money.proto", 1)]
    assert registry.store.subjects(deleted=False) == ["money.proto", "orders-value"]


def test_a_guid_in_a_header_finds_its_schema(client):
    headers: list[tuple[str, bytes]] = []
    write = AvroSerializer(client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
    data = write({"id": 2**60}, value_of("orders", headers))  # the deserializer takes none below six bytes
    [(name, value)] = headers
    assert (name, value[0], len(value)) == ("__value_schema_id", 1, 17)
    client.clear_caches()
    assert AvroDeserializer(client)(data, value_of("orders", headers)) == {"id": 2**60}


def test_registering_the_same_schema_again_gives_the_same_id_and_version(client, registry):
    first = client.register_schema("orders-value", Schema(ORDER, "AVRO"))
    client.clear_caches()
    assert client.register_schema("orders-value", Schema(json.dumps(json.loads(ORDER), indent=3), "AVRO")) == first
    assert registry.register("other", ORDER) == first
    assert client.get_versions("orders-value") == [1]
    assert [(use.subject, use.version) for use in client.get_schema_versions(first)] == [
        ("orders-value", 1),
        ("other", 1),
    ]


def test_ids_are_global_and_versions_are_the_subjects(registry, client):
    assert [registry.register("a", ORDER), registry.register("a", '"string"'), registry.register("b", '"string"')] == [
        1,
        2,
        2,
    ]
    assert registry.register("b", JSON_ORDER, Language.JSON) == 3
    assert (client.get_version("a", 2).schema_id, client.get_latest_version("b").version) == (2, 2)
    assert client.get_subjects() == ["a", "b"]
    assert client.lookup_schema("b", Schema('"string"', "AVRO")).version == 1


def test_a_deleted_version_is_found_only_by_those_who_ask_for_it(registry, client):
    registry.register("a", ORDER)
    client.delete_subject("a")
    assert client.get_subjects() == []
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_version("a", 1)
    assert caught.value.error_code == 40401
    assert client.get_version("a", 1, deleted=True).schema_id == 1
    assert client.lookup_schema("a", Schema(ORDER, "AVRO"), deleted=True).version == 1
    assert registry.register("a", ORDER) == 1
    assert client.get_versions("a") == [2]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda c: c.get_schema(99), 40403),
        (lambda c: c.get_schema_by_guid("no"), 40403),
        (lambda c: c.get_version("nobody", 1), 40401),
        (lambda c: c.get_version("known", 9), 40402),
        (lambda c: c.get_version("known", "x"), 42202),
        (lambda c: c.lookup_schema("known", Schema('"int"', "AVRO")), 40403),
        (lambda c: c.lookup_schema("nobody", Schema('"int"', "AVRO")), 40401),
        (lambda c: c.register_schema("known", Schema("{", "AVRO")), 42201),
        (lambda c: c.register_schema("known", Schema("", "JSON")), 42201),
        (lambda c: c.register_schema("known", Schema("nothing", "PROTOBUF")), 42201),
        (lambda c: c.register_schema("known", Schema("x", "THRIFT")), 42201),
        (lambda c: c.register_schema("known", Schema(ORDER, "AVRO", [SchemaReference("x", "nobody", 1)])), 42201),
        (lambda c: c.get_config("known"), 40408),
        (lambda c: c.get_global_mode(), 404),
    ],
)
def test_errors_have_the_codes_of_the_original(registry, client, ask, code):
    registry.register("known", ORDER)
    with pytest.raises(SchemaRegistryError) as caught:
        ask(client)
    assert (caught.value.error_code, caught.value.http_status_code) == (code, int(str(code)[:3]))


def test_names_of_subjects_may_hold_any_character(registry, client):
    name = "a/b c%?ü-value"
    client.register_schema(name, Schema(ORDER, "AVRO"))
    assert client.get_version(name, 1).subject == name
    assert registry.store.subjects(deleted=False) == [name]


def test_a_body_that_is_no_object_is_refused(registry):
    request = urllib.request.Request(f"{registry.url}/subjects/a/versions", data=b"[", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    assert caught.value.code == 400
    caught.value.close()


def test_a_stopped_registry_can_start_again_with_its_schemas(registry, client):
    registry.register("a", ORDER)
    registry.stop()
    registry.stop()
    registry.start()
    assert client.get_subjects() == ["a"]


def test_a_taken_port_is_named(registry):
    with pytest.raises(LocalServiceError, match=str(registry.port)):
        EmbeddedRegistry(registry.port).start()


def test_both_versions_are_registered_under_the_topics_subject() -> None:
    registry = EmbeddedRegistry()
    ids = register_shipments(registry)
    assert [registry.store.version(SUBJECT, number, deleted=False)["id"] for number in (1, 2)] == list(ids)
    assert register_shipments(registry) == ids
