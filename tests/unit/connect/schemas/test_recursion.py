"""Types that contain themselves: read by every converter, written as JSON and Avro, named where they cannot be held."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import json_format as protobuf_json
from google.protobuf import message_factory

from kafka_s3.connect.converters.avro import AvroPayloads
from kafka_s3.connect.converters.converter import PayloadDecoder
from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
from kafka_s3.connect.converters.protobuf import ProtobufPayloads
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.avro_schemas import avro_schema, connect_schema_of_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.avro_values import decoder, encoder
from kafka_s3.connect.schemas.compatibility import (
    Compatibility,
    SchemaDecision,
    mismatch,
    projection,
    schema_decision,
    unified,
)
from kafka_s3.connect.schemas.connect import ConnectSchema, Recursion, SchemaError, schema_document, stored_schema
from kafka_s3.connect.schemas.expansion import MOST_LEVELS
from kafka_s3.connect.schemas.json_form import dumps, has_decimal, to_json
from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions
from kafka_s3.connect.schemas.protobuf import ProtobufOptions
from kafka_s3.connect.schemas.protobuf_descriptors import message_type
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.connect.transforms.fields import Flatten
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, Refused
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.format import Format
from kafka_s3.objects.parquet import parquet_format
from kafka_s3.objects.text import json_format
from tests.support.protobuf import PROTO3, registered

SINK: Final = AvroOptions()
JSON_LINES: Final = json_format(gzip_level=None, decimals="BASE64")
PARQUET: Final = parquet_format("none", SINK)
NODE: Final = {"name": "children", "type": {"type": "array", "items": "Tree"}, "default": []}
MAYBE: Final = {"name": "next", "type": ["null", "Tree"], "default": None}


def tree(*more: Any) -> dict[str, Any]:
    fields = [{"name": "v", "type": "int"}, NODE, MAYBE, *more]
    return {"type": "record", "name": "Tree", "namespace": "org", "fields": fields}


def connect(avro: Any, version: int | None = None) -> ConnectSchema:
    schema = connect_schema_of_avro(avro, options=SINK, version=version)
    assert schema is not None
    return schema


def node(v: int, *children: Any, after: Any = None) -> dict[str, Any]:
    return {"v": v, "children": list(children), "next": after}


VALUE: Final = node(1, node(2), node(3, node(4), after=node(5)), after=node(6))


def avro_case() -> tuple[PayloadDecoder, bytes]:
    payload = encoder(connect(tree()), avro_schema(connect(tree()), options=SINK))(VALUE)
    return AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(tree())), SINK, version=1), payload


def protobuf_case() -> tuple[PayloadDecoder, bytes]:
    body = 'import "google/protobuf/struct.proto"; message M { google.protobuf.Struct a = 1; google.protobuf.Struct b = 2; }'
    descriptor = message_type(registered(PROTO3 + body), (0,))
    message = message_factory.GetMessageClass(descriptor)()
    protobuf_json.ParseDict({"a": {"x": [1, "t", {"y": None}]}}, message)
    return ProtobufPayloads(descriptor, ProtobufOptions(), version=1), message.SerializeToString()


TREE_DOCUMENT: Final = {
    "title": "Tree",
    "type": "object",
    "properties": {
        "v": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#"}},
        "next": {"$ref": "#/definitions/maybe"},
    },
    "definitions": {"maybe": {"oneOf": [{"type": "null"}, {"$ref": "#"}]}},
}


def json_schema_case() -> tuple[PayloadDecoder, bytes]:
    return json_payloads(TREE_DOCUMENT), json.dumps(VALUE).encode()


def json_payloads(document: Any) -> JsonSchemaPayloads:
    options = JsonSchemaOptions(optional_for_nonrequired=True)
    return JsonSchemaPayloads(RegisteredSchema(Language.JSON, json.dumps(document)), options)


CASES: Final = pytest.mark.parametrize("case", [avro_case, protobuf_case, json_schema_case])
Case = Callable[[], tuple[PayloadDecoder, bytes]]


def run_of_case(case: Case) -> Run:
    payloads, payload = case()
    decoded = payloads.decode_payloads(pa.array([payload], pa.binary()))
    assert decoded.failures == []
    return Run(np.zeros(1, np.int64), np.zeros(1, np.int64), decoded.values, payloads.schema)


def written(form: Format, run: Run) -> bytes:
    values = form.accept(run)
    assert not isinstance(values, str), values
    file = form.open(run.schema)
    file.append(values)
    file.finish()
    return bytes(file.take())


@CASES
def test_a_value_is_one_line_of_json(case: Case) -> None:
    run = run_of_case(case)
    line = json.loads(written(JSON_LINES, run))
    if case is protobuf_case:
        kinds = line["a"]["fields"]["x"]["kind_0"]["list_value"]["values"]
        assert [next(v for v in kind["kind_0"].values() if v is not None) for kind in kinds[:2]] == [1.0, "t"]
        assert line["b"] is None
    else:
        assert line == VALUE


@CASES
def test_a_value_reads_back_from_avro(case: Case) -> None:
    run = run_of_case(case)
    avro = avro_schema(run.schema, options=SINK)
    (value,) = run.values.objects()
    back = connect_schema_of_avro(avro, options=SINK)
    assert back is not None
    body = encoder(run.schema, avro)(value)
    assert body in written(avro_format("null", SINK), run)
    assert json.dumps(to_json(decoder(avro, back)(body), back)) == json.dumps(to_json(value, run.schema or back))


def test_avro_defines_a_type_once_and_refers_to_it() -> None:
    avro = avro_schema(connect(tree(), version=3), options=SINK)
    assert [member["type"] for member in avro["fields"]] == [
        "int",
        {"type": "array", "items": "Tree"},
        ["null", "Tree"],
    ]
    untitled = {key: value for key, value in TREE_DOCUMENT.items() if key != "title"}
    inner = avro_schema(json_payloads(untitled).schema, options=SINK)["fields"][1]["type"][1]["items"]
    assert (inner["name"], inner["fields"][1]["type"][1]["items"]) == ("ConnectDefault2", "ConnectDefault2")


@pytest.mark.parametrize(
    ("case", "named"),
    [
        (avro_case, r"a type that contains itself: org\.Tree \(children\[\]\)"),
        (protobuf_case, r"a type that contains itself: Struct \(a\.fields\[\]\.kind_0\.struct_value\)"),
        (json_schema_case, r"a type that contains itself: Tree \(children\[\]\)"),
    ],
)
def test_parquet_names_the_type_and_the_field(case: Case, named: str) -> None:
    refusal = PARQUET.accept(run_of_case(case))
    assert isinstance(refusal, str)
    with pytest.raises(SchemaError, match=named):
        raise SchemaError(refusal)


@CASES
def test_a_schema_is_finite_and_reads_back_equal(case: Case) -> None:
    schema = case()[0].schema
    assert schema is not None
    stored = stored_schema(json.loads(json.dumps(schema_document(schema))))
    assert (stored, hash(stored)) == (schema, hash(schema))
    assert stored is not schema
    assert "Recursion" in repr(stored)
    assert not has_decimal(schema)
    (value,) = run_of_case(case).values.objects()
    assert to_json(value, stored) == to_json(value, schema)


def test_schemas_differ_if_their_types_differ_within() -> None:
    wider = tree({"name": "w", "type": ["null", "string"], "default": None})
    one, other = connect(tree()).field("next"), connect(wider).field("next")
    assert one is not None
    assert other is not None
    assert one.schema == connect(tree()).fields[2].schema
    assert one.schema != other.schema


def test_a_newer_version_of_a_type_takes_the_values_of_an_older_one() -> None:
    old, new = connect(tree(), 1), connect(tree({"name": "w", "type": "string", "default": "x"}), 2)
    assert (mismatch(old, new), mismatch(new, old)) == (None, None)
    assert schema_decision(old, new, Compatibility.BACKWARD) is SchemaDecision.PROJECT
    projected = projection(old, new)(VALUE)
    assert projected["children"][1]["next"] == {**node(5), "w": "x"}
    assert projection(new, old)(projected) == VALUE
    number = {**tree(), "fields": [{"name": "v", "type": "string"}, NODE, MAYBE]}
    assert mismatch(connect(number, 1), new) == "value.v: string cannot become int32"
    assert unified(old, new) is None
    assert unified(old, connect(tree(), 2)) == connect(tree(), 2)


def test_flatten_refuses_a_type_without_end() -> None:
    record = ConnectRecord("t", 0, 0, None, None, None, VALUE, connect({**tree(), "fields": [MAYBE]}))
    with pytest.raises(Refused, match=r"contain themselves \(for field next\)"):
        Flatten(RecordPart.VALUE, ".").apply(record)


def test_types_that_all_contain_each_other_are_each_written_out_about_once() -> None:
    names = [f"message T{at} {{ {' '.join(f'T{to} f{to} = {to + 1};' for to in range(20))} }}" for at in range(20)]
    schema = ProtobufPayloads(
        message_type(registered(PROTO3 + "".join(names)), (0,)), ProtobufOptions(), version=1
    ).schema
    assert repr(schema).count("ConnectSchema(") < 1000
    avro = [{"name": f"f{to}", "type": ["null", f"T{to}"], "default": None} for to in range(20)]
    inner: Any = "T0"
    for at in range(19, -1, -1):
        fields = [
            {**one, "type": ["null", inner]} if to == at + 1 and at < 19 else one
            for to, one in enumerate(avro[: at + 2])
        ]
        inner = {"type": "record", "name": f"T{at}", "fields": fields}
    assert repr(connect(inner)).count("ConnectSchema(") < 1000


def nested_case(levels: int) -> tuple[Run, list[tuple[int, str]]]:
    avro = avro_schema(connect(tree()), options=SINK)
    value: Any = b"\x02\x00\x00"  # of the last node: v, no children, no next
    for _ in range(levels - 1):
        value = b"\x02\x00\x02" + value
    found = AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(avro)), SINK, version=1).decode_payloads(
        pa.array([value], pa.binary())
    )
    return Run(
        np.zeros(len(found.rows), np.int64), np.zeros(len(found.rows), np.int64), found.values, connect(tree())
    ), found.failures


def from_depth(calls: int, then: Callable[[], Any]) -> Any:
    return then() if not calls else from_depth(calls - 1, then)


def test_what_a_converter_takes_can_be_written_from_any_stack() -> None:
    run, failures = nested_case(MOST_LEVELS)
    assert failures == []
    (value,) = run.values.objects()
    schema = connect(tree())
    newer = connect(tree({"name": "w", "type": "string", "default": "x"}))
    avro = avro_schema(schema, options=SINK)
    dug = [
        lambda: dumps(to_json(value, schema)),
        lambda: encoder(schema, avro)(value),
        lambda: projection(schema, newer)(value),
        lambda: written(JSON_LINES, run),
    ]
    assert [bool(from_depth(200, one)) for one in dug] == [True] * 4


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 400, 20_000])
def test_a_value_that_is_nested_too_deeply_is_a_failure_with_a_reason(levels: int) -> None:
    _, ((_, avro),) = nested_case(levels)
    assert "nested" in avro
    text = '{"next":' * levels + '{"v":1,"children":[]}' + "}" * levels
    ((_, reason),) = json_payloads(TREE_DOCUMENT).decode_payloads(pa.array([text.encode()], pa.binary())).failures
    assert "nested" in reason


def test_bytes_that_become_too_many_structs_are_a_failure() -> None:
    wide = [{"name": f"f{at}", "type": ["null", "int"], "default": None} for at in range(300)]
    avro = {"type": "record", "name": "Tree", "fields": [*wide, {**NODE}]}
    nulls = bytes(300)
    payload = nulls + b"\xe8\x07" + (nulls + b"\x00") * 500 + b"\x00"
    found = AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(avro)), SINK, version=1)
    assert found.decode_payloads(pa.array([payload], pa.binary())).failures == []  # 300 bytes each
    body = f"message M {{ repeated M m = 1; M next = 2; {' '.join(f'int32 f{at} = {at + 3};' for at in range(900))} }}"
    messages = ProtobufPayloads(message_type(registered(PROTO3 + body), (0,)), ProtobufOptions(), version=1)
    ((_, reason),) = messages.decode_payloads(pa.array([b"\x0a\x02\x12\x00" * 3000], pa.binary())).failures
    assert "would become more than" in reason
    document = {
        "type": "object",
        "properties": {f"f{at}": {"type": "integer"} for at in range(900)}
        | {"kids": {"type": "array", "items": {"$ref": "#"}}},
    }
    texts = pa.array([b'{"kids":[' + b",".join([b"{}"] * 3000) + b"]}"], pa.binary())
    ((_, reason),) = json_payloads(document).decode_payloads(texts).failures
    assert "would become more than" in reason


MAP_OF_ITSELF: Final = {"type": "object", "additionalProperties": {"$ref": "#/$defs/m"}}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"$ref": "#"}, r"\$ref # leads back to itself, and to no schema"),
        (
            {"type": "array", "items": {"$ref": "#"}},
            r"schema\.items: \$ref leads back to schema with no object.*ByteArrayConverter",
        ),
        (
            {"type": "object", "properties": {"m": {"$ref": "#/$defs/m"}}, "$defs": {"m": MAP_OF_ITSELF}},
            r"leads back to schema\.m with no object",
        ),
    ],
)
def test_a_reference_to_itself_without_an_object_is_refused_with_a_remedy(document: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        json_payloads(document)


def test_a_union_may_hold_lists_of_itself() -> None:
    union = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/any"}}]}
    payloads = json_payloads({"type": "object", "properties": {"j": {"$ref": "#/$defs/any"}}, "$defs": {"any": union}})
    (value,) = payloads.decode_payloads(pa.array([b'{"j":["a",["b",[]]]}'], pa.binary())).values.objects()
    branch = "io.confluent.connect.json.OneOf.field."
    inner = value["j"][f"{branch}1"]
    assert [inner[0][f"{branch}0"], inner[1][f"{branch}1"][0][f"{branch}0"]] == ["a", "b"]


def test_structs_for_nulls_end_where_a_type_contains_itself() -> None:
    descriptor = message_type(
        registered(PROTO3 + "message M { N n = 1; } message N { int32 a = 1; N next = 2; }"), (0,)
    )
    payloads = ProtobufPayloads(descriptor, ProtobufOptions(generate_struct_for_nulls=True), version=None)
    assert payloads.decode_payloads(pa.array([b""], pa.binary())).values.objects() == [{"n": {"a": 0, "next": None}}]


def test_a_recursion_is_known_by_its_definition() -> None:
    one, other, undefined = Recursion("T"), Recursion("T"), Recursion("T")
    one.define(connect(tree()).fields)
    other.define(connect(tree()).fields)
    assert one == other
    assert one != undefined
    assert undefined != Recursion("T")
    with pytest.raises(SchemaError, match="contains itself in a default"):
        len(undefined)
