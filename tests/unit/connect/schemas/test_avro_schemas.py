"""Avro and Connect schemas map into each other as Confluent's AvroData maps them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from kafka_s3.connect.schemas.avro_schemas import avro_schema, connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import CONVERTER_OPTIONS, AvroOptions, same_binary
from kafka_s3.connect.schemas.avro_values import ANYTHING
from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Field,
    SchemaError,
    SchemaType,
    read_schema,
)
from kafka_s3.connect.schemas.registered import Reference

SINK = AvroOptions()
PLAIN = AvroOptions(meta_data=False)
NAMESPACE = "io.confluent.connect.avro"
ENUM = f"{NAMESPACE}.Enum"


def out(document: dict[str, Any], options: AvroOptions = SINK) -> Any:
    found = avro_schema(read_schema(document), options=options)
    fastavro.parse_schema(json.loads(json.dumps(found)))
    return found


def into(avro: Any, options: AvroOptions = CONVERTER_OPTIONS, version: int | None = None) -> ConnectSchema:
    found = connect_schema_of_avro(avro, options=options, version=version)
    assert found is not None
    return found


def struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), **more}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field_of(avro_type: Any, options: AvroOptions = CONVERTER_OPTIONS, **more: Any) -> ConnectSchema:
    return into(record({"name": "f", "type": avro_type, **more}), options).fields[0].schema


LOGICAL = "org.apache.kafka.connect.data."
OBSERVED = [
    (
        {"field": "b", "type": "boolean"},
        {"name": "b", "type": "boolean"},
    ),
    (
        {"field": "i8", "type": "int8"},
        {"name": "i8", "type": {"type": "int", "connect.type": "int8"}},
    ),
    (
        {"field": "i16", "type": "int16"},
        {"name": "i16", "type": {"type": "int", "connect.type": "int16"}},
    ),
    ({"field": "i32", "type": "int32"}, {"name": "i32", "type": "int"}),
    ({"field": "i64", "type": "int64"}, {"name": "i64", "type": "long"}),
    ({"field": "f32", "type": "float"}, {"name": "f32", "type": "float"}),
    ({"field": "f64", "type": "double"}, {"name": "f64", "type": "double"}),
    ({"field": "s", "type": "string"}, {"name": "s", "type": "string"}),
    ({"field": "by", "type": "bytes"}, {"name": "by", "type": "bytes"}),
    (
        {"field": "opt", "type": "string", "optional": True},
        {"name": "opt", "type": ["null", "string"], "default": None},
    ),
    (
        {"field": "arr", "type": "array", "items": {"type": "string"}},
        {"name": "arr", "type": {"type": "array", "items": "string"}},
    ),
    (
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ),
    (
        {"field": "ts", "type": "int64", "name": TIMESTAMP, "version": 1},
        {
            "name": "ts",
            "type": {
                "type": "long",
                "connect.version": 1,
                "connect.name": TIMESTAMP,
                "logicalType": "timestamp-millis",
            },
        },
    ),
    (
        {"field": "d", "type": "int32", "name": DATE, "version": 1},
        {"name": "d", "type": {"type": "int", "connect.version": 1, "connect.name": DATE, "logicalType": "date"}},
    ),
    (
        {"field": "t", "type": "int32", "name": TIME, "version": 1},
        {
            "name": "t",
            "type": {"type": "int", "connect.version": 1, "connect.name": TIME, "logicalType": "time-millis"},
        },
    ),
    (
        {"field": "dec", "type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "2"}},
        {
            "name": "dec",
            "type": {
                "type": "bytes",
                "scale": 2,
                "precision": 64,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.name": DECIMAL,
                "logicalType": "decimal",
            },
        },
    ),
    (
        {"field": "sub", "type": "struct", "name": "sub", "fields": [{"field": "x", "type": "int32"}]},
        {
            "name": "sub",
            "type": {
                "type": "record",
                "name": "sub",
                "fields": [{"name": "x", "type": "int"}],
                "connect.name": "sub",
            },
        },
    ),
]


@pytest.mark.parametrize(("connect", "avro"), OBSERVED, ids=[avro["name"] for _, avro in OBSERVED])
def test_each_type_is_written_as_the_original_was_seen_to_write_it(
    connect: dict[str, Any], avro: dict[str, Any]
) -> None:
    expected = record(avro, name="all", **{"connect.version": 1, "connect.name": "all"})
    assert out(struct(connect, name="all", version=1)) == expected


@pytest.mark.parametrize(("connect", "avro"), OBSERVED, ids=[avro["name"] for _, avro in OBSERVED])
def test_what_was_written_is_read_as_the_schema_it_was(connect: dict[str, Any], avro: dict[str, Any]) -> None:
    schema = read_schema(struct(connect, name="all", version=1))
    assert into(avro_schema(schema, options=SINK)) == schema


def test_a_required_default_is_at_the_field_and_in_the_metadata() -> None:
    text = {"field": "string", "type": "string", "default": "abc"}
    expected = {"name": "string", "type": {"type": "string", "connect.default": "abc"}, "default": "abc"}
    assert out(struct(text, name="record", version=2))["fields"] == [expected]


def test_an_optional_type_with_a_default_comes_before_null() -> None:
    found = out(struct({"field": "n", "type": "int32", "optional": True, "default": 7}))
    assert found["fields"] == [{"name": "n", "type": [{"type": "int", "connect.default": 7}, "null"], "default": 7}]


def test_defaults_of_bytes_and_decimals_are_text_of_latin_1() -> None:
    found = out(
        struct(
            {"field": "b", "type": "bytes", "default": "/wA="},
            {"field": "d", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "default": "MDk="},
        )
    )
    assert [member["default"] for member in found["fields"]] == ["\xff\0", "09"]


def test_a_default_that_avro_does_not_take_is_left_out_of_the_field() -> None:
    inner = struct({"field": "x", "type": "int32"}, field="s", name="S", optional=True, default={"x": 1})
    found = out(struct(inner))["fields"][0]
    assert "default" not in found
    assert found["type"][0] == "null"
    assert found["type"][1]["connect.default"] == {"x": 1}


def test_structs_without_a_name_are_numbered() -> None:
    found = out(
        struct(
            struct({"field": "x", "type": "int32"}, field="a"),
            struct({"field": "x", "type": "int32"}, field="same"),
            struct({"field": "y", "type": "int32"}, field="b", optional=True),
        )
    )
    assert (found["name"], found["namespace"]) == ("ConnectDefault", NAMESPACE)
    a, same, b = (member["type"] for member in found["fields"])
    assert a == {"type": "record", "name": "ConnectDefault2", "fields": [{"name": "x", "type": "int"}]}
    assert same == "ConnectDefault2"
    assert b[1]["name"] == "ConnectDefault3"


def test_the_lone_unnamed_struct_is_as_the_original_was_seen_to_write_it() -> None:
    assert out(struct({"field": "x", "type": "int32"})) == {
        "type": "record",
        "name": "ConnectDefault",
        "namespace": NAMESPACE,
        "fields": [{"name": "x", "type": "int"}],
    }


def test_a_named_type_is_defined_once_and_then_referred_to() -> None:
    inner = struct({"field": "x", "type": "int32"}, name="org.one.Inner")
    found = out(
        struct(
            {**inner, "field": "a"},
            {**inner, "field": "b", "optional": True},
            {"field": "c", "type": "array", "items": inner},
            name="org.two.Outer",
        )
    )
    a, b, c = (member["type"] for member in found["fields"])
    assert (a["name"], a["namespace"]) == ("Inner", "org.one")
    assert b == ["null", "org.one.Inner"]
    assert c == {"type": "array", "items": "org.one.Inner"}


@pytest.mark.parametrize(
    "member",
    [
        {"field": "x", "type": "string"},
        {"field": "y", "type": "int32"},
        {"field": "x", "type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1},
    ],
)
def test_two_different_types_of_one_name_are_refused_with_the_ways_out(member: dict[str, Any]) -> None:
    one = struct({"field": "x", "type": "int32"}, name="S", field="a")
    other = struct(member, name="S", field="b")
    with pytest.raises(
        SchemaError, match=r"Can't redefine: S\..*Rename one, or.*enhanced.protobuf.schema.support=true"
    ):
        out(struct(one, other, name="Outer"))


def test_one_type_with_parameters_of_each_field_is_defined_once_as_in_the_original() -> None:
    member = {"field": "x", "type": "int32", "optional": True}
    one, other = (struct(member, name="S", field=name, optional=True, parameters={"tag": name}) for name in ("a", "b"))
    found = out(struct(one, other, name="Outer"))
    (_, first), second = (field["type"] for field in found["fields"])
    assert (first["name"], first["connect.parameters"]) == ("S", {"tag": "a"})
    assert second == ["null", "S"]


def test_a_name_without_namespace_inside_one_says_so() -> None:
    found = out(struct(struct({"field": "x", "type": "int32"}, name="Inner", field="a"), name="org.Outer"))
    assert found["fields"][0]["type"]["namespace"] == ""
    assert into(found).fields[0].schema.name == "Inner"


def test_a_map_with_other_keys_is_an_array_of_entries() -> None:
    keyed = {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string", "optional": True}}
    entry = record(
        {"name": "key", "type": "int"},
        {"name": "value", "type": ["null", "string"], "default": None},
        name="MapEntry",
        namespace=NAMESPACE,
    )
    assert out(keyed) == {"type": "array", "items": entry}
    assert into(out(keyed)) == read_schema(keyed)


def test_a_named_map_gives_its_name_to_its_entries() -> None:
    keyed = {"type": "map", "name": "org.Pairs", "keys": {"type": "int32"}, "values": {"type": "int64"}}
    found = out(keyed)
    assert (found["items"]["name"], found["items"]["connect.internal.type"]) == ("Pairs", "MapEntry")
    assert found["connect.name"] == "org.Pairs"
    assert into(found) == read_schema(keyed)


def test_optional_string_keys_are_plain_keys_only_when_allowed() -> None:
    keyed = {"type": "map", "keys": {"type": "string", "optional": True}, "values": {"type": "int32"}}
    assert out(keyed)["type"] == "array"
    assert out(keyed, AvroOptions(optional_map_keys=True)) == {"type": "map", "values": "int"}


def test_primitives_stand_at_the_top() -> None:
    assert out({"type": "string", "optional": True}) == ["null", "string"]
    assert out({"type": "int64"}) == "long"


def test_without_metadata_only_what_avro_knows_is_written() -> None:
    found = out(struct({"field": "i", "type": "int8"}, {**OBSERVED[15][0]}, name="all", version=1, doc="d"), PLAIN)
    assert found == record(
        {"name": "i", "type": "int"},
        {"name": "dec", "type": {"type": "bytes", "scale": 2, "precision": 64, "logicalType": "decimal"}},
        name="all",
    )


def test_precision_and_documentation_are_kept() -> None:
    parameters = {"scale": "3", "connect.decimal.precision": "9"}
    found = out({"type": "bytes", "name": DECIMAL, "version": 1, "doc": "money", "parameters": parameters})
    assert (found["precision"], found["scale"], found["connect.doc"]) == (9, 3, "money")
    assert into(found) == read_schema(
        {"type": "bytes", "name": DECIMAL, "version": 1, "doc": "money", "parameters": parameters}
    )


@pytest.mark.parametrize(
    ("name", "message", "scrubbed"),
    [
        ("1st", "Illegal initial character: 1st", "x1st"),
        ("a-b", "Illegal character in: a-b", "a_b"),
        ("a b", "Illegal character in: a b", "a_b"),
        ("café!", "Illegal character in: café!", "caf_C3_A9_21"),
        ("", "Empty name", None),
    ],
)
def test_names_that_avro_does_not_allow_are_refused_or_scrubbed(name: str, message: str, scrubbed: str | None) -> None:
    document = struct({"field": name, "type": "int32"})
    with pytest.raises(SchemaError, match=message):
        out(document)
    if scrubbed is not None:
        assert out(document, AvroOptions(scrub_invalid_names=True))["fields"][0]["name"] == scrubbed


def test_record_names_are_scrubbed_piece_by_piece() -> None:
    found = out(struct(name="my-org.my-topic"), AvroOptions(scrub_invalid_names=True))
    assert (found["namespace"], found["name"]) == ("my_org", "my_topic")


COLOUR = {"type": "enum", "name": "Colour", "namespace": "org", "symbols": ["RED", "GREEN", "BLUE"]}


def test_an_enum_is_a_string_whose_parameters_keep_the_order_of_the_symbols() -> None:
    found = into(COLOUR)
    symbols = ((f"{ENUM}.RED", "RED"), (f"{ENUM}.GREEN", "GREEN"), (f"{ENUM}.BLUE", "BLUE"))
    expected = ConnectSchema(SchemaType.STRING, name="org.Colour", parameters=((ENUM, "org.Colour"), *symbols))
    assert found == expected


def test_an_enum_stays_an_enum_only_with_enhanced_support() -> None:
    schema = into({**COLOUR, "doc": "which", "default": "RED"})
    found = avro_schema(schema, options=SINK)
    assert (found["type"], found["name"], found["symbols"]) == ("enum", "Colour", ["RED", "GREEN", "BLUE"])
    assert (found["doc"], found["default"], found["connect.name"]) == ("which", "RED", "org.Colour")
    assert into(found) == schema
    assert avro_schema(schema, options=CONVERTER_OPTIONS)["type"] == "string"


def test_fixed_keeps_name_and_size() -> None:
    fixed = {"type": "fixed", "name": "Key", "namespace": "org", "size": 4}
    schema = into(fixed)
    assert schema == ConnectSchema(SchemaType.BYTES, name="org.Key", parameters=(("connect.fixed.size", "4"),))
    assert avro_schema(schema, options=PLAIN) == fixed


def test_a_fixed_decimal_is_a_decimal() -> None:
    fixed = {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 6}
    assert into(fixed).name == DECIMAL
    assert dict(into(fixed).parameters)["scale"] == "6"


@pytest.mark.parametrize(
    ("avro", "kind", "name"),
    [
        ({"type": "int", "logicalType": "date"}, SchemaType.INT32, DATE),
        ({"type": "int", "logicalType": "time-millis"}, SchemaType.INT32, TIME),
        ({"type": "long", "logicalType": "timestamp-millis"}, SchemaType.INT64, TIMESTAMP),
        ({"type": "long", "logicalType": "timestamp-micros"}, SchemaType.INT64, None),
        ({"type": "string", "logicalType": "uuid"}, SchemaType.STRING, None),
        ({"type": "int", "connect.type": "int8"}, SchemaType.INT8, None),
        ({"type": "int", "connect.type": "int16"}, SchemaType.INT16, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, SchemaType.BYTES, DECIMAL),
    ],
)
def test_logical_types_that_connect_has_are_named_and_others_keep_their_base(
    avro: Any, kind: SchemaType, name: str | None
) -> None:
    found = field_of(avro)
    assert (found.kind, found.name) == (kind, name)
    assert found.version == (1 if name else None)


def test_a_decimal_keeps_scale_and_an_unusual_precision() -> None:
    assert into({"type": "bytes", "logicalType": "decimal", "precision": 9}).parameters == (
        ("connect.decimal.precision", "9"),
        ("scale", "0"),
    )
    assert into({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}).parameters == (
        ("scale", "2"),
    )


def test_a_record_is_a_struct_with_its_full_name_and_its_documentation_in_parameters() -> None:
    avro = record({"name": "a", "type": "int", "doc": "an a"}, namespace="org", doc="an R")
    for options in (SINK, CONVERTER_OPTIONS):
        found = into(avro, options)
        assert (found.name, found.doc) == ("org.R", None)
        assert dict(found.parameters) == {f"{NAMESPACE}.record.doc": "an R", f"{NAMESPACE}.field.doc.a": "an a"}
    written = avro_schema(into(avro), options=SINK)
    assert (written["doc"], written["fields"][0]["doc"]) == ("an R", "an a")
    assert into(avro, PLAIN).parameters == ()


def test_the_version_is_the_registrys_unless_the_schema_has_one_and_only_at_the_top() -> None:
    nested = record({"name": "s", "type": record(name="S")})
    assert into(nested, version=4).version == 4
    assert into(nested, version=4).fields[0].schema.version is None
    assert into({**nested, "connect.version": 2}, version=4).version == 2
    assert into(["null", record()], version=4).version is None
    assert into({"type": "int", "logicalType": "date"}, version=4).version == 1


def test_connect_properties_override_what_avro_says() -> None:
    found = into(
        record(
            **{"connect.name": "own", "connect.doc": "d", "connect.parameters": {"b": "2", "a": "1"}, "avro.java": "x"}
        )
    )
    assert (found.name, found.doc) == ("own", "d")
    assert found.parameters == (("a", "1"), ("avro.java", "x"), ("b", "2"))
    assert into(record(name="io.confluent.connect.avro.ConnectDefault2")).name is None


def test_java_string_properties_are_parameters() -> None:
    avro = {"type": "string", "avro.java.string": "String"}
    assert field_of(avro).parameters == (("avro.java.string", "String"),)
    written = avro_schema(field_of(avro), options=PLAIN)
    assert written == avro


def test_a_default_of_an_avro_field_is_marked_and_written_back_without_metadata() -> None:
    found = field_of("long", default=5)
    assert (found.default, found.parameters) == ("5", ((f"{NAMESPACE}.field.default", "true"),))
    avro = record({"name": "f", "type": "long", "default": 5}, **{"connect.name": "R"})
    assert avro_schema(into(avro), options=SINK) == avro


def test_the_field_default_of_an_optional_type_is_lost_as_in_the_original() -> None:
    assert field_of(["null", "string"], default=None) == ConnectSchema(SchemaType.STRING, optional=True)
    assert field_of(["string", "null"], default="x") == ConnectSchema(SchemaType.STRING, optional=True)
    assert field_of([{"type": "string", "connect.default": "x"}, "null"], default="x").default == '"x"'


@pytest.mark.parametrize(
    ("avro", "default", "expected"),
    [
        ("bytes", "\xff", '"/w=="'),
        ({"type": "int", "logicalType": "date"}, 3, "3"),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2}, "09", '"MDk="'),
        ({"type": "array", "items": "int"}, [1, 2], "[1, 2]"),
        ({"type": "map", "values": "int"}, {"a": 1}, '{"a": 1}'),
        (COLOUR, "RED", '"RED"'),
        (record({"name": "x", "type": "int"}, name="S"), {"x": 1}, '{"x": 1}'),
        (["string", "int"], "s", '{"string": "s", "int": null}'),
        ("int", "no number", None),
        (record({"name": "x", "type": "int"}, name="S"), {}, None),
    ],
)
def test_field_defaults_take_the_form_of_the_json_converter(avro: Any, default: Any, expected: str | None) -> None:
    assert field_of(avro, default=default).default == expected


def test_a_union_of_several_is_a_struct_with_a_field_per_branch() -> None:
    branches = ["null", "string", "int", record(name="org.A"), COLOUR]
    found = field_of(branches, SINK)
    assert (found.name, found.optional) == (f"{NAMESPACE}.Union", True)
    assert [field.name for field in found.fields] == ["string", "int", "org.A", "org.Colour"]
    assert all(field.schema.optional for field in found.fields)
    assert [field.name for field in field_of(branches).fields] == ["string", "int", "A", "Colour"]
    written = avro_schema(found, options=PLAIN)
    assert [branch if isinstance(branch, str) else branch["type"] for branch in written] == [
        "null",
        "string",
        "int",
        "record",
        "enum",
    ]


def test_union_branches_that_differ_only_in_namespace_need_enhanced_support() -> None:
    branches = [record(name="a.S"), record(name="b.S")]
    assert len(into(branches, SINK).fields) == 2
    with pytest.raises(SchemaError, match="Multiple union schemas map to the Connect union field name S"):
        into(branches)


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        ("null", "A null type that is not part of a union"),
        ("Nowhere", "The Avro type Nowhere is not defined"),
        ({"type": "record", "name": "R"}, "no list of fields"),
        ({"type": "record", "fields": []}, "has no name"),
        ({"type": "fixed", "name": "F", "size": -1}, "has the size -1"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a symbol twice"),
        ({"type": "array"}, "has no items"),
        ({"name": "x"}, "it has no type"),
        (["int", "int"], "Duplicate in union: int"),
        (["int", ["string"]], "directly in another"),
        ({"type": "int", "connect.type": "int12"}, "int8 or int16"),
        ({"type": "int", "connect.version": "new"}, "connect.version is 'new'"),
        ({"type": "int", "connect.parameters": {"a": 1}}, "not an object of texts"),
        ({"type": "int", "logicalType": "date", "connect.version": 3}, "has version 1"),
        ({"type": "int", "logicalType": "date", "connect.name": "other"}, "connect.name is other"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "two fields a"),
    ],
)
def test_broken_schemas_are_refused_with_the_reason(avro: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        connect_schema_of_avro(avro, options=SINK)


def test_a_type_that_is_used_twice_is_not_recursive() -> None:
    twice = record({"name": "a", "type": record(name="S")}, {"name": "b", "type": "S"})
    assert into(twice).fields[0].schema == into(twice).fields[1].schema


def test_schemas_nested_too_deeply_are_refused() -> None:
    avro: Any = "int"
    for _ in range(5000):
        avro = {"type": "array", "items": avro}
    with pytest.raises(SchemaError, match="deeper than 100 levels"):
        connect_schema_of_avro(avro, options=SINK)
    with pytest.raises(SchemaError, match=r"deeper than 100 levels|is not JSON"):
        parse_avro('{"type":"array","items":' * 5000 + '"int"' + "}" * 5000)


def test_references_are_put_in_where_they_are_first_used() -> None:
    money = Reference("org.Money", json.dumps(record({"name": "cents", "type": "long"}, name="Money", namespace="org")))
    bill = Reference("org.Bill", json.dumps(record({"name": "sum", "type": "Money"}, name="Bill", namespace="org")))
    text = json.dumps(
        record({"name": "one", "type": "org.Bill"}, {"name": "two", "type": ["null", "org.Money"]}, name="org.Order")
    )
    parsed = parse_avro(text, [money, bill])
    assert fastavro.parse_schema(parsed)
    bill_type = parsed["fields"][0]["type"]
    assert (bill_type["name"], bill_type["fields"][0]["type"]["name"]) == ("Bill", "Money")
    assert parsed["fields"][1]["type"] == ["null", "Money"]
    with pytest.raises(SchemaError, match=r"org\.Bill is not defined"):
        parse_avro(text, [money])


def test_schema_text_that_is_no_schema_is_refused() -> None:
    assert parse_avro('"string"') == parse_avro("string") == "string"
    with pytest.raises(SchemaError, match="is not JSON"):
        parse_avro("{")
    with pytest.raises(SchemaError, match="not an Avro schema"):
        parse_avro("7")


def test_schemaless_values_have_a_schema_of_their_own() -> None:
    assert avro_schema(None, options=SINK) == ANYTHING
    assert connect_schema_of_avro(ANYTHING, options=SINK) is None
    assert connect_schema_of_avro(parse_avro(json.dumps(ANYTHING)), options=SINK) is None
    assert fastavro.parse_schema(json.loads(json.dumps(ANYTHING)))
    assert [field["name"] for field in ANYTHING["fields"]] == [
        "boolean",
        "bytes",
        "double",
        "float",
        "int",
        "long",
        "string",
        "array",
        "map",
    ]


def test_a_schema_from_the_registry_comes_out_as_it_went_in() -> None:
    avro = record(
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "colour", "type": ["null", COLOUR], "default": None},
        {"name": "again", "type": "org.Colour"},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        namespace="org",
    )
    schema = into(avro, version=3)
    assert schema.version == 3
    written = avro_schema(schema, options=SINK)
    assert same_binary(avro, written)
    assert into(written) == schema


def test_same_binary_looks_at_structure_alone() -> None:
    one = record({"name": "a", "type": {"type": "int", "logicalType": "date"}}, {"name": "e", "type": COLOUR}, doc="d")
    other = record(
        {"name": "b", "type": "int", "default": 1}, {"name": "f", "type": {**COLOUR, "name": "Hue"}}, name="Q"
    )
    assert same_binary(one, other)
    assert same_binary({"type": "string", "avro.java.string": "String"}, "string")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "long"),
        (["null", "int"], ["int", "null"]),
        (record({"name": "a", "type": "int"}), record()),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
        (COLOUR, {**COLOUR, "symbols": ["GREEN", "RED", "BLUE"]}),
        (COLOUR, "string"),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}),
        ("bytes", "bytes"),
        ([{"type": "int", "connect.default": 1}, "null"], [{"type": "int", "connect.default": 1}, "null"]),
    ],
)
def test_same_binary_sees_what_changes_the_bytes(one: Any, other: Any) -> None:
    assert not same_binary(one, other)


def test_same_binary_ends_on_recursive_types() -> None:
    tree = record({"name": "next", "type": ["null", "T"]}, name="T")
    other = record({"name": "next", "type": ["null", "U"]}, {"name": "x", "type": "int"}, name="U")
    assert same_binary(tree, json.loads(json.dumps(tree)))
    assert not same_binary(tree, other)


def test_a_struct_with_a_default_is_the_same_type_as_one_without() -> None:
    inner = ConnectSchema(SchemaType.STRUCT, name="S", fields=(Field("x", ConnectSchema(SchemaType.INT32)),))
    flagged = replace(inner, default='{"x": 1}', parameters=((f"{NAMESPACE}.field.default", "true"),))
    outer = ConnectSchema(SchemaType.STRUCT, name="O", fields=(Field("a", inner), Field("b", flagged)))
    found = avro_schema(outer, options=SINK)
    assert found["fields"][1] == {"name": "b", "type": "S", "default": {"x": 1}}


def test_aliases_of_fields_are_not_carried_so_that_a_renamed_field_is_another_one() -> None:
    renamed = {"name": "town", "type": "string", "aliases": ["city"]}
    plain = {"name": "town", "type": "string"}
    with_alias, without = (into({"type": "record", "name": "R", "fields": [one]}) for one in (renamed, plain))
    assert with_alias == without
    assert [one.name for one in with_alias.fields] == ["town"]
