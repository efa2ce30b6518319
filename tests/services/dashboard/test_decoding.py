"""A dead letter that names a schema of a registry is decoded by the sink's own converter; a real server plays the registry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pytest

from kafka_s3.connect.schemas.registered import Language
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.files import Role
from kafka_s3_dashboard.reading.letters import DecodedContent, LetterDecoder
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.memory_world import settings_of

ORDER = {
    "type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": "bytes"}]
}  # fmt: skip
PROTO = 'syntax = "proto3"; message Shipment { int64 id = 1; string to = 2; }'


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


def decoder(registry: EmbeddedRegistry, converter: str) -> LetterDecoder:
    return LetterDecoder(settings_of({
        "value.converter": converter, "value.converter.schema.registry.url": registry.url, "value.converter.schemas.enable": None,
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "flush.size": "1",
    }))  # fmt: skip


def letter(value: bytes | None) -> DeadLetter:
    return DeadLetter("orders", 0, 7, 0, b"key", value, (), "PARTITIONER", "c", "X", "no field")


def framed(number: int, payload: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + payload


def test_avro_is_shown_as_json_with_the_id_of_its_schema(registry: EmbeddedRegistry) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    content = io.BytesIO()
    fastavro.schemaless_writer(content, ORDER, {"id": 4711, "raw": b"a\xff"})
    made = decoder(registry, "io.confluent.connect.avro.AvroConverter")
    (found,) = made.decoded(letter(framed(number, content.getvalue())))
    assert (found.role, found.schema, json.loads(found.text)) == (
        Role.VALUE,
        str(number),
        {"id": 4711, "raw": "a\\xff"},
    )
    (broken,) = made.decoded(letter(framed(number, b"")))
    assert (broken.schema, broken.text) == (str(number), "")
    assert broken.failure
    (unknown,) = made.decoded(letter(framed(99_999, b"\x02")))
    assert unknown.schema == "99999"
    assert "99999" in unknown.failure
    assert made.decoded(letter(b"plain")) == [DecodedContent(Role.VALUE, "", failure="Unknown magic byte!")]
    assert made.decoded(letter(None)) == []


def test_protobuf_is_shown_as_json_with_the_id_of_its_schema(registry: EmbeddedRegistry) -> None:
    number = registry.register("shipments-value", PROTO, Language.PROTOBUF)
    made = decoder(registry, "io.confluent.connect.protobuf.ProtobufConverter")
    (found,) = made.decoded(letter(framed(number, b"\x00\x08\x07\x12\x02me")))
    assert (found.schema, json.loads(found.text)) == (str(number), {"id": 7, "to": "me"})


def test_without_a_registry_nothing_is_decoded() -> None:
    assert LetterDecoder(settings_of({"flush.size": "1"})).decoded(letter(b"{}")) == []
