"""Is `verify` right where a sink asks a schema registry, or keeps a Delta table? The configurations that tests/unit/tools leaves out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafka_s3.connect.config.classes import REGISTRY_CONVERTERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.connect.schemas.registered import Language
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, TOLERANT
from tests.support.memory_world import START_MS
from tests.support.public_configurations import FORMAT, SMT
from tests.support.published import needs_services, published, topics_of
from tests.support.verifying import clean_and_not_when_damaged, report_of, values_of, worked_off

TOLD_OF = {name: settings for name, settings in published().items() if needs_services(settings)}
URL = "value.converter.schema.registry.url"
NAMES = ("country", "carrier", "created_at", "updated_at", "ssn")
AVRO = fastavro.parse_schema({
    "type": "record", "name": "Said", "namespace": "shop",
    "fields": [
        {"name": "n", "type": "long"}, *({"name": name, "type": "string"} for name in NAMES),
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
    ],
})  # fmt: skip
JSON_SCHEMA = {
    "type": "object", "title": "Said",
    "properties": {
        "n": {"type": "integer"}, **{name: {"type": "string"} for name in NAMES}, "tags": {"type": "array", "items": {"type": "number"}},
    },
}  # fmt: skip
PROTO = 'syntax = "proto3"; package shop; message Said { int64 n = 1; string country = 2; string ssn = 3; repeated int32 tags = 4; }'


def shown(n: int) -> dict[str, Any]:
    at = f"2024-01-{1 + n:02d}T10:00:00Z"
    return {"n": n, "country": "ch", "carrier": "x", "created_at": at, "updated_at": at, "ssn": "1"}


def avro(n: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, AVRO, {**shown(n), "at": START_MS + n, "price": n.to_bytes(2, "big"), "tags": {"a": n, "b": None}}
    )
    return out.getvalue()


def json_document(n: int) -> bytes:
    return json.dumps({**shown(n), "tags": [n, n / 3]}).encode()


def protobuf(n: int) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="said.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Said")
    for number, (name, kind, label) in enumerate([("n", 3, 1), ("country", 9, 1), ("ssn", 9, 1), ("tags", 5, 3)], 1):
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Said"))
    return b"\0" + made(n=n, country="ch", ssn="1", tags=[n, n + 1]).SerializeToString()  # type: ignore[no-any-return]  # the first message


SERIALIZERS: dict[str, tuple[Language, str, Callable[[int], bytes]]] = {
    "avro": (Language.AVRO, json.dumps(AVRO), avro),
    "json_schema": (Language.JSON, json.dumps(JSON_SCHEMA), json_document),
    "protobuf": (Language.PROTOBUF, PROTO, protobuf),
}


def values(settings: Settings, registry: EmbeddedRegistry) -> dict[str, list[bytes | None]]:
    """Eight values for each topic, as the configured converter reads them."""
    if settings.text("value.converter") not in REGISTRY_CONVERTERS:
        return {topic: [json_document(n) for n in range(8)] for topic in topics_of(settings)}
    language, schema, serialized = SERIALIZERS[settings.text("value.converter")]
    found: dict[str, list[bytes | None]] = {}
    for topic in topics_of(settings):
        number = registry.register(f"{topic}-value", schema, language).to_bytes(4, "big")
        found[topic] = [b"\0" + number + serialized(n) for n in range(8)]
    return found


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


def at(registry: EmbeddedRegistry, texts: Mapping[str, str], worker: Mapping[str, str] | None = None) -> Settings:
    """The configuration with the registry of the test."""
    placed = [{key: registry.url if key == URL else text for key, text in one.items()} for one in (texts, worker or {})]
    return resolved(validate(placed[0], worker=placed[1]).usable())


@pytest.mark.parametrize("name", TOLD_OF)
def test_every_published_configuration_is_clean_unless_its_bucket_is_damaged(
    name: str, registry: EmbeddedRegistry, s3: EmbeddedS3, bucket: str
) -> None:
    known = TOLD_OF[name]
    places = {"s3.bucket.name": bucket, "store.url": s3.endpoint_url} if known.flag("delta.enable") else {}
    settings = at(registry, {**known.source, **places}, known.worker)
    store: ObjectStore = S3Store(store_options(settings)) if places else MemoryStore()
    kafka = worked_off(settings, store, values(settings, registry))
    report = clean_and_not_when_damaged(settings, store, kafka)
    late = (
        settings.optional_text("consumer.override.auto.offset.reset") == "latest"
    )  # what was there before does not count
    assert [tally.written for tally in report.tallies] == [0 if late else 8] * len(topics_of(settings))


CONVERTERS = {
    "avro": "io.confluent.connect.avro.AvroConverter", "json_schema": "io.confluent.connect.json.JsonSchemaConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
}  # fmt: skip
FORMATS = {"JSON": "json.JsonFormat", "Avro": "avro.AvroFormat", "Parquet": "parquet.ParquetFormat"}
CHAIN = {
    "transforms": "add,leave", "transforms.add.type": f"{SMT}InsertField$Value", "transforms.add.offset.field": "o",
    "transforms.leave.type": f"{SMT}ReplaceField$Value", "transforms.leave.exclude": "ssn",
}  # fmt: skip
MEMORY = {
    **BASE, **TOLERANT, "name": "s", "topics": "t", "s3.bucket.name": "bucket", "kafka.bootstrap.servers": "memory:9092",
    "flush.size": "3", URL: "",
}  # fmt: skip
CHAINS = {"as they are": {}, "changed": CHAIN, "with metadata": {"record.metadata.enable": "true"}}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("converter", CONVERTERS)
@pytest.mark.parametrize("chain", CHAINS)
def test_values_of_a_registry_are_compared_in_json_and_counted_otherwise(
    converter: str, format: str, chain: str, registry: EmbeddedRegistry
) -> None:
    given = {**MEMORY, "value.converter": CONVERTERS[converter], "format.class": FORMAT + FORMATS[format]}
    given.pop("value.converter.schemas.enable")
    settings, store = at(registry, {**given, **CHAINS[chain]}), MemoryStore()
    kafka = worked_off(settings, store, values(settings, registry))
    report = clean_and_not_when_damaged(settings, store, kafka)
    assert [tally.compared for tally in report.tallies] == [8 if format == "JSON" else 0]


@pytest.mark.parametrize("mode", [{"schema.compatibility": "BACKWARD"}, {"schema.compatibility.unify": "true"}])
def test_values_that_are_fitted_to_the_schema_of_an_open_file_are_counted(
    mode: dict[str, str], registry: EmbeddedRegistry
) -> None:
    settings = at(registry, {**MEMORY, "value.converter": CONVERTERS["avro"], **mode})
    store = MemoryStore()
    given = values(settings, registry)
    wider = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": "string", "default": "none"}]}  # type: ignore[index]
    number = registry.register("t-value", json.dumps(wider), Language.AVRO).to_bytes(4, "big")
    given["t"][1] = b"\0" + number + avro(1) + b"\2x"
    kafka = worked_off(settings, store, given)
    report = clean_and_not_when_damaged(settings, store, kafka)
    assert report.notes == (
        "Values were counted, not compared: schema.compatibility fits values to the schema of the file that is open.",
    )


def test_where_the_registry_does_not_answer_values_are_counted_and_the_report_says_so() -> None:
    store = MemoryStore()
    with EmbeddedRegistry() as registry:
        settings = at(registry, {**MEMORY, "value.converter": CONVERTERS["avro"]})
        kafka = worked_off(settings, store, values(settings, registry))
    report = report_of(settings, store, kafka)
    assert (report.findings, report.tallies[0].kafka, report.tallies[0].compared) == ((), 8, 0)
    assert "Values were counted, not compared: the schema registry" in report.notes[0]
    assert registry.url in report.notes[0]
    store.delete(values_of(settings, store)[0].key)
    assert not report_of(settings, store, kafka).clean
