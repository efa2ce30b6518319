"""Any message of any type: is it read as what it says, and can every format hold it or say why not?"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.converter import Payloads
from kafka_s3.connect.converters.protobuf import ProtobufPayloads
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.protobuf import ProtobufOptions
from kafka_s3.connect.schemas.protobuf_descriptors import message_type
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.format import Format
from kafka_s3.objects.parquet import parquet_format
from kafka_s3.objects.text import json_format
from tests.support.examples import examples

FORMATS: dict[str, Format] = {
    "json": json_format(gzip_level=None, decimals="BASE64"),
    "json, decimals in digits": json_format(gzip_level=None, decimals="NUMERIC"),
    "avro": avro_format("null", AvroOptions()),
    "parquet": parquet_format("snappy", AvroOptions()),
}
SCALE = '[(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}]'
HEAD = """syntax = "proto3"; package shop;
import public "confluent/meta.proto"; import public "confluent/type/decimal.proto"; import public "google/protobuf/timestamp.proto";
import public "google/protobuf/wrappers.proto"; import public "google/type/date.proto"; import public "google/type/timeofday.proto";
enum Size { SMALL = 0; LARGE = 5; }
message Inner { sint64 n = 1; repeated string s = 2; optional bytes b = 3; }
"""


def ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def hundredths(unscaled: int) -> Decimal:
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -2))


@dataclass(frozen=True)
class Kind:
    """A field's type: what may be set, how (None: as it is), what it reads as, and what an unset field reads as."""

    name: str
    values: st.SearchStrategy[Any]
    read: Callable[[Any], Any] = lambda value: value
    unset: Any = 0
    fill: Callable[[Any, Any], None] | None = None
    options: str = ""


def members(*names: str) -> Callable[[Any, Any], None]:
    def fill(message: Any, value: Any) -> None:
        message.SetInParent()
        for name, member in zip(names, value, strict=True):
            setattr(message, name, member)

    return fill


def inner(message: Any, value: Any) -> None:
    message.SetInParent()
    message.n = value["n"]
    message.s.extend(value["s"])
    if value["b"] is not None:
        message.b = value["b"]


SHORT = ints(-(2**31), 2**31 - 1)
LONG = ints(-(2**63), 2**63 - 1)
DOUBLE = st.floats()
INNER = st.fixed_dictionaries(
    {"n": LONG, "s": st.lists(st.text(max_size=3), max_size=2), "b": st.none() | st.binary(max_size=3)}
)
DAYS = st.dates()
NANOS = ints(0, 10**9 - 1)
SCALARS = [
    Kind("int32", SHORT), Kind("sint32", SHORT), Kind("sfixed32", SHORT), Kind("uint32", ints(0, 2**32 - 1)),
    Kind("fixed32", ints(0, 2**32 - 1)),
    Kind("int64", LONG), Kind("sint64", LONG), Kind("sfixed64", LONG), Kind("uint64", ints(0, 2**64 - 1), signed),
    Kind("fixed64", ints(0, 2**64 - 1), signed), Kind("bool", st.booleans(), unset=False), Kind("string", st.text(max_size=5), unset=""),
    Kind("double", DOUBLE, unset=0.0), Kind("float", DOUBLE, float32, unset=0.0), Kind("bytes", st.binary(max_size=5), unset=b""),
]  # fmt: skip
KEYS = [kind for kind in SCALARS if kind.name not in ("double", "float", "bytes")]
SYMBOLS = {0: "SMALL", 5: "LARGE", -3: "UNKNOWN_ENUM_VALUE_Size_-3"}
KINDS = [
    *SCALARS,
    Kind("Size", st.sampled_from(sorted(SYMBOLS)), SYMBOLS.__getitem__, unset="SMALL"),
    Kind("Inner", INNER, unset=None, fill=inner),
    Kind("google.protobuf.StringValue", st.tuples(st.text(max_size=3)), lambda v: {"value": v[0]}, None, members("value")),
    Kind("google.protobuf.UInt64Value", st.tuples(ints(0, 2**64 - 1)), lambda v: {"value": signed(v[0])}, None, members("value")),
    Kind("google.protobuf.Timestamp", st.tuples(ints(-62_135_596_800, 253_402_300_799), NANOS),
         lambda v: v[0] * 1000 + v[1] // 10**6, None, members("seconds", "nanos")),
    Kind("google.type.Date", DAYS.map(lambda day: (day.year, day.month, day.day)),
         lambda v: (datetime.date(*v) - datetime.date(1970, 1, 1)).days, None, members("year", "month", "day")),
    Kind("google.type.TimeOfDay", st.tuples(ints(0, 23), ints(0, 59), ints(0, 59), NANOS),
         lambda v: ((v[0] * 60 + v[1]) * 60 + v[2]) * 1000 + v[3] // 10**6, None, members("hours", "minutes", "seconds", "nanos")),
    Kind("confluent.type.Decimal", ints(-(10**30), 10**30).map(lambda n: (n.to_bytes(14, "big", signed=True), 2)),
         lambda v: hundredths(int.from_bytes(v[0], "big", signed=True)), None, members("value", "scale"), SCALE),
]  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One field of a message: how it is declared, what is set (None: nothing), and what it has to be read as."""

    declared: str
    name: str
    fill: Callable[[Any], None]
    expected: Any


def put(message: Any, name: str, kind: Kind, value: Any) -> None:
    if kind.fill is None:
        setattr(message, name, value)
    else:
        kind.fill(getattr(message, name), value)


def single(draw: st.DrawFn, number: int, kind: Kind) -> Member:
    name, value = f"f{number}", draw(st.none() | kind.values)
    keyword = "optional " if draw(st.booleans()) else ""
    unset = None if keyword else kind.unset
    return Member(
        f"{keyword}{kind.name} {name} = {number} {kind.options};",
        name,
        lambda message: put(message, name, kind, value) if value is not None else None,
        unset if value is None else kind.read(value),
    )


def repeated(draw: st.DrawFn, number: int, kind: Kind) -> Member:
    name, values = f"f{number}", draw(st.lists(kind.values, max_size=3))

    def fill(message: Any) -> None:
        for value in values:
            if kind.fill is None:
                getattr(message, name).append(value)
            else:
                kind.fill(getattr(message, name).add(), value)

    return Member(f"repeated {kind.name} {name} = {number} {kind.options};", name, fill, list(map(kind.read, values)))


def mapped(draw: st.DrawFn, number: int, kind: Kind) -> Member:
    name, key = f"f{number}", draw(st.sampled_from(KEYS))
    values = draw(st.dictionaries(key.values, kind.values, max_size=3))

    def fill(message: Any) -> None:
        for place, value in values.items():
            if kind.fill is None:
                getattr(message, name)[place] = value
            else:
                kind.fill(getattr(message, name)[place], value)

    expected = [(key.read(place), kind.read(values[place])) for place in sorted(values)]
    return Member(f"map<{key.name}, {kind.name}> {name} = {number};", name, fill, expected)


def one_of(draw: st.DrawFn, number: int, kind: Kind) -> Member:
    name, other = f"f{number}", draw(st.sampled_from(SCALARS))
    value, branch = draw(st.none() | kind.values), draw(st.booleans())
    chosen, branch_name = (kind, f"{name}a") if branch or value is None else (kind, f"{name}b")
    first, second = (kind, other) if branch_name.endswith("a") else (other, kind)
    read = None if value is None else {f"{name}a": None, f"{name}b": None, branch_name: kind.read(value)}
    return Member(
        f"oneof {name} {{ {first.name} {name}a = {number} {first.options}; {second.name} {name}b = {number + 1} {second.options}; }}",
        name,
        lambda message: put(message, branch_name, chosen, value) if value is not None else None,
        read,
    )


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, list[Member]]:
    """The text of a message type, and its members."""
    found = []
    for place in range(draw(st.integers(1, 5))):
        shape = draw(st.sampled_from([single, single, repeated, mapped, one_of]))
        kind = draw(st.sampled_from([kind for kind in KINDS if shape is not mapped or not kind.options]))
        found.append(shape(draw, 1 + 2 * place, kind))
    return HEAD + "message M { " + " ".join(member.declared for member in found) + " }", found


def decoder(text: str) -> tuple[ProtobufPayloads, Any]:
    descriptor = message_type(RegisteredSchema(Language.PROTOBUF, text), (1,))
    return ProtobufPayloads(descriptor, ProtobufOptions(), version=None), message_factory.GetMessageClass(descriptor)


def shown(value: Any) -> Any:
    """A form in which equal values are equal, also those that are not numbers, and members come in any order."""
    if isinstance(value, dict):
        return {name: shown(member) for name, member in value.items()}
    return [shown(item) for item in value] if isinstance(value, list | tuple) else repr(value)


def written(payloads: Payloads, schema: Any) -> dict[str, str]:
    """What each format says that cannot take the values; those that can have taken them."""
    refused = {}
    for name, form in FORMATS.items():
        offsets = np.arange(len(payloads.rows), dtype=np.int64)
        fitted = form.accept(Run(offsets, offsets, payloads.values, schema))
        if isinstance(fitted, str):
            refused[name] = fitted
        elif len(fitted):
            encoder = form.open(schema)
            encoder.append(fitted)
            encoder.finish()
            assert encoder.take()
    return refused


@settings(max_examples=examples(150))
@given(messages())
def test_any_message_of_any_type_is_read_and_written_in_every_format(drawn: tuple[str, list[Member]]) -> None:
    text, found = drawn
    payloads, make = decoder(text)
    message = make()
    for member in found:
        member.fill(message)

    decoded = payloads.decode_payloads(pa.array([message.SerializeToString()], pa.binary()))
    assert decoded.failures == []
    (value,) = decoded.values.objects()
    for member in found:
        (name,) = (
            name for name in value if name.partition("_")[0] == member.name
        )  # a oneof has its index behind its name
        assert shown(value[name]) == shown(member.expected), member.declared
    assert written(decoded, payloads.schema) == {}


TEXT = HEAD + "message M { " + " ".join(
    f"{kind.name} a{n} = {n} {kind.options}; repeated {kind.name} b{n} = {n + 50} {kind.options};" for n, kind in enumerate(KINDS, start=1)
) + " map<int32, Inner> m = 200; oneof o { Inner i = 201; string t = 202; } }"  # fmt: skip
EVERYTHING, MAKE = decoder(TEXT)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message of all kinds with something cut, put in or changed."""
    message = MAKE()
    for number in draw(st.lists(st.integers(1, len(KINDS)), max_size=6, unique=True)):
        kind = KINDS[number - 1]
        put(message, f"a{number}", kind, draw(kind.values))
    raw = bytearray(message.SerializeToString())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(["cut", "insert", "change"])):
            case "cut":
                del raw[place : place + draw(st.integers(1, 6))]
            case "insert":
                raw[place:place] = draw(st.binary(max_size=6))
            case _ if place < len(raw):
                raw[place] = draw(st.integers(0, 255))
    return bytes(raw)


@settings(max_examples=examples(200))
@given(st.lists(damaged() | st.binary(max_size=40), max_size=4))
def test_damaged_messages_are_failures_or_values_that_formats_take_or_refuse(raw: list[bytes]) -> None:
    decoded = EVERYTHING.decode_payloads(pa.array(raw, pa.binary()))

    assert sorted([*decoded.rows.tolist(), *(row for row, _ in decoded.failures)]) == list(range(len(raw)))
    assert all(written(decoded, EVERYTHING.schema).values() or [True])


def with_decimal(raw: bytes, *, scale: int) -> Payloads:
    message = MAKE()
    decimal = getattr(message, f"a{len(KINDS)}")
    decimal.value, decimal.scale = raw, scale
    return EVERYTHING.decode_payloads(pa.array([message.SerializeToString()], pa.binary()))


def test_a_decimal_of_a_megabyte_is_a_failure_and_not_an_hour_of_arithmetic() -> None:
    assert "1000000 bytes" in with_decimal(b"\x7f" * 1_000_000, scale=2).failures[0][1]


@pytest.mark.parametrize(("raw", "scale"), [(b"\x01", 5), (b"\x01", -400), (b"\x01", 32767), (b"\x7f" * 3000, 2)])
def test_a_decimal_of_another_size_than_its_schemas_is_refused_or_written_by_every_format(
    raw: bytes, scale: int
) -> None:
    assert all(written(with_decimal(raw, scale=scale), EVERYTHING.schema).values())
