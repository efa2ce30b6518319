from __future__ import annotations

import base64
import sys
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.protobuf import ProtobufPayloads
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.protobuf import ProtobufOptions, translation
from kafka_s3.connect.schemas.protobuf_descriptors import message_type, message_type_at
from kafka_s3.connect.schemas.registered import Reference
from tests.support.examples import examples
from tests.support.protobuf import CUSTOMER, ORDER, PROTO3, registered

DEFAULTS = ProtobufOptions()
TAG = "io.confluent.connect.protobuf.Tag"
TYPE = "io.confluent.connect.protobuf.Type"

SCALARS = """
message M {
  int32 i32 = 1; sint32 s32 = 2; sfixed32 sf32 = 3; uint32 u32 = 4; fixed32 f32 = 5;
  int64 i64 = 6; sint64 s64 = 7; sfixed64 sf64 = 8; uint64 u64 = 9; fixed64 f64 = 10;
  float fl = 11; double d = 12; bool b = 13; string s = 14; bytes raw = 15;
}
"""


def proto3(body: str, *indexes: int) -> Any:
    return message_type(registered(PROTO3 + body), indexes or (0,))


@pytest.mark.parametrize(
    ("place", "name"),
    [(0, "shop.A"), (1, "shop.B"), (2, "shop.B.A"), (3, "shop.B.A.D"), (4, "shop.B.C"), (5, "shop.B.MEntry")],
)
def test_glue_counts_all_message_types_of_a_file_by_their_full_names(place: int, name: str) -> None:
    text = "message B { message C {} message A { message D {} } map<string, int32> m = 1; } message A {}"
    assert message_type_at(registered(PROTO3 + text), place).full_name == name


def test_a_place_that_no_message_type_has_is_refused_with_their_number() -> None:
    with pytest.raises(SchemaError, match="has 1 message types, and none at the place 1"):
        message_type_at(registered(PROTO3 + "message A {}"), 1)


def made(descriptor: Any, **fields: Any) -> bytes:
    return message_factory.GetMessageClass(descriptor)(**fields).SerializeToString()


def schema_of(descriptor: Any, **options: Any) -> ConnectSchema:
    return translation(descriptor, options=replace(DEFAULTS, **options), version=None).schema


def read(descriptor: Any, payload: bytes, **options: Any) -> Any:
    decoder = ProtobufPayloads(descriptor, replace(DEFAULTS, **options), version=None)
    result = decoder.decode_payloads(pa.array([payload], pa.binary()))
    assert result.failures == []
    return result.values.objects()[0]


def failure(descriptor: Any, payload: bytes) -> str:
    result = ProtobufPayloads(descriptor, DEFAULTS, version=None).decode_payloads(pa.array([payload], pa.binary()))
    assert (len(result.values), len(result.rows), result.nulls) == (0, 0, [])
    [(row, reason)] = result.failures
    assert row == 0
    return reason


def field(schema: ConnectSchema, *path: str) -> ConnectSchema:
    found = schema.at_path(path)
    assert found is not None
    return found


def serialized(text: str, *references: Reference) -> tuple[str, Any]:
    """The base64 form of a .proto text, as the Python client registers it."""
    file = descriptor_pb2.FileDescriptorProto()
    message_type(registered(text, *references), (0,)).file.CopyToProto(file)
    return base64.b64encode(file.SerializeToString()).decode(), file


def test_every_scalar_type_has_its_connect_type_and_tag() -> None:
    schema = schema_of(proto3(SCALARS))
    kinds = {f.name: f.schema.kind for f in schema.fields}
    assert kinds == {
        **dict.fromkeys(["i32", "s32", "sf32"], SchemaType.INT32),
        **dict.fromkeys(["u32", "f32", "i64", "s64", "sf64", "u64", "f64"], SchemaType.INT64),
        "fl": SchemaType.FLOAT32, "d": SchemaType.FLOAT64, "b": SchemaType.BOOLEAN, "s": SchemaType.STRING, "raw": SchemaType.BYTES,
    }  # fmt: skip
    assert field(schema, "i32").parameters == ((TAG, "1"),)
    assert field(schema, "u32").parameters == ((TAG, "4"), (TYPE, "uint32"))
    assert all(f.schema.optional for f in schema.fields)
    assert (schema.kind, schema.name, schema.optional, schema.version) == (SchemaType.STRUCT, "M", False, None)


def test_scalars_round_trip_and_unsigned_numbers_wrap_as_in_java() -> None:
    values = {
        "i32": -(2**31), "s32": -5, "sf32": 2**31 - 1, "u32": 2**32 - 1, "f32": 7, "i64": -(2**63), "s64": -9,
        "sf64": 2**63 - 1, "u64": 2**64 - 1, "f64": 2**63, "fl": 0.5, "d": -1e300, "b": True, "s": "håll", "raw": b"\x00\xff",
    }  # fmt: skip
    descriptor = proto3(SCALARS)
    assert read(descriptor, made(descriptor, **values)) == {**values, "u64": -1, "f64": -(2**63)}


def test_unset_scalars_without_presence_have_their_default() -> None:
    assert read(proto3(SCALARS), b"") == {
        **dict.fromkeys(["i32", "s32", "sf32", "u32", "f32", "i64", "s64", "sf64", "u64", "f64"], 0),
        "fl": 0.0, "d": 0.0, "b": False, "s": "", "raw": b"",
    }  # fmt: skip


def test_unset_fields_with_the_keyword_optional_and_messages_are_null() -> None:
    descriptor = proto3("message M { optional int32 a = 1; int32 b = 2; N n = 3; repeated int32 r = 4; } message N {}")
    assert read(descriptor, b"") == {"a": None, "b": 0, "n": None, "r": []}
    assert read(descriptor, made(descriptor, a=0, n={}, r=[1, 2])) == {"a": 0, "b": 0, "n": {}, "r": [1, 2]}


def test_optional_for_nullables_leaves_plain_scalars_required() -> None:
    descriptor = proto3(
        "message M { optional int32 a = 1; int32 b = 2; N n = 3; repeated int32 r = 4; map<string, N> m = 5;"
        " oneof o { int32 x = 6; } E e = 7; } message N {} enum E { ZERO = 0; }"
    )
    schema = schema_of(descriptor, optional_for_nullables=True)
    assert {f.name: f.schema.optional for f in schema.fields} == {
        "o_0": True, "a": True, "b": False, "n": True, "r": True, "m": True, "e": True,
    }  # fmt: skip
    assert field(schema, "o_0", "x").optional
    keys = field(schema, "m").keys
    assert keys is not None
    assert not keys.optional


def test_proto2_fields_have_presence_and_declared_defaults() -> None:
    text = 'syntax = "proto2"; message M { required int32 a = 1; optional string b = 2 [default = "x"]; }'
    descriptor = message_type(registered(text), (0,))
    assert read(descriptor, b"\x08\x01") == {"a": 1, "b": None}
    assert read(descriptor, b"\x08\x01", optional_for_proto2=False) == {"a": 1, "b": "x"}
    schema = schema_of(descriptor, optional_for_nullables=True)
    assert [f.schema.optional for f in schema.fields] == [False, True]
    assert "lacks the required fields a" in failure(descriptor, b"")


def test_a_proto2_string_with_malformed_utf8_is_replaced_and_a_proto3_one_refused() -> None:
    malformed = b"\x0a\x02\xff\x41"
    proto2 = message_type(registered('syntax = "proto2"; message M { optional string s = 1; }'), (0,))
    assert read(proto2, malformed) == {"s": "�A"}
    assert failure(proto3("message M { string s = 1; }"), malformed)


def test_a_group_has_no_connect_form() -> None:
    text = 'syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }'
    with pytest.raises(SchemaError, match=r"M\.g is a group"):
        schema_of(message_type(registered(text), (0,)))


def test_a_oneof_is_a_struct_in_front_of_the_other_fields() -> None:
    descriptor = proto3("message M { int32 a = 1; oneof choice { string text = 2; int64 number = 3; } }")
    schema = schema_of(descriptor)
    assert [f.name for f in schema.fields] == ["choice_0", "a"]
    union = field(schema, "choice_0")
    assert (union.kind, union.optional, union.name) == (
        SchemaType.STRUCT,
        True,
        "io.confluent.connect.protobuf.Union.choice",
    )
    assert [(f.name, f.schema.optional, f.schema.parameters) for f in union.fields] == [
        ("text", True, ((TAG, "2"),)),
        ("number", True, ((TAG, "3"),)),
    ]
    assert read(descriptor, made(descriptor, a=1)) == {"choice_0": None, "a": 1}
    assert read(descriptor, made(descriptor, number=0)) == {"choice_0": {"text": None, "number": 0}, "a": 0}


def test_oneofs_lose_their_index_or_their_struct_by_setting() -> None:
    descriptor = proto3("message M { int32 a = 1; oneof choice { string text = 2; int64 number = 3; } }")
    payload = made(descriptor, text="t")
    assert [f.name for f in schema_of(descriptor, generate_index_for_unions=False).fields] == ["choice", "a"]
    assert read(descriptor, payload, generate_index_for_unions=False)["choice"] == {"text": "t", "number": None}
    assert [f.name for f in schema_of(descriptor, flatten_unions=True).fields] == ["text", "number", "a"]
    assert read(descriptor, payload, flatten_unions=True) == {"text": "t", "number": None, "a": 0}


def test_maps_are_sorted_pairs_named_after_their_field() -> None:
    descriptor = proto3(
        "message M { map<string, int32> word_count = 1; map<int64, N> by_id = 2; } message N { bool b = 1; }"
    )
    schema = field(schema_of(descriptor), "word_count")
    assert (schema.kind, schema.name, schema.parameters) == (SchemaType.MAP, "word_count", ((TAG, "1"),))
    assert schema.keys == ConnectSchema(SchemaType.STRING, optional=True, parameters=((TAG, "1"),))
    assert schema.values == ConnectSchema(SchemaType.INT32, optional=True, parameters=((TAG, "2"),))
    payload = made(descriptor, word_count={"b": 2, "a": 1}, by_id={7: {"b": True}, -1: {}})
    assert read(descriptor, payload) == {
        "word_count": [("a", 1), ("b", 2)],
        "by_id": [(-1, {"b": False}), (7, {"b": True})],
    }


def test_entries_spelled_out_are_a_map_of_which_the_last_entry_wins() -> None:
    body = "message M { repeated TagsEntry tags = 1; message TagsEntry { %s string key = 1; string value = 2; } message N {} }"
    for option in ("", "option map_entry = true;"):
        descriptor = proto3(body % option)
        assert field(schema_of(descriptor), "tags").kind is SchemaType.MAP
        payload = made(descriptor, tags=[{"key": "a", "value": "1"}, {"key": "a", "value": "2"}])
        assert read(descriptor, payload) == {"tags": [("a", "2")]}
        assert proto3(body % option, 0, 1).name == "N"


def test_an_enum_is_its_symbol_with_all_symbols_as_parameters() -> None:
    descriptor = proto3("message M { Color c = 1; repeated Color cs = 2; } enum Color { RED = 0; BLUE = 4; }")
    schema = field(schema_of(descriptor), "c")
    assert (schema.kind, schema.name) == (SchemaType.STRING, "Color")
    enum = "io.confluent.connect.protobuf.Enum"
    assert dict(schema.parameters) == {enum: "Color", f"{enum}.RED": "0", f"{enum}.BLUE": "4", TAG: "1"}
    assert read(descriptor, made(descriptor, c=4, cs=[0, 4])) == {"c": "BLUE", "cs": ["RED", "BLUE"]}
    assert read(descriptor, b"\x08\x09")["c"] == "UNKNOWN_ENUM_VALUE_Color_9"
    assert read(descriptor, made(descriptor, c=4), int_for_enums=True)["c"] == 4
    assert field(schema_of(descriptor, int_for_enums=True), "c").kind is SchemaType.INT32


def test_names_are_full_only_with_enhanced_support() -> None:
    descriptor = proto3("message M { N n = 1; E e = 2; map<string, N> m = 3; message N {} } enum E { Z = 0; }")
    plain, full = schema_of(descriptor), schema_of(descriptor, enhanced_protobuf_schema_support=True)
    assert [plain.name, field(plain, "n").name, field(plain, "e").name] == ["M", "N", "E"]
    assert [full.name, field(full, "n").name, field(full, "e").name] == ["shop.M", "shop.M.N", "shop.E"]
    assert field(full, "m").name == "shop._m._m"


def test_nested_messages_and_lists_of_them() -> None:
    descriptor = proto3("message M { repeated Line lines = 1; Line last = 2; message Line { string sku = 1; Note n = 2; } } "
                        "message Note { string t = 1; }")  # fmt: skip
    schema = schema_of(descriptor)
    items = field(schema, "lines").items
    assert items is not None
    assert (items.kind, items.name, items.optional, items.parameters) == (SchemaType.STRUCT, "Line", True, ())
    assert items.fields == field(schema, "last").fields
    payload = made(descriptor, lines=[{"sku": "a", "n": {"t": "x"}}, {}], last={"sku": "z"})
    assert read(descriptor, payload) == {
        "lines": [{"sku": "a", "n": {"t": "x"}}, {"sku": "", "n": None}],
        "last": {"sku": "z", "n": None},
    }


def test_structs_for_nulls_are_generated_on_demand() -> None:
    descriptor = proto3("message M { N n = 1; message N { int32 a = 1; } }")
    assert read(descriptor, b"", generate_struct_for_nulls=True) == {"n": {"a": 0}}


def test_messages_nested_deeper_than_protobuf_parses_are_refused() -> None:
    chain = "".join(f"message M{n} {{ M{n + 1} m = 1; }}" for n in range(150))
    with pytest.raises(SchemaError, match="more than 100 levels deep"):
        schema_of(proto3(chain + "message M150 {}"))


WELL_KNOWN = """
import "google/protobuf/timestamp.proto"; import "google/type/date.proto"; import "google/type/timeofday.proto";
import "confluent/type/decimal.proto"; import "confluent/meta.proto";
message M {
  google.protobuf.Timestamp at = 1; google.type.Date day = 2; google.type.TimeOfDay time = 3;
  confluent.type.Decimal price = 4 [(confluent.field_meta) = { params: [
    { key: "precision", value: "10" }, { key: "scale", value: "2" } ] }];
  confluent.type.Decimal plain = 5;
  int32 small = 6 [(confluent.field_meta).params = { key: "connect.type", value: "int8" }];
}
"""


def test_dates_times_and_decimals_are_connects_logical_types() -> None:
    schema = schema_of(proto3(WELL_KNOWN))
    assert field(schema, "at") == ConnectSchema(SchemaType.INT64, True, TIMESTAMP, 1, parameters=((TAG, "1"),))
    assert field(schema, "day") == ConnectSchema(SchemaType.INT32, True, DATE, 1, parameters=((TAG, "2"),))
    assert field(schema, "time") == ConnectSchema(SchemaType.INT32, True, TIME, 1, parameters=((TAG, "3"),))
    price = field(schema, "price")
    assert (price.kind, price.name, price.version) == (SchemaType.BYTES, DECIMAL, 1)
    assert dict(price.parameters) == {"connect.decimal.precision": "10", "scale": "2", TAG: "4"}
    assert dict(field(schema, "plain").parameters) == {"scale": "0", TAG: "5"}
    assert field(schema, "small").kind is SchemaType.INT8


def test_dates_times_and_decimals_have_connects_values() -> None:
    descriptor = proto3(WELL_KNOWN)
    payload = made(
        descriptor,
        at={"seconds": -1, "nanos": 999_999_999},
        day={"year": 1969, "month": 12, "day": 31},
        time={"hours": 23, "minutes": 59, "seconds": 59, "nanos": 999_999_999},
        price={"value": (-12345).to_bytes(2, "big", signed=True), "precision": 5, "scale": 2},
        plain={"value": b"\x30\x39", "precision": 3},
        small=200,
    )
    assert read(descriptor, payload) == {
        "at": -1, "day": -1, "time": 86_399_999, "price": Decimal("-123.45"), "plain": Decimal("1.23E+4"), "small": -56,
    }  # fmt: skip
    assert read(descriptor, made(descriptor, price={"scale": 2}))["price"].as_tuple().exponent == -2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"at": {"seconds": 253_402_300_800}}, "at: 253402300800 s"),
        ({"at": {"nanos": -1}}, "is not a timestamp"),
        ({"day": {"year": 2023, "month": 2, "day": 29}}, "day: there is no date of year 2023, month 2, day 29"),
        ({"day": {"month": 1, "day": 1}}, "year 0"),
        ({"time": {"hours": 24}}, "time: there is no time of day of 24 h"),
        ({"plain": {"scale": 2**31 - 1}}, "plain: the decimal's scale is 2147483647"),
    ],
)
def test_values_that_mean_no_date_time_or_decimal_fail_their_row_only(fields: dict[str, Any], reason: str) -> None:
    descriptor = proto3(WELL_KNOWN)
    assert reason in failure(descriptor, made(descriptor, **fields))


WRAPPED = 'import "google/protobuf/wrappers.proto"; message M { google.protobuf.StringValue s = 1; google.protobuf.UInt64Value u = 2; }'


def test_wrappers_are_structs_by_default_and_primitives_on_demand() -> None:
    descriptor = proto3(WRAPPED)
    payload = made(descriptor, s={"value": "x"}, u={"value": 2**64 - 1})
    assert field(schema_of(descriptor), "s").kind is SchemaType.STRUCT
    assert read(descriptor, payload) == {"s": {"value": "x"}, "u": {"value": -1}}
    unwrapped = schema_of(descriptor, wrapper_for_nullables=True)
    assert field(unwrapped, "s") == ConnectSchema(SchemaType.STRING, True, parameters=((TAG, "1"),))
    assert read(descriptor, payload, wrapper_for_nullables=True) == {"s": "x", "u": -1}
    assert read(descriptor, b"", wrapper_for_nullables=True) == {"s": None, "u": None}


def test_a_record_that_is_a_wrapper_is_the_primitive_in_it() -> None:
    descriptor = proto3(WRAPPED).fields_by_name["s"].message_type
    assert schema_of(descriptor) == ConnectSchema(SchemaType.STRING)
    assert read(descriptor, made(descriptor, value="x")) == "x"
    assert schema_of(descriptor, wrapper_for_raw_primitives=False).kind is SchemaType.STRUCT


def test_the_version_is_the_top_level_schemas_only() -> None:
    descriptor = proto3("message M { N n = 1; } message N {}")
    schema = translation(descriptor, options=DEFAULTS, version=3).schema
    assert (schema.version, field(schema, "n").version) == (3, None)


def test_fields_named_like_methods_and_keywords_are_read() -> None:
    descriptor = proto3("message M { int32 ListFields = 1; string class = 2; bool IsInitialized = 3; }")
    assert read(descriptor, b"\x08\x01\x12\x01x\x18\x01") == {"ListFields": 1, "class": "x", "IsInitialized": True}


def test_unknown_fields_are_ignored() -> None:
    wide = proto3("message M { int32 a = 1; string b = 99; }")
    assert read(proto3("message M { int32 a = 1; }"), made(wide, a=1, b="x")) == {"a": 1}


def test_rows_keep_their_positions_among_failures() -> None:
    descriptor = proto3("message M { int32 a = 1; }")
    payloads = pa.array([b"\x08\x01", b"\xff", b"", b"\x08", b"\x08\x02"], pa.binary())
    result = ProtobufPayloads(descriptor, DEFAULTS, version=None).decode_payloads(payloads)
    assert result.rows.tolist() == [0, 2, 4]
    assert result.values.objects() == [{"a": 1}, {"a": 0}, {"a": 2}]
    assert [row for row, _ in result.failures] == [1, 3]
    assert all("no Protobuf message shop.M" in reason for _, reason in result.failures)


def test_indexes_walk_top_level_messages_and_then_nested_ones() -> None:
    body = "message A { message B {} enum E { Z = 0; } map<string, string> m = 1; message C { message D {} } } message F {}"
    found = {indexes: proto3(body, *indexes).full_name for indexes in [(0,), (1,), (0, 0), (0, 1), (0, 1, 0)]}
    assert found == {(0,): "shop.A", (1,): "shop.F", (0, 0): "shop.A.B", (0, 1): "shop.A.C", (0, 1, 0): "shop.A.C.D"}


def test_in_a_serialized_file_map_entries_count_as_nested_messages() -> None:
    text, _ = serialized(PROTO3 + "message A { map<string, string> m = 1; message C {} }")
    assert message_type(registered(text), (0, 0)).name == "MEntry"
    assert message_type(registered(text), (0, 1)).name == "C"


@pytest.mark.parametrize("indexes", [(2,), (-1,), (0, 0), ()])
def test_indexes_out_of_range_are_errors(indexes: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="index"):
        message_type(registered(PROTO3 + "message A {} message B {}"), indexes)


@pytest.mark.parametrize("order_form", ["text", "base64"])
@pytest.mark.parametrize("customer_form", ["text", "base64"])
def test_references_resolve_in_every_mixture_of_forms(order_form: str, customer_form: str) -> None:
    name = "shop/customer.proto"
    customer = CUSTOMER if customer_form == "text" else serialized(CUSTOMER)[0]
    order = ORDER if order_form == "text" else serialized(ORDER, Reference(name, CUSTOMER))[0]
    descriptor = message_type(registered(order, Reference(name, customer)), (0,))
    assert read(descriptor, made(descriptor, customer={"name": "Ada"})) == {"customer": {"name": "Ada"}}


@pytest.mark.parametrize(
    "name",
    ["@{folder}/secret", "@scope/customer.proto", "--version", "two words.proto", 'quo"te.proto', "ü.proto", "@"],
)
def test_a_references_name_is_a_name_and_nothing_that_protoc_acts_on(name: str, tmp_path: Path, capfd) -> None:
    # protoc takes `@file` for a file of options, and repeats one that it does not know
    (tmp_path / "secret").write_text("--password=canary")
    name = name.format(folder=tmp_path)
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=[name], package="shop")
    field = file.message_type.add(name="Order").field.add(name="customer", number=1, type=11, label=1)
    field.type_name = ".shop.Customer"
    order = base64.b64encode(file.SerializeToString()).decode()
    schema = registered(order, Reference(name, CUSTOMER))
    if name.startswith("-"):
        with pytest.raises(SchemaError, match="relative path"):
            message_type(schema, (0,))
    else:
        assert message_type(schema, (0,)).fields_by_name["customer"].message_type.full_name == "shop.Customer"
    assert "canary" not in capfd.readouterr().err


@pytest.mark.parametrize("names", [("a", "a/b.proto"), ("a/b.proto", "a"), ("x" * 300,), ("\ud800.proto",)])
def test_names_that_cannot_be_files_beside_each_other_are_errors_of_the_schema(names: tuple[str, ...]) -> None:
    references = [Reference(name, PROTO3 + f"message M{number} {{}}") for number, name in enumerate(names)]
    with pytest.raises(SchemaError, match="Protobuf reference is named"):
        message_type(registered(CUSTOMER, *references), (0,))


def test_a_serialized_file_finds_the_well_known_types() -> None:
    text, _ = serialized(PROTO3 + WELL_KNOWN)
    descriptor = message_type(registered(text), (0,))
    assert schema_of(descriptor) == schema_of(proto3(WELL_KNOWN))


def test_two_schemas_may_define_one_name_differently() -> None:
    first, second = proto3("message M { int32 a = 1; }"), proto3("message M { string a = 1; }")
    assert read(first, made(first, a=1)) == {"a": 1}
    assert read(second, made(second, a="x")) == {"a": "x"}


def test_a_serialized_file_names_the_import_it_lacks() -> None:
    text, _ = serialized(ORDER, Reference("shop/customer.proto", CUSTOMER))
    with pytest.raises(SchemaError, match=r"imports 'shop/customer\.proto', which is neither among its references"):
        message_type(registered(text), (0,))


def test_serialized_files_that_import_each_other_are_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x", dependency=["a.proto"])
    a = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["a.proto"])
    texts = [base64.b64encode(proto.SerializeToString()).decode() for proto in (file, a)]
    with pytest.raises(SchemaError, match=r"circle: a\.proto -> a\.proto"):
        message_type(registered(texts[0], Reference("a.proto", texts[1])), (0,))


def test_without_grpcio_tools_text_is_refused_and_serialized_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = serialized(CUSTOMER)
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    assert message_type(registered(text), (0,)).name == "Customer"
    with pytest.raises(SchemaError, match="grpcio-tools"):
        message_type(registered(CUSTOMER), (0,))


EVERYTHING = proto3(
    SCALARS.replace("message M", "message S")
    + WELL_KNOWN.replace("message M {", "message M { S all = 20; repeated S many = 21; map<int32, S> by = 22; oneof o { S x = 23; "
                         "string y = 24; } optional bool z = 25; repeated double packed = 26;"),
    1,
)  # fmt: skip
DECODER = ProtobufPayloads(EVERYTHING, DEFAULTS, version=None)


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=60) | st.binary(max_size=30).map(lambda raw: b"\xa2\x01" + bytes([len(raw)]) + raw)))
def test_random_bytes_are_values_or_failures_and_never_raise(payloads: list[bytes]) -> None:
    result = DECODER.decode_payloads(pa.array(payloads, pa.binary()))
    assert sorted([*result.rows.tolist(), *(row for row, _ in result.failures)]) == list(range(len(payloads)))
    assert all(set(value) == {"all", "many", "by", "o_0", "z", "packed", "at", "day", "time", "price", "plain", "small"}
               for value in result.values.objects())  # fmt: skip
    assert all(reason for _, reason in result.failures)


@settings(max_examples=examples(200))
@given(st.binary(max_size=60))
@example(b"\x1a\x04\x00\x00\x00\x80")  # imports a name that is no UTF-8
def test_random_bytes_in_base64_are_a_schema_or_a_schema_error(raw: bytes) -> None:
    with suppress(SchemaError):
        assert message_type(registered(base64.b64encode(raw).decode()), (0,)).fields is not None
