"""Are records read whose schemas lie in AWS Glue or Apicurio, by the configurations of those converters, through the product's own loop?"""

from __future__ import annotations

import base64
import gzip
import io
import json
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import RegistryError, RegistryUnavailable
from kafka_s3.ops.doctor.findings import CheckStatus
from kafka_s3.ops.doctor.registry import check_registry
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.apicurio_server import ApicurioServer
from tests.support.glue_server import GlueServer
from tests.support.memory_world import BASE, ORDERS, START_MS, World
from tests.support.token_server import TokenServer

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "n", "type": "long"}]}
MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
SALE = {"type": "record", "name": "Sale", "namespace": "shop", "fields": [{"name": "price", "type": "shop.Money"}]}
TOLERANT = {"flush.size": "100", "flush.idle.ms": "1", "errors.tolerance": "all"}
GLUE = {
    **TOLERANT, "value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
    "value.converter.region": "eu-west-1", "value.converter.registry.name": "default-registry",
    "value.converter.avroRecordType": "GENERIC_RECORD", "value.converter.schemaAutoRegistrationEnabled": "true",
}  # fmt: skip
APICURIO = {**TOLERANT, "value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def of_glue(version: uuid.UUID, payload: bytes, *, compression: int = 0) -> bytes:
    body = zlib.compress(payload) if compression == 5 else payload
    return bytes([3, compression]) + version.bytes + body


def written(config: dict[str, str], records: list[bytes]) -> tuple[list[Any], dict[int, str]]:
    """The rows of all objects, and the reasons of the dead letters by offset, when these records have been worked off."""
    world = World({"value.converter.schemas.enable": "false", **config})
    for offset, value in enumerate(records):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    sink = world.start()
    sink.poll_and_commit()
    world.now += 60_000
    sink.poll_and_commit()
    files = [data for key, data in world.store.objects.items() if "/dead-letters/" in key]
    found = [json.loads(line) for data in files for line in gzip.decompress(data).splitlines()]
    letters = {letter["offset"]: letter["message"] for letter in found}
    return [row for rows in world.objects().values() for row in rows], letters


@pytest.fixture
def glue() -> Iterator[GlueServer]:
    with GlueServer(access_key="kafka-s3-local") as server:
        yield server


def in_glue(server: GlueServer, **more: str) -> dict[str, str]:
    return {**GLUE, "value.converter.endpoint": server.url, **more}


def test_records_of_glue_are_read_compressed_or_not(glue: GlueServer) -> None:
    version = glue.register(json.dumps(ORDER))
    records = [of_glue(version, avro(ORDER, {"n": n}), compression=5 * (n % 2)) for n in range(4)]
    rows, letters = written(in_glue(glue), records)
    assert rows == [{"n": n} for n in range(4)]
    assert letters == {}
    assert glue.asked == [str(version)]


PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Person", "type": "object", "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "mail": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
}  # fmt: skip
PROTO = """syntax = "proto3"; package shop;
message Refund { int64 n = 1; }
message Order { int64 n = 1; Customer customer = 2; oneof by { string card = 3; int32 cash = 4; } optional string note = 5;
  message Customer { string name = 1; } }
"""
CONVERTERS = "com.amazonaws.services.schemaregistry.kafkaconnect."


def test_json_schema_in_glue(glue: GlueServer) -> None:
    version = glue.register(json.dumps(PERSON), kind="JSON")
    texts = [b'{"name":"Ann","age":5,"mail":null}', b'{"name":"Bob","age":6,"mail":"b@x"}', b"{", b'{"name":5,"age":6}']
    config = {**in_glue(glue), "value.converter": f"{CONVERTERS}jsonschema.JsonSchemaConverter"}
    rows, letters = written(config, [of_glue(version, text, compression=5 * (n % 2)) for n, text in enumerate(texts)])
    assert rows == [{"name": "Ann", "age": 5, "mail": None}, {"name": "Bob", "age": 6, "mail": "b@x"}]
    assert list(letters) == [2, 3]


def test_protobuf_in_glue_names_its_message_type_by_its_place(glue: GlueServer) -> None:
    """Order is 0, Order.Customer 1, Refund 2. What is absent has its default; so has a message, of a oneof only what is there."""
    version = glue.register(PROTO, kind="PROTOBUF")
    config = {**in_glue(glue), "value.converter": f"{CONVERTERS}protobuf.ProtobufSchemaConverter"}
    rows, letters = written(config, [
        of_glue(version, b"\x00\x08\x05\x12\x05\x0a\x03Ann\x1a\x04visa"), of_glue(version, b"\x00", compression=5),
        of_glue(version, b"\x02\x08\x07"), of_glue(version, b"\x09"), of_glue(version, b"\x00\x08"), of_glue(version, b""),
    ])  # fmt: skip
    assert rows == [
        {"by": {"card": "visa", "cash": None}, "n": 5, "customer": {"name": "Ann"}, "note": None},
        {"by": None, "n": 0, "customer": {"name": ""}, "note": None},
        {"n": 7},
    ]
    assert list(letters) == [3, 4, 5]
    assert "3 message types, and none at the place 9" in letters[3]
    assert "shop.Order" in letters[4]
    assert "malformed" in letters[5]


def test_a_schema_of_another_language_than_the_converter_reads_is_reported(glue: GlueServer) -> None:
    version = glue.register(PROTO, kind="PROTOBUF")
    (letter,) = written(in_glue(glue), [of_glue(version, b"\x00")])[1].values()
    assert "is PROTOBUF, but the converter reads AVRO" in letter


def test_payloads_that_grow_are_written_in_pieces_and_one_that_is_too_large_is_a_dead_letter(glue: GlueServer) -> None:
    """Of a task with 1 MiB: each payload has 512 KiB at most, and no more than that is inflated at a time."""
    text = {"type": "record", "name": "Text", "fields": [{"name": "t", "type": "string"}]}
    version = glue.register(json.dumps(text))
    sizes = [200_000] * 20 + [524_288, 200_000]
    config = {**in_glue(glue), "writer.memory.bytes": str(1 << 20)}
    rows, letters = written(config, [of_glue(version, avro(text, {"t": "x" * size}), compression=5) for size in sizes])
    assert [len(row["t"]) for row in rows] == [200_000] * 21
    assert list(letters) == [20]
    assert "has more than 524288 bytes, half of writer.memory.bytes" in letters[20]


def test_what_a_record_of_glue_does_wrong_fails_that_record(glue: GlueServer) -> None:
    version, unknown = glue.register(json.dumps(ORDER)), uuid.uuid4()
    payload = avro(ORDER, {"n": 1})
    rows, letters = written(in_glue(glue), [
        of_glue(version, payload), of_glue(unknown, payload), b"\x00" + version.bytes, bytes([3, 7]) + version.bytes + payload,
        of_glue(version, b"no zlib")[:1] + b"\x05" + version.bytes + b"no zlib", of_glue(version, payload)[:9],
        of_glue(version, payload, compression=5)[:-2],
    ])  # fmt: skip
    assert rows == [{"n": 1}]
    assert list(letters) == [1, 2, 3, 4, 5, 6]
    assert f"has no schema version {unknown}" in letters[1]
    assert "Unknown magic byte" in letters[2]
    assert "Unknown compression byte" in letters[3]
    assert "cannot be inflated" in letters[4]
    assert "end within the schema id" in letters[5]
    assert "ends too early" in letters[6]


def test_an_outage_of_glue_is_waited_for_and_a_refusal_is_not(
    glue: GlueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = glue.register(json.dumps(ORDER))
    record = of_glue(version, avro(ORDER, {"n": 1}))
    glue.failures = 2
    assert written(in_glue(glue), [record]) == ([{"n": 1}], {})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    with pytest.raises(RegistryError, match=r"refused schema version .*AccessDeniedException.*glue:GetSchemaVersion"):
        written(in_glue(glue), [record])
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(RegistryUnavailable, match="did not answer"):
        written({**in_glue(glue), "value.converter.endpoint": "http://127.0.0.1:9"}, [record])


def test_the_doctor_asks_glue(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = resolved(validate({**BASE, **in_glue(glue)}).usable())
    (finding,) = check_registry(settings)
    assert (finding.status, glue.url in finding.tried) == (CheckStatus.OK, True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    (finding,) = check_registry(settings)
    assert finding.status is CheckStatus.FAILED


# ------------------------------------------------------------ Apicurio


@pytest.fixture
def apicurio() -> Iterator[ApicurioServer]:
    with ApicurioServer() as server:
        server.register("order", json.dumps(ORDER), global_id=7, content_id=3)
        yield server


def of_apicurio(number: int, payload: bytes, *, size: int) -> bytes:
    return b"\0" + number.to_bytes(size, "big") + payload


@pytest.mark.parametrize(("version", "more", "number", "size"), [
    ("v2", {}, 7, 8),
    ("v2", {"as-confluent": "true"}, 7, 4),
    ("v2", {"as-confluent": "true", "use-id": "contentId"}, 3, 4),
    ("v2", {"id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler"}, 7, 4),
    ("v3", {}, 3, 4),
    ("v3", {"use-id": "globalId"}, 7, 4),
    ("v3", {"id-handler": "io.apicurio.registry.serde.Legacy8ByteIdHandler"}, 3, 8),
    ("v3", {"id-handler": "io.apicurio.registry.serde.OptimisticFallbackIdHandler"}, 3, 8),
    ("v3", {"id-handler": "io.apicurio.registry.serde.OptimisticFallbackIdHandler"}, 3, 4),
])  # fmt: skip
def test_ids_are_read_as_apicurios_converter_is_configured(
    version: str, more: dict[str, str], number: int, size: int, apicurio: ApicurioServer
) -> None:
    keys = {"url": f"{apicurio.url}/apis/registry/{version}", "auto-register": "true", "find-latest": "true", **more}
    config = {**APICURIO, **{f"value.converter.apicurio.registry.{key}": text for key, text in keys.items()}}
    records = [of_apicurio(number, avro(ORDER, {"n": n}), size=size) for n in range(2)]
    rows, letters = written(config, [*records, of_apicurio(99, b"x", size=size), b"\x01xxxxxxxxxxxx"])
    assert rows == [{"n": 0}, {"n": 1}]
    assert list(letters) == [2, 3]
    assert "99" in letters[2]
    assert "Unknown magic byte" in letters[3]


def apicurio_config(server: ApicurioServer, version: str = "v3", **more: str) -> dict[str, str]:
    url = {"value.converter.apicurio.registry.url": f"{server.url}/apis/registry/{version}"}
    return {**APICURIO, **url, **{f"value.converter.apicurio.{key}": text for key, text in more.items()}}


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_schemas_that_are_referred_to_come_along(version: str, apicurio: ApicurioServer) -> None:
    apicurio.register("shop.Money", json.dumps(MONEY), global_id=8, content_id=8)
    apicurio.register("sale", json.dumps(SALE), global_id=9, content_id=9, references=["shop.Money"])
    whole = {**SALE, "fields": [{"name": "price", "type": MONEY}]}
    size = 8 if version == "v2" else 4
    record = of_apicurio(9, avro(whole, {"price": {"cents": 5}}), size=size)
    assert written(apicurio_config(apicurio, version), [record]) == ([{"price": {"cents": 5}}], {})


def test_apicurio_behind_a_password_or_a_token(apicurio: ApicurioServer) -> None:
    basic = f"Basic {base64.b64encode(b'sink:s3cret').decode()}"
    record = of_apicurio(3, avro(ORDER, {"n": 1}), size=4)
    with (
        TokenServer({"sink": "s3cret"}) as tokens,
        ApicurioServer(allowed=lambda given: given == basic or given.startswith("Bearer ")) as closed,
    ):
        closed.register("order", json.dumps(ORDER), global_id=7, content_id=3)
        user = {"registry.auth.username": "sink", "registry.auth.password": "s3cret"}
        client = {
            "auth.service.token.endpoint": tokens.token_url, "auth.client.id": "sink", "auth.client.secret": "s3cret",
        }  # fmt: skip
        assert written(apicurio_config(closed, **user), [record])[0] == [{"n": 1}]
        assert written(apicurio_config(closed, **client), [record])[0] == [{"n": 1}]
        assert tokens.asked == [("sink", "")]
        with pytest.raises(RegistryError, match="refused access") as refused:
            written(apicurio_config(closed, **{**client, "auth.client.secret": "wr0ng"}), [record])
        assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(("converter", "kind", "schema", "payload", "row"), [
    ("avro.AvroConverter", "", json.dumps(ORDER), avro(ORDER, {"n": 1}), {"n": 1}),
    ("json.JsonSchemaConverter", "JSON", json.dumps(PERSON), b'{"name":"Ann","age":5}', {"name": "Ann", "age": 5, "mail": None}),
    ("protobuf.ProtobufConverter", "PROTOBUF", PROTO, b"\x00\x08\x07", {"n": 7}),
])  # fmt: skip
def test_apicurios_compatible_interface_serves_confluents_converters(
    converter: str, kind: str, schema: str, payload: bytes, row: dict[str, Any], apicurio: ApicurioServer
) -> None:
    apicurio.register("given", schema, global_id=12, content_id=12, kind=kind)
    config = {
        **TOLERANT, "value.converter": f"io.confluent.connect.{converter}",
        "value.converter.schema.registry.url": f"{apicurio.url}/apis/ccompat/v7",
    }  # fmt: skip
    rows, letters = written(config, [of_apicurio(12, payload, size=4), of_apicurio(99, b"\x00", size=4)])
    assert rows == [row]
    assert list(letters) == [1]


def test_the_doctor_asks_apicurio(apicurio: ApicurioServer) -> None:
    settings = resolved(validate({**BASE, **apicurio_config(apicurio)}).usable())
    assert [finding.status for finding in check_registry(settings)] == [CheckStatus.OK]
