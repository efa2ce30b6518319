"""JSON Schema: the Connect schema it gives, the values of its payloads, and payloads that are none."""

from __future__ import annotations

import base64
import contextlib
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Field,
    SchemaError,
    SchemaType,
)
from kafka_s3.connect.schemas.expansion import MOST_PARTS
from kafka_s3.connect.schemas.json_form import ONE_OF, JsonRules, from_json
from kafka_s3.connect.schemas.json_schema import ENUM, JsonSchemaOptions, connect_schema_of_json
from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema

OPTIONS = JsonSchemaOptions()
STRING, LONG = ConnectSchema(SchemaType.STRING), ConnectSchema(SchemaType.INT64)
OPTIONAL_STRING = ConnectSchema(SchemaType.STRING, optional=True)


def read(document: Any, **more: Any) -> ConnectSchema:
    return connect_schema_of_json(document, options=more.pop("options", OPTIONS), **more)


def fields(schema: ConnectSchema) -> dict[str, ConnectSchema]:
    return {field.name: field.schema for field in schema.fields}


def payloads(
    document: Any, *, options: JsonSchemaOptions = OPTIONS, references: dict[str, Any] | None = None
) -> JsonSchemaPayloads:
    known = tuple(Reference(name, json.dumps(found)) for name, found in (references or {}).items())
    return JsonSchemaPayloads(RegisteredSchema(Language.JSON, json.dumps(document), known), options)


def decoded(document: Any, *texts: str | bytes, **more: Any) -> Any:
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    return payloads(document, **more).decode_payloads(pa.array(raw, pa.binary()))


def decimal(scale: int = 2) -> dict[str, Any]:
    return {"type": "number", "title": DECIMAL, "connect.type": "bytes", "connect.parameters": {"scale": str(scale)}}


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"type": "boolean"}, SchemaType.BOOLEAN),
        ({"type": "integer"}, SchemaType.INT64),
        ({"type": "number"}, SchemaType.FLOAT64),
        ({"type": "string"}, SchemaType.STRING),
        ({"type": "string", "format": "date-time"}, SchemaType.STRING),
        ({"type": "string", "connect.type": "bytes"}, SchemaType.BYTES),
        ({"type": "integer", "connect.type": "int8"}, SchemaType.INT8),
        ({"type": "integer", "connect.type": "int16"}, SchemaType.INT16),
        ({"type": "integer", "connect.type": "int32"}, SchemaType.INT32),
        ({"type": "number", "connect.type": "float32"}, SchemaType.FLOAT32),
        ({"minimum": 3}, SchemaType.FLOAT64),
        ({"const": "x"}, SchemaType.STRING),
        ({"const": 1}, SchemaType.INT64),
        ({"const": 1.5}, SchemaType.FLOAT64),
        ({"const": True}, SchemaType.BOOLEAN),
        ({"const": "x", "type": "integer"}, SchemaType.INT64),
        ({"allOf": [{"const": "x"}, {"$comment": "fixed"}]}, SchemaType.STRING),
        ({"maxLength": 3}, SchemaType.STRING),
        ({"type": "integer", "enum": [1, 2]}, SchemaType.INT64),
        ({"type": "string", "const": "x"}, SchemaType.STRING),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, SchemaType.STRING),
    ],
)
def test_types_become_those_of_connect(document: Any, kind: SchemaType) -> None:
    assert read(document) == ConnectSchema(kind)


def test_a_schema_has_its_title_version_description_parameters_and_default() -> None:
    document = {
        "type": "integer", "title": "amount", "description": "in cents", "default": 5,
        "connect.parameters": {"unit": "cent"}, "connect.version": 3,
    }  # fmt: skip
    expected = ConnectSchema(
        SchemaType.INT64, name="amount", doc="in cents", default="5", version=3, parameters=(("unit", "cent"),)
    )
    assert read(document, version=9) == expected
    del document["connect.version"]
    assert read(document, version=9).version == 9


def test_the_version_is_that_of_the_whole_schema_and_not_of_its_fields() -> None:
    schema = read({"type": "object", "properties": {"a": {"type": "string"}}}, version=4)
    assert schema == ConnectSchema(SchemaType.STRUCT, version=4, fields=(Field("a", STRING),))


def test_fields_stand_in_the_order_of_connect_index_else_as_in_the_document() -> None:
    parts = {"z": 2, "y": 0, "x": 1}
    indexed = {name: {"type": "string", "connect.index": index} for name, index in parts.items()}
    assert list(fields(read({"type": "object", "properties": indexed}))) == ["y", "x", "z"]
    plain = {name: {"type": "string"} for name in parts}
    assert list(fields(read({"type": "object", "properties": plain}))) == ["z", "y", "x"]


def test_fields_that_are_not_required_are_optional_only_if_asked() -> None:
    document = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert fields(read(document)) == {"a": STRING, "b": STRING}
    asked = JsonSchemaOptions(optional_for_nonrequired=True)
    assert fields(read(document, options=asked)) == {"a": STRING, "b": OPTIONAL_STRING}


@pytest.mark.parametrize(
    "document",
    [
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["null", "string"]},
    ],
)
def test_a_type_or_null_is_optional(document: Any) -> None:
    assert read(document) == OPTIONAL_STRING


def test_other_unions_are_structs_with_a_field_per_branch() -> None:
    branches = (
        Field(f"{ONE_OF}.field.0", OPTIONAL_STRING),
        Field(f"{ONE_OF}.field.1", ConnectSchema(SchemaType.INT64, optional=True)),
    )
    expected = ConnectSchema(SchemaType.STRUCT, name=ONE_OF, fields=branches)
    assert read({"oneOf": [{"type": "string"}, {"type": "integer"}], "title": "lost"}) == expected
    assert read({"type": ["string", "integer"]}) == expected
    with_null = read({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]})
    assert with_null == ConnectSchema(SchemaType.STRUCT, name=ONE_OF, optional=True, fields=branches)


def test_all_of_joins_the_properties_of_its_parts() -> None:
    document = {
        "title": "both",
        "allOf": [{"$ref": "#/definitions/a"}, {"properties": {"y": {"type": "integer"}}, "required": ["y"]}],
        "definitions": {"a": {"type": "object", "properties": {"x": {"type": "string"}}}},
    }
    schema = read(document, options=JsonSchemaOptions(optional_for_nonrequired=True))
    assert schema.name == "both"
    assert fields(schema) == {"x": OPTIONAL_STRING, "y": LONG}


def test_an_enum_is_a_string_with_its_symbols_as_parameters() -> None:
    expected = ConnectSchema(SchemaType.STRING, parameters=((ENUM, ""), (f"{ENUM}.A", "A"), (f"{ENUM}.B", "B")))
    assert read({"type": "string", "enum": ["A", "B"]}) == expected
    assert read({"enum": ["A", "B"]}) == expected


def test_maps_are_objects_of_additional_properties_or_lists_of_entries() -> None:
    string_map = ConnectSchema(SchemaType.MAP, keys=STRING, values=LONG)
    assert read({"type": "object", "additionalProperties": {"type": "integer"}}) == string_map
    assert read({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}}) == string_map
    entry = {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "string"}}}
    assert read({"type": "array", "connect.type": "map", "items": entry}) == ConnectSchema(
        SchemaType.MAP, keys=LONG, values=STRING
    )


@pytest.mark.parametrize("definitions", ["definitions", "$defs"])
def test_references_within_the_document_are_followed(definitions: str) -> None:
    document = {
        "type": "object",
        "properties": {"a": {"$ref": f"#/{definitions}/x~1y"}, "b": {"$ref": "#here"}},
        definitions: {"x/y": {"type": "string"}, "z": {"$anchor": "here", "type": "integer"}},
    }
    assert fields(read(document)) == {"a": STRING, "b": LONG}


def test_references_to_other_schemas_are_found_by_name_by_id_and_relative_to_the_document() -> None:
    document = {
        "$id": "http://example.com/schemas/order.json",
        "type": "object",
        "properties": {
            "name": {"$ref": "ref.json"},
            "id": {"$ref": "http://example.com/schemas/address.json#/$defs/street"},
            "relative": {"$ref": "address.json"},
        },
    }
    references = {
        "ref.json": {"type": "integer"},
        "anything": {
            "$id": "http://example.com/schemas/address.json",
            "type": "object", "properties": {"street": {"$ref": "#/$defs/street"}}, "$defs": {"street": {"type": "string"}},
        },
    }  # fmt: skip
    address = ConnectSchema(SchemaType.STRUCT, fields=(Field("street", STRING),))
    assert fields(read(document, references=references)) == {"name": LONG, "id": STRING, "relative": address}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "more than 100,000 parts|nested too deeply"),
        ({"$ref": "#/definitions/none"}, "points to nothing"),
        ({"$ref": "other.json"}, "other.json.* is not known; the schemas registered with this one: none"),
        ({"$ref": "#anchor"}, "names an anchor"),
        ({"type": "array"}, "Array schema did not specify the items type"),
        ({}, "names no type"),
        ({"type": "object", "properties": {"a": {}}}, r"schema\.a: it names no type"),
        ({"type": "object", "properties": {"a": True}}, r"schema\.a is true, not a schema object"),
        ({"const": None}, "names no type"),
        ({"const": {"a": 1}}, "names no type"),
        (True, "schema is true, not a schema object"),
        ({"type": "any"}, 'type "any" is unknown'),
        ({"type": "null"}, "is unknown"),
        ({"type": {"a": 1}}, "is unknown"),
        ({"type": "integer", "connect.type": "int7"}, "connect.type 'int7' of a number is unknown"),
        ({"type": "integer", "default": "five"}, r"Invalid value for int64 at schema\.default"),
        ({"type": "object", "connect.type": "map"}, "additionalProperties is null, not a schema"),
        ({"type": "object", "properties": {"a": 5}}, r"schema\.a is 5, not a schema"),
    ],
)
def test_what_has_no_connect_schema_is_an_error_with_the_place(document: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        read(document)


def test_references_that_multiply_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PARTS == 100_000
    monkeypatch.setattr("kafka_s3.connect.schemas.expansion.MOST_PARTS", 5_000)
    layers = {
        f"l{i}": {"type": "object", "properties": {n: {"$ref": f"#/$defs/l{i + 1}"} for n in "abcd"}} for i in range(12)
    }
    document = {"$ref": "#/$defs/l0", "$defs": layers | {"l12": {"type": "string"}}}
    with pytest.raises(SchemaError, match="more than 5,000 parts"):
        read(document)


def test_a_schema_nested_beyond_all_reason_is_an_error() -> None:
    document: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        document = {"type": "array", "items": document}
    with pytest.raises(SchemaError, match="nested too deeply"):
        read(document)


ORDER = {
    "type": "object", "title": "order",
    "properties": {
        "id": {"type": "integer"},
        "price": decimal(),
        "day": {"type": "integer", "title": DATE, "connect.type": "int32"},
        "at": {"type": "integer", "title": TIMESTAMP, "connect.type": "int64"},
        "noon": {"type": "integer", "title": TIME, "connect.type": "int32"},
        "raw": {"type": "string", "connect.type": "bytes"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "state": {"enum": ["NEW", "OLD"], "default": "NEW"},
        "note": {"type": ["null", "string"]},
    },
}  # fmt: skip
TEXT = """{"id": 1, "price": 12345678901234567890123456789012.5, "day": 3, "at": 1705312800000, "noon": 43200000, "raw": "AQI=",
    "tags": ["a"], "counts": {"x": 1, "y": 2}, "unknown": {}}"""


def test_a_payload_becomes_the_values_of_its_schema() -> None:
    found = decoded(ORDER, TEXT)
    assert found.failures == []
    assert found.values == Objects(
        [
            {
                "id": 1, "price": Decimal("12345678901234567890123456789012.5"), "day": 3, "at": 1705312800000,
                "noon": 43200000, "raw": b"\x01\x02", "tags": ["a"], "counts": [("x", 1), ("y", 2)],
                "state": "NEW", "note": None,
            }
        ]
    )  # fmt: skip


def test_decimals_come_as_numbers_or_as_base64_text() -> None:
    unscaled = base64.b64encode((-12345678901234567890123456789012345).to_bytes(16, "big", signed=True)).decode()
    found = decoded(decimal(), "1.5", "7", json.dumps(unscaled), '"AA=="')
    assert found.values.items == [
        Decimal("1.5"), Decimal(7), Decimal("-123456789012345678901234567890123.45"), Decimal("0.00"),
    ]  # fmt: skip


def test_maps_with_other_keys_are_lists_of_entries() -> None:
    entry = {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "string"}}}
    document = {"type": "array", "connect.type": "map", "items": entry}
    found = decoded(document, '[{"key": 1, "value": "a"}]', '[{"key": 1}]', '{"1": "a"}', "[[1, 2]]")
    assert found.values.items == [[(1, "a")]]
    assert [row for row, _ in found.failures] == [1, 2, 3]


def union(*names: str, **types: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names} | types}


@pytest.mark.parametrize(
    ("branches", "text", "branch", "value"),
    [
        ([{"type": "string"}, {"type": "integer"}], "5", 1, 5),
        ([{"type": "integer"}, {"type": "number"}], "5.5", 1, 5.5),
        ([{"type": "number"}, {"type": "integer"}], "5", 0, 5.0),
        (
            [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}],
            '["a"]',
            1,
            ["a"],
        ),
        ([union("a"), union("a", "b")], '{"a": "x", "b": "y"}', 1, {"a": "x", "b": "y"}),
        ([union("a"), union("a", n={"type": "integer"})], '{"a": "x", "n": "no"}', 0, {"a": "x"}),
        ([{"type": "string", "connect.type": "bytes"}, {"type": "string"}], '"AQI="', 1, "AQI="),
        ([{"type": "integer"}, {"type": "string", "connect.type": "bytes"}], '"AQI="', 1, b"\x01\x02"),
    ],
)
def test_a_union_takes_the_branch_that_fits(branches: list[Any], text: str, branch: int, value: Any) -> None:
    found = decoded({"oneOf": branches}, text)
    assert found.values.items == [{f"{ONE_OF}.field.{i}": value if i == branch else None for i in range(2)}]


def test_a_value_that_fits_no_branch_is_a_failure() -> None:
    found = decoded({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "true")
    assert "Did not find matching oneof field for data" in found.failures[0][1]


def test_null_is_a_null_value_a_default_or_a_failure() -> None:
    assert decoded({"type": ["null", "string"]}, "null").nulls == [0]
    assert decoded({"type": "string", "default": "d"}, "null").values.items == ["d"]
    assert "Invalid null value for required string" in decoded({"type": "string"}, "null").failures[0][1]


def test_a_field_without_value_is_null_its_default_or_a_failure() -> None:
    text = {"type": "string"}
    assert from_json(
        {}, read({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}), rules=JsonRules.JSON_SCHEMA
    ) == {"a": None}
    assert from_json(
        {}, read({"type": "object", "properties": {"a": text | {"default": "d"}}}), rules=JsonRules.JSON_SCHEMA
    ) == {"a": "d"}
    with pytest.raises(SchemaError, match=r"Invalid null value for required string field at value\.a"):
        from_json({}, read({"type": "object", "properties": {"a": text}}), rules=JsonRules.JSON_SCHEMA)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"type": "string"}, ""),
        ({"type": "string"}, "  "),
        ({"type": "string"}, "{"),
        ({"type": "string"}, "5"),
        ({"type": "string"}, b"\xff\xfe"),
        ({"type": "boolean"}, "1"),
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "true"),
        ({"type": "integer"}, str(2**63)),
        ({"type": "integer", "connect.type": "int8"}, "128"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "-Infinity"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "9" * 400),
        ({"type": "integer"}, "9" * 5000),
        ({"type": "object", "properties": {"a": decimal()}}, '{"a": 1E+999999999}'),
        ({"type": "object", "properties": {"a": decimal()}}, '{"a": 1E+99999999999999999999999}'),
        ({"type": "object", "properties": {"a": decimal()}}, '{"a": 1E-999999999}'),
        (decimal(), "1.234"),
        (decimal(), "true"),
        (decimal(), '"no base64"'),
        ({"type": "string", "connect.type": "bytes"}, '"ä"'),
        ({"type": "array", "items": {"type": "string"}}, "{}"),
        ({"type": "array", "items": {"type": "string"}}, "[" * 100_000),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "[]"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, '{"a": 1}'),
    ],
)
def test_what_does_not_fit_is_a_failure_and_the_others_go_on(document: Any, text: str | bytes) -> None:
    found = payloads({"type": ["object", "null"], "properties": {"x": document}})
    good = json.dumps({"x": None}).encode()
    raw = text.encode() if isinstance(text, str) else text
    alone = decoded(document, raw)
    assert [row for row, _ in alone.failures] == [0]
    assert len(alone.failures[0][1]) < 300
    among = found.decode_payloads(pa.array([b"null", b'{"x": ' + raw + b"}", good], pa.binary()))
    assert among.nulls == [0]
    assert [row for row, _ in among.failures] == [1, 2]


def test_a_schema_that_is_no_json_is_an_error() -> None:
    with pytest.raises(SchemaError, match="is not JSON"):
        JsonSchemaPayloads(RegisteredSchema(Language.JSON, "{"), OPTIONS)
    with pytest.raises(SchemaError, match=r"referenced JSON Schema a\.json is not JSON"):
        JsonSchemaPayloads(RegisteredSchema(Language.JSON, "{}", (Reference("a.json", "x"),)), OPTIONS)


def test_payloads_are_validated_only_if_asked() -> None:
    document = {"type": "object", "properties": {"age": {"$ref": "age.json"}}}
    references = {"age.json": {"type": "integer", "minimum": 0}}
    assert decoded(document, '{"age": -1}', references=references).failures == []
    found = decoded(
        document, '{"age": -1}', '{"age": 1}', references=references, options=JsonSchemaOptions(fail_invalid=True)
    )
    assert found.values.items == [{"age": 1}]
    assert found.rows.tolist() == [1]
    assert found.failures[0][1].endswith("JSON does not match the schema at $.age: -1 is less than the minimum of 0.")


def test_a_schema_that_cannot_validate_is_an_error_of_the_schema() -> None:
    with pytest.raises(SchemaError, match=r"The JSON Schema is invalid at \$\.maxLength"):
        payloads({"type": "string", "maxLength": "x"}, options=JsonSchemaOptions(fail_invalid=True))


EVERYTHING = {
    "type": "object",
    "properties": {
        "order": ORDER | {"type": ["object", "null"]},
        "union": {"oneOf": [{"type": "null"}, {"type": "string"}, decimal(), union("a"), {"type": "array", "items": {"type": "integer"}}]},
        "map": {"type": ["object", "null"], "additionalProperties": {"type": ["number", "string"]}},
    },
}  # fmt: skip
DECODERS = [payloads(EVERYTHING), payloads(EVERYTHING, options=JsonSchemaOptions(fail_invalid=True))]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*EVERYTHING["properties"], "a", "id"]), inner)
    ),
    max_leaves=8,
)


@given(st.lists(st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode()), max_size=4))
def test_any_bytes_are_a_value_a_null_or_a_failure(raw: list[bytes]) -> None:
    for decoder in DECODERS:
        found = decoder.decode_payloads(pa.array(raw, pa.binary()))
        rows = found.rows.tolist()
        assert sorted(rows + found.nulls + [row for row, _ in found.failures]) == list(range(len(raw)))
        assert len(found.values) == len(rows)


PARTS = st.sampled_from(
    [
        "string",
        "integer",
        "object",
        "null",
        "#",
        "#/properties/a",
        {"type": "string"},
        5,
        None,
        ["string", "null"],
        [],
        "map",
    ]
)
KEYWORDS = (
    "type", "properties", "items", "oneOf", "allOf", "enum", "$ref", "additionalProperties", "default", "required",
    "connect.type", "connect.index", "connect.version", "connect.parameters", "title", "a", "$id", "$anchor",
)  # fmt: skip
SCHEMAS = st.recursive(
    PARTS,
    lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@given(SCHEMAS)
def test_any_document_is_a_schema_or_an_error(document: Any) -> None:
    with contextlib.suppress(SchemaError):
        assert isinstance(read(document).kind, SchemaType)
