"""Records that become far more values than they have bytes are dead letters, whatever the converter; their neighbours are read."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_s3.connect.converters.avro import AvroPayloads
from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
from kafka_s3.connect.converters.json_values import JsonColumns, JsonEnvelope
from kafka_s3.connect.converters.protobuf import ProtobufPayloads
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.avro_values import long_bytes
from kafka_s3.connect.schemas.connect import SchemaError, read_schema
from kafka_s3.connect.schemas.expansion import AT_ONCE, TooManyValues, most_values, most_values_of_each
from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions
from kafka_s3.connect.schemas.protobuf import ProtobufOptions
from kafka_s3.connect.schemas.protobuf_descriptors import message_type
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema

WIDE = 200


def wide(name: str = "I", width: int = WIDE, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{number}", "type": ["null", "long"]} | more for number in range(width)],
    }


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


def avro(schema: Any) -> AvroPayloads:
    return AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(schema)), AvroOptions(), version=None)


def items(count: int, item: bytes = b"\0") -> bytes:
    return long_bytes(count) + item * count + b"\0"


def slow(schema: Any) -> Any:
    """The schema with a field of no bytes, which no columns hold."""
    return schema | {"fields": [*schema["fields"], {"name": "z", "type": {"type": "fixed", "name": "Z", "size": 0}}]}


EMPTY = {"type": "record", "name": "E", "fields": []}
HOLLOW = {
    "type": "record",
    "name": "H",
    "fields": [{"name": f"f{n}", "type": EMPTY if not n else "E"} for n in range(WIDE)],
}
AVRO: dict[str, tuple[Any, bytes, bytes]] = {
    "null records of an array": (record({"type": "array", "items": ["null", wide()]}), b"\0", items(20_000)),
    "null records of a map": (record({"type": "map", "values": ["null", wide()]}), b"\0", items(20_000, b"\0\0")),
    "nulls in one field of the items": (
        record({"type": "array", "items": record(["null", wide()]) | {"name": "O"}}), b"\0", items(20_000),
    ),
    "nulls of a record that takes no columns": (
        record({"type": "array", "items": ["null", {"type": "fixed", "name": "F", "size": 0}, wide()]}), b"\0", items(20_000),
    ),
    "empty records": (record({"type": "array", "items": EMPTY}), b"\0", long_bytes(1 << 40) + b"\0"),
    "records of empty records, in arrays of arrays": (
        record({"type": "array", "items": {"type": "array", "items": HOLLOW}}), b"\0", items(20_000, long_bytes(90) + b"\0"),
    ),
    "nulls that stand for long defaults": (
        record(
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "D",
                    "fields": [{"name": "d", "type": ["null", {"type": "string", "connect.default": "x" * 1000}]}],
                },
            }
        ),
        b"\0",
        items(20_000),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.nightly if "arrays of arrays" in name else ()) for name in AVRO]
)
def test_an_avro_record_of_few_bytes_and_many_values_is_a_failure_and_its_neighbours_are_read(case: str) -> None:
    schema, good, bad = AVRO[case]
    decoder = avro(schema)
    tracemalloc.start()
    found = decoder.decode_payloads(pa.array([good, bad, good], pa.binary()))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.rows.tolist() == [0, 2]
    assert [row for row, _ in found.failures] == [1]
    assert "would become more than" in found.failures[0][1]
    assert most < 100 << 20


@pytest.mark.parametrize("extra", [0, 1])
def test_the_compiled_loop_and_the_slow_path_agree_where_the_bound_is(extra: int) -> None:
    schema, each = record({"type": "array", "items": ["null", wide()]}), WIDE + 1
    most = max(count for count in range(1000) if count * each <= most_values(len(items(count))))
    payload = pa.array([items(most + extra)], pa.binary())

    found = avro(schema).decode_payloads(payload)
    beside = avro(slow(schema)).decode_payloads(payload)

    assert len(found.rows) == len(beside.rows) == 1 - extra


def test_the_bound_is_the_same_for_one_record_and_for_many() -> None:
    sizes = np.array([0, 1, 100, 8_000, 8_200, 131_072, 131_073, 1 << 20, 1 << 28])

    assert most_values_of_each(sizes).tolist() == [most_values(int(size)) for size in sizes]
    assert most_values(1 << 20) == 8 << 20


def test_an_ordinary_sparse_record_is_read() -> None:
    """Three thousand items, of 200 columns each nested once more, with two values in each."""
    item = {
        "type": "record",
        "name": "O",
        "fields": [{"name": "id", "type": "long"}, {"name": "i", "type": ["null", wide()]}],
    }
    decoder = avro(record({"type": "array", "items": item}))

    found = decoder.decode_payloads(pa.array([items(3000, b"\x02\0")], pa.binary()))

    assert not found.failures
    assert len(found.values.objects()[0]["a"]) == 3000


@pytest.mark.parametrize("path", [dict, slow], ids=["in columns", "one by one"])
def test_many_records_that_are_each_within_the_bound_are_not_held_at_once(path: Callable[[Any], Any]) -> None:
    decoder, payload = avro(path(record({"type": "array", "items": ["null", wide(width=100)]}))), items(5_000)
    several = AT_ONCE // (5_000 * 100)

    assert len(decoder.decode_payloads(pa.array([payload] * several, pa.binary())).rows) == several
    with pytest.raises(TooManyValues):
        decoder.decode_payloads(pa.array([payload] * (several + 1), pa.binary()))


def test_a_schema_whose_types_multiply_is_refused_before_it_has_columns() -> None:
    schema: Any = "long"
    for level in range(8):
        first, *others = [schema, *[f"T{level - 1}" if level else "long"] * 9]
        fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate([first, *others])]
        schema = {"type": "record", "name": f"T{level}", "fields": fields}

    with pytest.raises(SchemaError, match="more than 100,000 parts"):
        avro(schema)


FIELDS = " ".join(f"optional int64 f{n} = {n + 1};" for n in range(WIDE))
PROTO = f'syntax = "proto3"; message R {{ repeated I a = 1; map<string, I> m = 2; }} message I {{ {FIELDS} }}'


def protobuf(text: str = PROTO, **options: bool) -> ProtobufPayloads:
    descriptor = message_type(RegisteredSchema(Language.PROTOBUF, text), (0,))
    return ProtobufPayloads(descriptor, ProtobufOptions(**options), version=None)


@pytest.mark.parametrize(
    "item", [b"\x0a\0", b"\x12\0", b"\x0b\x0c\x0a\0"], ids=["items", "entries of a map", "among groups"]
)
def test_a_protobuf_record_of_empty_messages_is_a_failure_before_it_is_parsed(item: bytes) -> None:
    found = protobuf().decode_payloads(pa.array([b"\x0a\0", item * 20_000, b""], pa.binary()))

    assert found.rows.tolist() == [0, 2]
    assert "would become more than" in found.failures[0][1]


def test_protobuf_messages_that_may_become_many_values_are_not_held_at_once() -> None:
    with pytest.raises(TooManyValues):
        protobuf().decode_payloads(pa.array([b"\x0a\0" * 2_000] * 100, pa.binary()))
    assert len(protobuf().decode_payloads(pa.array([b"\x0a\0" * 2_000], pa.binary())).rows) == 1


def test_malformed_protobuf_is_still_what_the_parser_says() -> None:
    for end in (b"\x0a", b"\x0a\xff", b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f"):
        found = protobuf().decode_payloads(pa.array([b"\x0a\0" * 2_000 + end], pa.binary()))
        assert "The bytes are no Protobuf message R" in found.failures[0][1]


def test_a_protobuf_schema_whose_types_multiply_is_refused() -> None:
    types = [
        f"message T{level} {{ "
        + " ".join(f"{f'T{level + 1}' if level < 8 else 'int64'} f{n} = {n + 1};" for n in range(10))
        + " }"
        for level in range(9)
    ]
    with pytest.raises(SchemaError, match="more than 100,000 parts"):
        protobuf('syntax = "proto3"; ' + " ".join(types))


def kafka(*values: bytes) -> KafkaBatch:
    return KafkaBatch(np.arange(len(values)), np.zeros(len(values), np.int64), pa.array(values, pa.binary()))


ITEM = {"type": "struct", "fields": [{"field": f"f{n}", "type": "int64", "optional": True} for n in range(WIDE)]}
CONNECT = {"type": "struct", "fields": [{"field": "a", "type": "array", "items": ITEM}]}
EMPTY_OBJECTS = {"a": [{}] * 20_000}


def test_json_with_an_envelope_of_empty_objects_is_a_failure() -> None:
    envelopes = [
        json.dumps({"schema": CONNECT, "payload": payload}).encode() for payload in ({"a": [{}]}, EMPTY_OBJECTS)
    ]
    found = JsonEnvelope().decode(kafka(*envelopes))

    assert [run.offsets.tolist() for run in found.runs] == [[0]]
    assert "would become more than" in found.failures[0].message


def test_json_under_a_schema_of_ours_of_empty_objects_is_a_failure() -> None:
    documents = [json.dumps(payload).encode() for payload in ({"a": [{}]}, EMPTY_OBJECTS)]
    found = JsonColumns(read_schema(CONNECT)).decode(kafka(*documents))

    assert [run.offsets.tolist() for run in found.runs] == [[0]]
    assert "would become more than" in found.failures[0].message


@pytest.mark.parametrize("form", ["array", "map"])
def test_json_of_a_registered_schema_of_empty_objects_is_a_failure(form: str) -> None:
    inner = {"type": "object", "properties": {f"f{n}": {"type": "integer"} for n in range(WIDE)}}
    kind = {"type": "array", "items": inner} if form == "array" else {"type": "object", "additionalProperties": inner}
    schema = {"type": "object", "properties": {"a": kind}}
    options = JsonSchemaOptions(optional_for_nonrequired=True)
    decoder = JsonSchemaPayloads(RegisteredSchema(Language.JSON, json.dumps(schema)), options)
    many: Any = [{}] * 20_000 if form == "array" else {f"{n:x}": {} for n in range(20_000)}

    found = decoder.decode_payloads(pa.array([json.dumps({"a": many}).encode(), b"{}"], pa.binary()))

    assert found.rows.tolist() == [1]
    assert "would become more than" in found.failures[0][1]


def test_schemas_of_envelopes_are_forgotten_where_every_record_brings_another() -> None:
    converter = JsonEnvelope()
    for number in range(40):
        schema = {"type": "struct", "name": f"S{number}" + "x" * 1_000_000, "fields": []}
        converter.decode(kafka(json.dumps({"schema": schema, "payload": {}}).encode()))

    assert len(converter._schemas) < 20
