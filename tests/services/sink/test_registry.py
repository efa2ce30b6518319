"""Records of Confluent's own serializers, through a schema registry behind a password, Kafka and Spark, into objects that others read."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.json_format import ParseDict

from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.schemas.registered import Language
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.model.errors import RegistryError, RegistryUnavailable
from kafka_s3.model.files import Reason
from kafka_s3_testing.services.demo_records import (
    CARRIERS,
    PARTITIONS,
    SHIPMENTS_TOPIC,
    register_shipments,
    shipment_records,
)
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.bucket import Bucket
from tests.support.kafka import Given, produce
from tests.support.observers import Warnings
from tests.support.repository import ROOT
from tests.support.surroundings import Surroundings

USER_INFO = "sink:s3cret-of-the-registry"
CONVERTERS = {
    Language.AVRO: "io.confluent.connect.avro.AvroConverter",
    Language.JSON: "io.confluent.connect.json.JsonSchemaConverter",
    Language.PROTOBUF: "io.confluent.connect.protobuf.ProtobufConverter",
}
FORMAT = "io.confluent.connect.s3.format."
UNKNOWN_ID = b"\x00\x7f\xff\xff\xff"

MONEY = {
    "type": "record", "name": "Money", "namespace": "shop",
    "fields": [{"name": "cents", "type": "long"}, {"name": "currency", "type": "string"}],
}  # fmt: skip
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "price", "type": "shop.Money"},
        {"name": "weight", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "due", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "stock", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}
MONEY_REFERENCE = SchemaReference("shop.Money", "money", 1)

VISIT = {
    "title": "Visit", "type": "object", "required": ["page", "seconds"],
    "properties": {
        "page": {"type": "string"},
        "seconds": {"type": "number"},
        "clicks": {"type": "integer"},
        "user": {"type": "object", "properties": {"name": {"type": "string"}, "admin": {"type": "boolean"}}},
        "path": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip

PROTOS = {
    "money.proto": """
        syntax = "proto3"; package shop;
        message Money { int64 cents = 1; string currency = 2; }""",
    "cart.proto": """
        syntax = "proto3"; package shop;
        import "money.proto"; import "google/protobuf/timestamp.proto";
        message Other { string text = 1; }
        message Cart {
          enum State { OPEN = 0; BOUGHT = 1; }
          message Line { string product = 1; uint32 quantity = 2; Money price = 3; }
          string id = 1; repeated Line lines = 2; map<string, int32> stock = 3; State state = 4;
          google.protobuf.Timestamp at = 5; optional string note = 6;
        }""",
}


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(basic_auth=USER_INFO) as server:
        yield server


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": USER_INFO}) as confluent:
        yield confluent


def reading(registry: EmbeddedRegistry, language: Language, **more: str) -> dict[str, str]:
    """The keys of a sink that reads through the registry and goes on after bad records."""
    return {
        "value.converter": CONVERTERS[language],
        "value.converter.schema.registry.url": registry.url,
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": USER_INFO,
        "flush.size": "100",
        "errors.tolerance": "all",
        **more,
    }


def serialized(topic: str, serializer: Any, values: Sequence[Any]) -> list[bytes]:
    return [serializer(value, SerializationContext(topic, MessageField.VALUE)) for value in values]


def avro_serializer(client: SchemaRegistryClient, schema: Mapping[str, Any]) -> AvroSerializer:
    client.register_schema("money", Schema(json.dumps(MONEY), "AVRO"))
    return AvroSerializer(client, Schema(json.dumps(schema), "AVRO", [MONEY_REFERENCE]))


def order(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"Zoë {number}" if number % 2 else None,
        "state": "PAID" if number % 3 else "NEW",
        "price": {"cents": number * 101, "currency": "EUR"},
        "weight": Decimal(number * 7).scaleb(-2),
        "at": datetime(2025, 3, 14, 9, 26, 53, number * 1000, UTC),
        "due": date(2025, 4, number + 1),
        "tags": [f"t{n}" for n in range(number % 3)],
        "stock": {"berlin": number, "paris": -number},
        **more,
    }


def parquet_rows(content: bytes) -> list[dict[str, Any]]:
    return [{**row, "stock": dict(row["stock"])} for row in pq.read_table(io.BytesIO(content)).to_pylist()]


def avro_rows(content: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(content)))


def objects(bucket: Bucket, rows: Callable[[bytes], list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The records of every data object, by its file name."""
    return {key.rpartition("/")[2]: rows(bucket.get(key)) for key in bucket.data_keys()}


def dead(bucket: Bucket, sink: str) -> list[tuple[int, str, bytes]]:
    """Offset, stage and value of every dead letter."""
    lines = bucket.dead_letters(sink)
    return sorted((line["offset"], line["stage"], base64.b64decode(line["value"])) for line in lines)


@pytest.mark.parametrize(
    ("format_class", "extension", "rows"),
    [
        (FORMAT + "parquet.ParquetFormat", "snappy.parquet", parquet_rows),
        (FORMAT + "avro.AvroFormat", "avro", avro_rows),
    ],
    ids=["parquet", "avro"],
)
def test_avro_of_two_versions_with_a_reference_arrives_as_it_was_sent_and_bad_records_do_not(
    here: Surroundings,
    topic: Callable[..., str],
    registry: EmbeddedRegistry,
    client: SchemaRegistryClient,
    *,
    format_class: str,
    extension: str,
    rows: Callable[[bytes], list[dict[str, Any]]],
) -> None:
    name = topic("avro")
    first, second = [order(n) for n in range(5)], [order(n, note=f"n{n}") for n in range(5, 9)]
    old = serialized(name, avro_serializer(client, ORDER), first)
    new = serialized(name, avro_serializer(client, ORDER_2), second)
    bad = [b"\x01" + old[0][1:], UNKNOWN_ID + old[0][5:], old[4][:-4], b"\x00\x00"]
    produce(
        here.servers, name, [Given(v) for v in (*old[:2], bad[0], *old[2:], bad[1], *new[:3], bad[2], new[3], bad[3])]
    )
    config = here.config(name, **reading(registry, Language.AVRO, **{"format.class": format_class, "flush.size": "4"}))
    here.drain(config)

    assert objects(here.bucket, rows) == {
        f"{name}+0+0000000000.{extension}": first[:4],
        f"{name}+0+0000000005.{extension}": first[4:],
        f"{name}+0+0000000007.{extension}": second,
    }
    offsets = (2, 6, 10, 12)
    assert dead(here.bucket, config["name"]) == [
        (at, "VALUE_CONVERTER", value) for at, value in zip(offsets, bad, strict=True)
    ]
    assert here.bucket.entries(config["name"])[-1]["totals"]["read"] == len(old + new + bad)


def test_json_schema_arrives_as_json(
    here: Surroundings, topic: Callable[..., str], registry: EmbeddedRegistry, client: SchemaRegistryClient
) -> None:
    name = topic("visits")
    visits = [
        {"page": "/", "seconds": 1.5, "clicks": 3, "user": {"name": "Zoë", "admin": True}, "path": ["/", "/a"]},
        {"page": "/a", "seconds": 0.25},
        {"page": "/b", "seconds": 2.0, "clicks": 2**53, "user": {"name": "抹茶"}, "path": []},
    ]
    good = serialized(name, JSONSerializer(json.dumps(VISIT), client), visits)
    bad = [good[0][:-2], UNKNOWN_ID + good[0][5:], good[0][5:]]
    produce(here.servers, name, [Given(value) for value in (good[0], bad[0], good[1], *bad[1:], good[2])])
    optional = {"value.converter.use.optional.for.nonrequired": "true"}
    config = here.config(name, **reading(registry, Language.JSON, **optional))
    here.drain(config)

    complete = {"clicks": None, "user": None, "path": None}
    expected = [{**complete, **visit} for visit in visits]
    expected[2]["user"] = {"name": "抹茶", "admin": None}
    assert objects(here.bucket, lambda content: [json.loads(line) for line in content.splitlines()]) == {
        f"{name}+0+0000000000.json": expected
    }
    assert dead(here.bucket, config["name"]) == [
        (at, "VALUE_CONVERTER", value) for at, value in zip((1, 3, 4), bad, strict=True)
    ]


def test_protobuf_with_nested_and_imported_messages_arrives_as_parquet(
    here: Surroundings,
    topic: Callable[..., str],
    registry: EmbeddedRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    name = topic("carts")
    cart = message_classes(tmp_path)["shop.Cart"]
    lines = [{"product": "Kännchen", "quantity": 2, "price": {"cents": 1250, "currency": "EUR"}}, {"product": "Tee"}]
    carts = [
        {"id": "a", "lines": lines, "stock": {"x": 1, "y": -2}, "state": "BOUGHT", "at": "2025-03-14T09:26:53.589Z"},
        {"id": "b", "note": ""},
        {"id": "c", "lines": lines[:1], "note": "gift"},
    ]
    serializer = ProtobufSerializer(cart, client, {"use.deprecated.format": False})
    good = serialized(name, serializer, [ParseDict(document, cart()) for document in carts])
    bad = [good[0][:-3], UNKNOWN_ID + good[0][5:], b"\x05" + good[0][1:]]
    produce(here.servers, name, [Given(value) for value in (*good[:2], *bad, good[2])])
    config = here.config(
        name, **reading(registry, Language.PROTOBUF, **{"format.class": FORMAT + "parquet.ParquetFormat"})
    )
    here.drain(config)

    full = [lines[0], {"product": "Tee", "quantity": 0, "price": None}]
    at = datetime(2025, 3, 14, 9, 26, 53, 589_000, UTC)
    assert objects(here.bucket, parquet_rows) == {
        f"{name}+0+0000000000.snappy.parquet": [
            {"id": "a", "lines": full, "stock": {"x": 1, "y": -2}, "state": "BOUGHT", "at": at, "note": None},
            {"id": "b", "lines": [], "stock": {}, "state": "OPEN", "at": None, "note": ""},
            {"id": "c", "lines": full[:1], "stock": {}, "state": "OPEN", "at": None, "note": "gift"},
        ]
    }
    assert dead(here.bucket, config["name"]) == [
        (at, "VALUE_CONVERTER", value) for at, value in zip((2, 3, 4), bad, strict=True)
    ]


TREE = {
    "type": "record", "name": "Tree", "namespace": "shop",
    "fields": [
        {"name": "v", "type": "int"},
        {"name": "children", "type": {"type": "array", "items": "Tree"}},
        {"name": "next", "type": ["null", "Tree"], "default": None},
    ],
}  # fmt: skip


def node(v: int, *children: Any, after: Any = None) -> dict[str, Any]:
    return {"v": v, "children": list(children), "next": after}


@pytest.mark.parametrize(
    ("format_class", "extension", "rows"),
    [
        (FORMAT + "json.JsonFormat", "json", lambda content: [json.loads(line) for line in content.splitlines()]),
        (FORMAT + "avro.AvroFormat", "avro", avro_rows),
    ],
    ids=["json", "avro"],
)
def test_values_of_a_type_that_contains_itself_arrive_in_a_file_that_two_runs_write(
    here: Surroundings,
    topic: Callable[..., str],
    registry: EmbeddedRegistry,
    client: SchemaRegistryClient,
    *,
    format_class: str,
    extension: str,
    rows: Callable[[bytes], list[dict[str, Any]]],
) -> None:
    name = topic("trees")
    trees = [node(1, node(2), node(3, after=node(4))), node(5), node(6, after=node(7, node(8)))]
    payloads = serialized(name, AvroSerializer(client, Schema(json.dumps(TREE), "AVRO")), trees)
    changes = {
        "transforms": "h",
        "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.h.field": "tree",
    }
    config = here.config(name, **reading(registry, Language.AVRO, **changes, **{"format.class": format_class}))
    produce(here.servers, name, [Given(value) for value in payloads[:2]])
    here.drain(config, close=None)
    produce(here.servers, name, [Given(payloads[2])])
    here.drain(config)

    assert objects(here.bucket, rows) == {f"{name}+0+0000000000.{extension}": [{"tree": tree} for tree in trees]}
    assert dead(here.bucket, config["name"]) == []


def test_a_sink_waits_for_a_registry_that_is_down_and_commits_nothing_until_it_is_back(
    here: Surroundings, topic: Callable[..., str], registry: EmbeddedRegistry, client: SchemaRegistryClient
) -> None:
    name = topic("down")
    orders = [order(n) for n in range(4)]
    produce(here.servers, name, [Given(value) for value in serialized(name, avro_serializer(client, ORDER), orders)])
    config = here.config(name, **reading(registry, Language.AVRO, **{"format.class": FORMAT + "avro.AvroFormat"}))
    registry.stop()
    with pytest.raises(RegistryUnavailable):  # by default it stops once the client's own retries are used up
        here.drain(config)
    assert here.bucket.data_keys() == []
    config["errors.retry.timeout"] = "-1"
    warnings, found = Warnings(), []

    def wait(_: int) -> bool:
        kinds = [entry["kind"] for entry in here.bucket.entries(config["name"])]
        found.append((here.bucket.data_keys(), here.bucket.dead_letters(config["name"]), "data" in kinds))
        registry.start()
        return len(found) > 3

    run_available_now(here.sink(config, observer=warnings), backoff_ms=100, wait=wait, close=Reason.FLUSH_NOW)
    assert found == [([], [], False)]
    assert registry.url in warnings.texts[0]
    assert objects(here.bucket, avro_rows) == {f"{name}+0+0000000000.avro": orders}
    assert here.bucket.dead_letters(config["name"]) == []


def test_a_registry_that_refuses_the_password_stops_the_sink_and_the_password_stays_secret(
    here: Surroundings, topic: Callable[..., str], registry: EmbeddedRegistry, client: SchemaRegistryClient
) -> None:
    name = topic("refused")
    produce(
        here.servers, name, [Given(value) for value in serialized(name, avro_serializer(client, ORDER), [order(1)])]
    )
    wrong = {"value.converter.basic.auth.user.info": "sink:wr0ng-password"}
    config = here.config(name, **reading(registry, Language.AVRO, **wrong))
    sink = here.sink(config)
    with pytest.raises(RegistryError, match="401") as raised:
        run_available_now(sink, backoff_ms=100, wait=waiting(Event()), close=Reason.FLUSH_NOW)
    assert "wr0ng-password" not in str(raised.value)
    assert here.bucket.data_keys() == []
    assert here.bucket.dead_letters(config["name"]) == []


def test_records_whose_schema_a_header_names_arrive_among_those_that_name_it_themselves(
    here: Surroundings, topic: Callable[..., str], registry: EmbeddedRegistry, client: SchemaRegistryClient
) -> None:
    name = topic("headers")
    orders = [order(number) for number in range(6)]
    framed = serialized(name, avro_serializer(client, ORDER), orders)
    header = lambda value: (("trace", b"1"), ("__value_schema_id", value[:5]))  # noqa: E731
    records = [Given(v[5:], headers=header(v)) if number % 2 else Given(v) for number, v in enumerate(framed)]
    produce(here.servers, name, records)
    for tolerance in ("none", "all"):  # with it, headers are read in any case
        more = {"errors.tolerance": tolerance, "name": f"sink-{tolerance}-{here.bucket.name}", "topics.dir": tolerance}
        here.drain(here.config(name, **{**reading(registry, Language.AVRO), **more}))
    rows = [[row["id"] for row in here.bucket.rows(key)] for key in here.bucket.data_keys()]
    assert rows == [list(range(6))] * 2


def test_the_demos_shipments_of_two_schema_versions_share_files_and_all_arrive(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic(SHIPMENTS_TOPIC, PARTITIONS)
    with EmbeddedRegistry() as registry:
        sent = list(shipment_records(register_shipments(registry), 1_500))
        produce(
            here.servers, name, [Given(r.message.value, r.partition, r.message.timestamp, r.message.key) for r in sent]
        )
        example = read_config(ROOT / "examples" / "shipments.json").texts
        places = {**here.places(), "topics": name, "value.converter.schema.registry.url": registry.url}
        here.drain({**example, **places, "errors.deadletterqueue.topic.name": ""})

    keys = [key for key in here.bucket.data_keys() if "/_delta_log/" not in key]
    tables = {key: pq.read_table(io.BytesIO(here.bucket.get(key))) for key in keys}
    rows = [(key.split("/")[2], row) for key, table in tables.items() for row in table.to_pylist()]
    assert sorted(row["shipment_id"].encode() for _, row in rows) == [r.message.key for r in sent if not r.malformed]
    assert all(folder == f"carrier={row['carrier']}" for folder, row in rows)
    assert len(tables) == len(CARRIERS) * PARTITIONS
    assert {letter["stage"] for letter in here.bucket.dead_letters(example["name"])} == {"VALUE_CONVERTER"}


def message_classes(folder: Path) -> dict[str, Any]:
    """The messages of PROTOS, compiled as every producer does it."""
    from grpc_tools import protoc

    for file, text in PROTOS.items():
        (folder / file).write_text(text)
    compiled = folder / "descriptors"
    include = files("grpc_tools") / "_proto"
    words = [
        "protoc",
        f"-I{folder}",
        f"-I{include}",
        "--include_imports",
        f"--descriptor_set_out={compiled}",
        "cart.proto",
    ]
    assert protoc.main(words) == 0
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    return dict(message_factory.GetMessages(descriptors.file))
