"""Whatever bytes Kafka holds: no converter raises, and every offset is a value, a null or a failure, once."""

from __future__ import annotations

import json
import resource
import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.avro import AvroPayloads
from kafka_s3.connect.converters.converter import Converter, KafkaBatch
from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
from kafka_s3.connect.converters.json_values import JsonColumns, JsonEnvelope, JsonTables, JsonValues
from kafka_s3.connect.converters.plain import NUMBERS, ByteArrayConverter, Numbers, Strings
from kafka_s3.connect.converters.protobuf import ProtobufPayloads
from kafka_s3.connect.converters.registry_values import MakeDecoder, RegistryValues, SchemaCatalog
from kafka_s3.connect.converters.whole_records import RecordConverter
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.connect.registry.options import SubjectNameStrategy
from kafka_s3.connect.schemas.avro_types import CONVERTER_OPTIONS
from kafka_s3.connect.schemas.connect import read_schema
from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions
from kafka_s3.connect.schemas.protobuf import ProtobufOptions
from kafka_s3.connect.schemas.protobuf_descriptors import message_type
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.errors import UnknownSchema
from kafka_s3.model.files import Role
from kafka_s3_testing.services.memory import HEADER
from tests.support.examples import examples

KNOWN = read_schema({
    "type": "struct",
    "fields": [{"field": "a", "type": "int64", "optional": True}, {"field": "b", "type": "string", "optional": True}],
})  # fmt: skip
AVRO = """{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"},
  {"name": "c", "type": {"type": "array", "items": ["string", "null"]}}, {"name": "d", "type": {"type": "int", "logicalType": "date"}},
  {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}}]}"""
MAPS = """{"type": "record", "name": "M", "fields": [{"name": "m", "type": {"type": "map", "values": "bytes"}},
  {"name": "u", "type": ["null", "long", "string"]}]}"""
JSON = """{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "array", "items":
  {"type": "number"}}, "d": {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes",
  "connect.parameters": {"scale": "2"}}}}"""
PROTO = """syntax = "proto3"; message R { int64 a = 1; string b = 2; repeated double c = 3; R.Inner d = 4; map<string, bytes> e = 5;
  message Inner { bool x = 1; } }"""
SCHEMAS = {
    Language.AVRO: {1: AVRO, 2: MAPS, 3: '"bytes"'},
    Language.JSON: {1: JSON, 2: '{"type": "object"}', 3: '{"type": "array", "items": {"type": "string"}}'},
    Language.PROTOBUF: {1: PROTO},
}


class Shelf:
    """A schema registry in memory."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def by_id(self, schema_id: int) -> RegisteredSchema:
        if schema_id not in SCHEMAS[self.language]:
            raise UnknownSchema(f"Schema {schema_id} not found.")
        return RegisteredSchema(self.language, SCHEMAS[self.language][schema_id])

    def by_guid(self, guid: str) -> RegisteredSchema:
        raise UnknownSchema(f"Schema {guid} not found.")

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        return 1

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        raise UnknownSchema(subject)


MAKERS: dict[Language, MakeDecoder] = {
    Language.AVRO: lambda schema, indexes, version: AvroPayloads(schema, CONVERTER_OPTIONS, version=version),
    Language.JSON: lambda schema, indexes, version: JsonSchemaPayloads(schema, JsonSchemaOptions(), version=version),
    Language.PROTOBUF: lambda schema, indexes, version: ProtobufPayloads(
        message_type(schema, indexes), ProtobufOptions(), version=version
    ),
}


@cache
def catalog(language: Language) -> SchemaCatalog:
    return SchemaCatalog(Shelf(language), language, SubjectNameStrategy.TOPIC, MAKERS[language])


def with_registry(language: Language, role: Role) -> Converter:
    return RegistryValues(catalog(language), "orders", role)


CONVERTERS: dict[str, Callable[[Role], Converter]] = {
    "json": lambda role: JsonValues(),
    "json with fields": lambda role: JsonValues([("a",), ("c", "d")]),
    "json tables": lambda role: JsonTables(),
    "json columns": lambda role: JsonColumns(KNOWN),
    "json envelope": lambda role: JsonEnvelope(),
    "string": lambda role: Strings(),
    "bytes": lambda role: ByteArrayConverter(),
    "avro": lambda role: with_registry(Language.AVRO, role),
    "json_schema": lambda role: with_registry(Language.JSON, role),
    "protobuf": lambda role: with_registry(Language.PROTOBUF, role),
}
REGISTERED = {"avro", "json_schema", "protobuf"}
for number in NUMBERS:
    CONVERTERS[number] = lambda role, number=number: Numbers(number)  # type: ignore[misc]

EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly) if name in NUMBERS and name != "long" else name
        for name in CONVERTERS
    ],
)
"""Of the numbers, which differ in their length, one stands for all by default."""

FRAMES = [b"\0" + struct.pack(">i", one) for one in (1, 2, 3, 99)] + [b"\x01" + bytes(range(16))]
ENVELOPE = json.dumps(
    {"schema": {"type": "struct", "fields": [{"field": "a", "type": "int8"}]}, "payload": {"a": 1}}
).encode()
DOCUMENTS = [
    b'{"a": 1, "b": "x", "c": [1.5, 2], "d": 1.25}',
    b'{"a": null, "c": {"d": 7}}',
    b'["x", "y"]',
    b'"text"',
    b"null",
    b'{"a": 123456789012345678901234567890, "d": 1e400}',
    b'{"a": 1e999999999, "d": 1e-999999999, "c": [' + b"9" * 5000 + b"]}",
    b'{"a": "\\ud800", "b": "\\udc00\\ud800"}',
    b'{"a": NaN, "b": Infinity}',
    b"[" * 3000,
    b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"schema": {"type": "array", "items": {"type": "int8"}}, "payload": [1, 300]}',
    b'{"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}}, "payload": "AA=="}',
    b'{"schema": ' + b'{"type": "array", "items": ' * 500 + b"1" + b"}" * 501,
    b'{"schema": {"type": "struct", "fields": {"a": 1}}, "payload": {}}',
    b'{"schema": {"type": "string", "default": 5, "optional": true}, "payload": null}',
    ENVELOPE,
]
BODIES = [
    b"\x02\x02x\x02\x00\x02y\x00\x08\x02",  # Avro
    b"\x02\x02k\x02v\x00\x02\x08",
    b"\x00\x08\x96\x01\x12\x01x\x22\x02\x08\x01",  # Protobuf, after its message index
    b"\x00\x12\x02\xff\xfe",
    b"\x02\x00\x08\x01",
    b"\x02\xfe\xff\xff\xff\x0f",
    b"\xff" * 20,
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
]
VALID = [
    *DOCUMENTS,
    *[frame + body for frame in FRAMES for body in [*BODIES, *DOCUMENTS[:4]]],
    *FRAMES,
    b"\0\1",
    b"\1",
    b"",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid message with something cut, put in or changed."""
    text = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, min(len(text), 400)))
        match draw(st.sampled_from(["cut", "insert", "change"])):
            case "cut":
                del text[place : place + draw(st.integers(1, 6))]
            case "insert":
                text[place:place] = draw(
                    st.binary(max_size=4) | st.sampled_from([b"{", b"]", b'"', b"\n", b"\xff", b"null"])
                )
            case _ if place < len(text):
                text[place] = draw(st.integers(0, 255))
    return bytes(text)


RAW = st.none() | st.binary(max_size=24) | mutated() | mutated()


def decode(converter: RecordConverter, values: list[bytes | None], keys: list[bytes | None]) -> Decoded:
    count = len(values)
    headers = pa.array([[]] * count, pa.list_(HEADER))
    batch = KafkaBatch(np.arange(count) * 2, np.zeros(count, np.int64), pa.array(values, pa.binary()), headers)
    return converter.decode_records(batch, pa.array(keys, pa.binary()))


def check(decoded: Decoded, count: int, stage: Stage) -> None:
    written = [int(offset) for run in decoded.runs for offset in run.offsets]
    assert all(run.offsets.tolist() == sorted(run.offsets.tolist()) for run in decoded.runs)
    assert sorted([*written, *decoded.nulls, *(failure.offset for failure in decoded.failures)]) == list(
        range(0, 2 * count, 2)
    )
    for failure in decoded.failures:
        assert failure.stage in (stage, Stage.TASK_PUT)
        assert failure.message
        assert failure.component
        assert failure.exception
    for run in decoded.runs:
        assert len(run.values) == len(run) == len(run.values.objects())


@EACH
@settings(max_examples=examples(60))
@given(values=st.lists(RAW, max_size=8))
def test_bad_values_are_failures_and_never_raise(name: str, values: list[bytes | None]) -> None:
    converter = RecordConverter(CONVERTERS[name](Role.VALUE))

    check(decode(converter, values, [None] * len(values)), len(values), Stage.VALUE_CONVERTER)


@EACH
@settings(max_examples=examples(25))
@given(keys=st.lists(RAW, max_size=8))
def test_bad_keys_are_failures_of_the_key_and_never_raise(name: str, keys: list[bytes | None]) -> None:
    converter = RecordConverter(Strings(), CONVERTERS[name](Role.KEY), frozenset({Role.KEY}))

    check(decode(converter, [b"v"] * len(keys), keys), len(keys), Stage.KEY_CONVERTER)


@pytest.mark.parametrize("name", CONVERTERS)
def test_every_known_message_beside_every_other(name: str) -> None:
    values: list[bytes | None] = [*VALID, None, *VALID[::-1]]
    converter = RecordConverter(CONVERTERS[name](Role.VALUE))

    check(decode(converter, values, [None] * len(values)), len(values), Stage.VALUE_CONVERTER)


@cache
def brackets(frame: bytes) -> tuple[bytes, ...]:
    return tuple(frame + text for text in (b"[" * 5_000_000, b'{"a":' * 1_000_000, b"[" * 2_500_000 + b"]" * 2_500_000))


@pytest.mark.parametrize(
    ("name", "frame"),
    [(name, FRAMES[0] if name in REGISTERED else b"") for name in CONVERTERS]
    + [pytest.param(name, b"" if name in REGISTERED else FRAMES[0], marks=pytest.mark.nightly) for name in CONVERTERS],
    ids=[f"{name} {how}" for how in ("as it reads it", "otherwise") for name in CONVERTERS],
)
def test_five_megabytes_of_brackets_are_one_failure_at_most(name: str, frame: bytes) -> None:
    for text in brackets(frame):
        values: list[bytes | None] = [text, None]
        check(decode(RecordConverter(CONVERTERS[name](Role.VALUE)), values, [None, None]), 2, Stage.VALUE_CONVERTER)


BEYOND = [
    b'{"schema": {"type": "float"}, "payload": 1' + b"0" * 400 + b"}",
    b'{"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1'
    + b"0" * 30
    + b'"}}, "payload": "AQ=="}',
    b'{"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1'
    + b"0" * 5000
    + b'"}}, "payload": "AQ=="}',
    b'{"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "-5"}}, "payload": 1e400}',
    b'{"schema": {"type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}}, "payload": {"a": "b"}}',
    b'{"schema": {"type": "string", "default": {}}, "payload": null}',
    b'{"schema": {"type": "int64", "default": 1e400}, "payload": null}',
    b'{"schema": {"type": "int32"}, "payload": 1e400}',
]


@pytest.mark.parametrize("document", BEYOND)
def test_an_envelope_of_unreasonable_numbers_is_a_failure_of_its_record(document: bytes) -> None:
    check(decode(RecordConverter(JsonEnvelope()), [ENVELOPE, document, ENVELOPE], [None] * 3), 3, Stage.VALUE_CONVERTER)


@pytest.mark.nightly
def test_a_record_of_fifty_megabytes_needs_a_bounded_multiple_of_its_size() -> None:
    text = b"x" * 50_000_000
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases: list[tuple[str, Callable[[], bytes]]] = [
        ("json", lambda: b'{"a": "' + text + b'"}'),
        ("json envelope", lambda: b'{"schema": {"type": "string"}, "payload": "' + text + b'"}'),
        ("avro", lambda: FRAMES[0] + b"\x02" + b"\x80\xc2\xd7\x2f" + text + b"\x00\x08\x02"),
        (
            "avro",
            lambda: FRAMES[0] + b"\x02" + b"\x80\x84\xaf\x5f" + text + b"\x00\x08\x02",
        ),  # it says to be longer than it is
        ("protobuf", lambda: FRAMES[0] + b"\x00\x12\x80\xe1\xeb\x17" + text),
        ("string", lambda: text),
        ("long", lambda: text),
    ]
    written: dict[str, int] = {}
    for name, made in cases:
        decoded = decode(RecordConverter(CONVERTERS[name](Role.VALUE)), [made()], [None])
        check(decoded, 1, Stage.VALUE_CONVERTER)
        written[name] = written.get(name, 0) + sum(map(len, decoded.runs))

    assert written == {"json": 1, "json envelope": 1, "avro": 1, "protobuf": 1, "string": 1, "long": 0}
    assert time.process_time() - begun < 60  # a square of the size would take hours
    grown: Any = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 12 * len(text)
