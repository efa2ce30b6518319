"""Connect values pass through Avro's binary form unchanged, and bad data is refused."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.schemas.avro_schemas import avro_schema, connect_schema_of_avro
from kafka_s3.connect.schemas.avro_types import CONVERTER_OPTIONS, AvroOptions
from kafka_s3.connect.schemas.avro_values import ANYTHING, Datum, decoder, encoder, measuring_decoder
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
from tests.support.examples import examples

SINK = AvroOptions()
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN", "BLUE"]}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def body(avro: Any, datum: Any) -> bytes:
    """The binary form that another implementation gives."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(avro))), datum)
    return out.getvalue()


def read(avro: Any, data: bytes) -> Any:
    return decoder(avro, connect_schema_of_avro(avro, options=SINK))(data)


def both_ways(schema: ConnectSchema, value: Any) -> Any:
    """The value after it was written and read as a field: a plain bytes payload would be read without length."""
    outer = ConnectSchema(SchemaType.STRUCT, fields=(Field("v", schema),))
    avro = avro_schema(outer, options=SINK)
    return decoder(avro, outer)(encoder(outer, avro)({"v": value}))["v"]


CASES: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("int", -(2**31), -(2**31)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("float", 1.5, 1.5),
    ("double", 0.1, 0.1),
    ("string", "é ☃", "é ☃"),
    (["null", "string"], None, None),
    (["string", "null"], "x", "x"),
    ({"type": "array", "items": "long"}, [1, -2, 300], [1, -2, 300]),
    ({"type": "map", "values": "int"}, {"a": 1, "b": 2}, [("a", 1), ("b", 2)]),
    (COLOUR, "BLUE", "BLUE"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", b"abc"),
    ({"type": "int", "connect.type": "int8"}, -5, -5),
    (["null", "string", "long", COLOUR], ("Colour", "GREEN"), {"string": None, "long": None, "Colour": "GREEN"}),
    (["null", "string", "long"], None, None),
    (record({"name": "a", "type": "int"}, {"name": "b", "type": "string"}), {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (
        ["string", record({"name": "a", "type": "int"}, name="A"), record({"name": "a", "type": "int"}, name="B")],
        ("B", {"a": 1}),
        {"string": None, "A": None, "B": {"a": 1}},
    ),
    (
        {
            "type": "array",
            "items": {**record({"name": "value", "type": "string"}, {"name": "key", "type": "int"}),
                      "connect.internal.type": "MapEntry"},
        },
        [{"key": 1, "value": "one"}],
        [(1, "one")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("avro", "datum", "value"), CASES)
def test_what_others_wrote_is_read_and_written_alike(avro: Any, datum: Any, value: Any) -> None:
    data = body(avro, datum)
    schema = connect_schema_of_avro(avro, options=SINK)
    assert schema is not None
    assert decoder(avro, schema)(data) == value
    target = avro_schema(schema, options=SINK)
    assert both_ways(schema, value) == value
    assert encoder(schema, target)(value) == body(target, datum)


LOGICAL_CASES = [
    (TIMESTAMP, SchemaType.INT64, 1705312800123, ()),
    (TIMESTAMP, SchemaType.INT64, -1, ()),
    (DATE, SchemaType.INT32, 19737, ()),
    (TIME, SchemaType.INT32, 3_600_000, ()),
    (DECIMAL, SchemaType.BYTES, Decimal("123.45"), (("scale", "2"),)),
    (DECIMAL, SchemaType.BYTES, Decimal("-0.01"), (("scale", "2"),)),
    (DECIMAL, SchemaType.BYTES, Decimal("1" * 62 + ".25"), (("scale", "2"),)),
    (DECIMAL, SchemaType.BYTES, Decimal("1200"), (("scale", "-2"),)),
]


@pytest.mark.parametrize(("name", "kind", "value", "parameters"), LOGICAL_CASES)
def test_logical_types_keep_their_connect_form(
    name: str, kind: SchemaType, value: Any, parameters: tuple[Any, ...]
) -> None:
    assert both_ways(ConnectSchema(kind, name=name, version=1, parameters=parameters), value) == value


def test_decimals_are_what_other_readers_expect() -> None:
    schema = ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
    avro = avro_schema(schema, options=SINK)
    data = encoder(schema, avro)(Decimal("-1.28"))
    assert data == b"\x02\x80"
    assert fastavro.schemaless_reader(io.BytesIO(data), avro, None) == Decimal("-1.28")
    assert encoder(schema, avro)(Decimal("1.5")) == b"\x04\x00\x96"
    with pytest.raises(SchemaError, match="more digits after the point than the scale 2"):
        encoder(schema, avro)(Decimal("1.234"))
    for number in ("NaN", "1E+999999"):
        with pytest.raises(SchemaError, match="not finite or too large"):
            encoder(schema, avro)(Decimal(number))


def test_a_fixed_decimal_fills_its_size() -> None:
    avro = {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2}
    schema = connect_schema_of_avro(avro, options=SINK)
    assert schema is not None
    for text in ("-1.28", "1.28"):
        data = body(avro, Decimal(text))
        assert decoder(avro, schema)(data) == Decimal(text)
        assert encoder(schema, avro_schema(schema, options=SINK))(Decimal(text)) == data


def test_a_plain_bytes_payload_is_the_value_without_length() -> None:
    assert read("bytes", b"\x06abc") == b"\x06abc"
    assert read({"type": "bytes"}, b"") == b""
    assert read(["null", "bytes"], b"\x02\x06abc") == b"abc"
    assert read({"type": "bytes", "logicalType": "decimal", "scale": 1}, b"\x0f") == Decimal("1.5")
    assert encoder(ConnectSchema(SchemaType.BYTES), "bytes")(b"abc") == b"\x06abc"


def test_bytes_after_the_datum_are_ignored_and_can_be_distinguished_from_it() -> None:
    avro = record({"name": "a", "type": "int"})
    assert read(avro, b"\x02 and more") == {"a": 1}
    assert measuring_decoder(avro, connect_schema_of_avro(avro, options=SINK))(Datum.of(b"\x02 and more")) == (
        {"a": 1},
        1,
    )


def test_text_that_is_not_utf_8_is_read_with_replacements() -> None:
    assert read("string", b"\x04\xff!") == "�!"
    assert encoder(ConnectSchema(SchemaType.STRING), "string")("\ud800") == b"\x02?"


def test_small_integers_wrap_around() -> None:
    assert read({"type": "int", "connect.type": "int8"}, body("int", 200)) == -56
    assert read({"type": "int", "connect.type": "int16"}, body("int", 40_000)) == -25_536


def test_null_in_a_field_with_a_default_is_the_default() -> None:
    avro = record({"name": "a", "type": [{"type": "string", "connect.default": "x"}, "null"]})
    assert read(avro, b"\x02") == {"a": "x"}
    schema = read_schema({"type": "struct", "fields": [{"field": "a", "type": "int32", "default": 7}]})
    target = avro_schema(schema, options=SINK)
    assert encoder(schema, target)({"a": None}) == encoder(schema, target)({}) == b"\x0e"


ENVELOPE = record(
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "colour", "type": COLOUR},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "ratio", "type": "double"},
    {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 4}},
)
DATUM = {"id": 1 << 40, "name": "n", "colour": "RED", "tags": ["a", "bc"], "ratio": 0.5, "raw": b"1234"}


def test_data_cut_anywhere_is_refused() -> None:
    data = body(ENVELOPE, DATUM)
    decode = decoder(ENVELOPE, connect_schema_of_avro(ENVELOPE, options=SINK))
    assert decode(data) == DATUM
    for end in range(len(data)):
        with pytest.raises(SchemaError, match="ends too early"):
            decode(data[:end])


@given(data=st.binary(max_size=60))
@settings(max_examples=examples(300))
def test_any_bytes_give_a_value_or_a_schema_error(data: bytes) -> None:
    for avro in (ENVELOPE, ANYTHING, {"type": "array", "items": ENVELOPE}):
        decode = measuring_decoder(avro, connect_schema_of_avro(avro, options=SINK))
        try:
            _, end = decode(Datum.of(data))
        except SchemaError:
            continue
        assert 0 <= end <= len(data)


@pytest.mark.parametrize(
    ("avro", "data", "message"),
    [
        ("int", body("long", 2**31), "more than 32 bits"),
        ("long", b"\xff" * 20, "longer than 10 bytes"),
        ("long", b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        ("string", b"\x05", "negative"),
        ("string", body("long", 1 << 62), "ends too early"),
        (["null", "int"], b"\x04", "position 2 among 2"),
        (["null", "int"], b"\x01", "position -1 among 2"),
        (COLOUR, b"\x01", "position -1 among 3"),
        (COLOUR, b"\x06", "position 3 among 3"),
        ({"type": "array", "items": "int"}, body("long", 1 << 60), "1,152,921,504,606,846,976 items of 1 each"),
        ({"type": "array", "items": record(name="Empty")}, body("long", 1 << 60) + b"\0", "would become more than"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
            body("long", -(1 << 60)) + b"\0\0",
            "would become more than",
        ),
    ],
)
def test_malformed_data_is_refused_at_once(avro: Any, data: bytes, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read(avro, data)


def test_blocks_with_their_size_and_few_items_of_no_size_are_read() -> None:
    sized = body("long", -2) + body("long", 2) + b"\x02\x04" + b"\0"
    assert read({"type": "array", "items": "int"}, sized) == [1, 2]
    assert read({"type": "array", "items": record(name="Empty")}, body("long", 3) + b"\0") == [{}, {}, {}]


def test_a_union_index_of_two_bytes_is_read() -> None:
    assert read(["null", "int"], b"\x82\x00\x08") == 4
    assert read(["null", "int"], b"\x80\x00") is None


SCHEMALESS = [
    None,
    True,
    -7,
    2**63 - 1,
    0.5,
    "text",
    b"raw",
    [1, "a", None, [True]],
    {"a": {"b": [1.5, {}]}, "c": None},
]


@pytest.mark.parametrize("value", SCHEMALESS)
def test_schemaless_values_come_back(value: Any) -> None:
    data = encoder(None, ANYTHING)(value)
    assert decoder(ANYTHING, None)(data) == value
    datum = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(json.loads(json.dumps(ANYTHING))), None)
    assert isinstance(datum, dict)
    assert sum(item is not None for item in datum.values()) == (value is not None)


def test_whole_numbers_without_schema_are_longs() -> None:
    data = encoder(None, ANYTHING)(5)
    assert data == b"\0" * 5 + b"\x02\x0a" + b"\0" * 3
    assert decoder(ANYTHING, None)(b"\0" * 4 + b"\x02\x0a" + b"\0" * 4) == 5


def test_schemaless_maps_with_other_keys_are_pairs() -> None:
    pair = encoder(None, ANYTHING)(1) + encoder(None, ANYTHING)("one")
    assert decoder(ANYTHING, None)(b"\0" * 8 + b"\x02\x02" + pair + b"\0") == [[1, "one"]]


@pytest.mark.parametrize("value", [2**63, {1, 2}, Decimal(1), object()])
def test_schemaless_values_of_unknown_types_are_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"Unknown type for schemaless data|more than 64 bits"):
        encoder(None, ANYTHING)(value)


def test_values_nested_too_deeply_are_refused() -> None:
    value: Any = 1
    for _ in range(3000):
        value = [value]
    with pytest.raises(SchemaError, match="deeper than 100 levels"):
        encoder(None, ANYTHING)(value)
    with pytest.raises(SchemaError, match="deeper than 100 levels"):
        decoder(ANYTHING, None)((b"\0" * 7 + b"\x02\x02") * 3000)


@pytest.mark.parametrize(
    ("document", "value", "message"),
    [
        ({"type": "int8"}, 128, "does not fit the type int8"),
        ({"type": "int32"}, "1", "Invalid type for int32: str"),
        ({"type": "int64"}, True, "Invalid type for int64: bool"),
        ({"type": "int64"}, None, "null value for non-optional schema of type int64"),
        ({"type": "float"}, 1e300, "too large"),
        ({"type": "double"}, "x", "Invalid type for floating point: str"),
        ({"type": "boolean"}, 1, "Invalid type for boolean: int"),
        ({"type": "string"}, b"x", "Invalid type for string: bytes"),
        ({"type": "bytes"}, "x", "Invalid type for bytes: str"),
        ({"type": "array", "items": {"type": "int32"}}, {}, "Invalid type for array: dict"),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, [(None, 1)], "null value"),
        ({"type": "struct", "fields": []}, [], "Invalid type for struct: list"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "1"}}, 1.5, "Invalid type for Decimal: float"),
    ],
)
def test_values_that_do_not_fit_are_refused(document: dict[str, Any], value: Any, message: str) -> None:
    schema = read_schema(document)
    with pytest.raises(SchemaError, match=message):
        encoder(schema, avro_schema(schema, options=SINK))(value)


def test_the_error_names_the_field() -> None:
    inner = {"type": "struct", "field": "at", "fields": [{"field": "x", "type": "int32"}]}
    schema = read_schema({"type": "struct", "fields": [inner]})
    with pytest.raises(SchemaError, match=r"^at: x: Invalid type for int32: str"):
        encoder(schema, avro_schema(schema, options=SINK))({"at": {"x": "1"}})


def test_symbols_and_sizes_are_checked_when_written() -> None:
    for avro, value in ((COLOUR, "PINK"), ({"type": "fixed", "name": "F", "size": 3}, b"ab")):
        schema = connect_schema_of_avro(avro, options=SINK)
        assert schema is not None
        with pytest.raises(SchemaError, match=r"is not among the enum's symbols|does not fit the fixed size"):
            encoder(schema, avro_schema(schema, options=SINK))(value)
        with pytest.raises(SchemaError, match="null value"):
            encoder(connect_schema_of_avro(["int", "string"], options=SINK), ["int", "string"])({})


SCALARS: list[tuple[ConnectSchema, st.SearchStrategy[Any]]] = [
    (ConnectSchema(SchemaType.INT8), st.integers(-(2**7), 2**7 - 1)),
    (ConnectSchema(SchemaType.INT16), st.integers(-(2**15), 2**15 - 1)),
    (ConnectSchema(SchemaType.INT32), st.integers(-(2**31), 2**31 - 1)),
    (ConnectSchema(SchemaType.INT64), st.integers(-(2**63), 2**63 - 1)),
    (ConnectSchema(SchemaType.FLOAT32), st.floats(width=32, allow_nan=False)),
    (ConnectSchema(SchemaType.FLOAT64), st.floats(allow_nan=False)),
    (ConnectSchema(SchemaType.BOOLEAN), st.booleans()),
    (ConnectSchema(SchemaType.STRING), st.text()),
    (ConnectSchema(SchemaType.BYTES), st.binary()),
    (
        ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=(("scale", "3"),)),
        st.decimals(places=3, allow_nan=False, allow_infinity=False, min_value=-(10**24), max_value=10**24),
    ),
]  # fmt: skip


@st.composite
def schemas_with_values(draw: st.DrawFn, depth: int = 3) -> tuple[ConnectSchema, st.SearchStrategy[Any]]:
    """A schema, and what its values are drawn from."""
    kind = draw(st.sampled_from(["scalar", "optional", "array", "map", "pairs", "struct"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "struct":
        members = [draw(schemas_with_values(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        fields = tuple(Field(f"f{place}", schema) for place, (schema, _) in enumerate(members))
        values = st.fixed_dictionaries({f"f{place}": value for place, (_, value) in enumerate(members)})
        return ConnectSchema(SchemaType.STRUCT, fields=fields), values
    schema, values = draw(schemas_with_values(depth - 1))
    if kind == "optional":
        return optional(schema), st.none() | values
    if kind == "array":
        return ConnectSchema(SchemaType.ARRAY, items=schema), st.lists(values, max_size=3)
    # Only one map without string keys can be in a schema unless it has a name: their entries are one type.
    name = f"Map{draw(st.uuids()).hex}" if kind == "pairs" else None
    keys, key = (
        (ConnectSchema(SchemaType.INT32), st.integers(0, 9))
        if kind == "pairs"
        else (ConnectSchema(SchemaType.STRING), st.text())
    )
    pairs = st.lists(st.tuples(key, values), max_size=3)
    return ConnectSchema(SchemaType.MAP, name=name, keys=keys, values=schema), pairs


def optional(schema: ConnectSchema) -> ConnectSchema:
    return ConnectSchema(**{name: getattr(schema, name) for name in schema.__slots__} | {"optional": True})


@given(data=st.data())
@settings(max_examples=examples(150))
def test_any_value_of_any_schema_comes_back(data: st.DataObject) -> None:
    schema, values = data.draw(schemas_with_values())
    value = data.draw(values)
    avro = avro_schema(schema, options=SINK)
    assert both_ways(schema, value) == value
    assert connect_schema_of_avro(avro, options=CONVERTER_OPTIONS) == schema
    found = fastavro.schemaless_reader(io.BytesIO(encoder(schema, avro)(value)), fastavro.parse_schema(avro), None)
    assert (found is None) == (value is None)
