"""How do header converters read a header's bytes, and which text is stored?"""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.converters.headers import header_reader, header_row, header_text
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"),
        (b"", ""),
        (b" spaced ", " spaced "),
        (b"1.50", "1.5"),
        (b"7.0", "7"),
        (b"007", "7"),
        (b"-0", "0"),
        (b"+5", "5"),
        (b" 42 ", "42"),
        (b".5", "0.5"),
        (b"1e3", "1000"),
        (b"0.1", "0.1"),
        (b"0.0001", "1.0E-4"),
        (b"16777217.5", "1.6777218E7"),  # a 32-bit float has no more digits
        (b"3.141592653589793", "3.1415927"),
        (b"9223372036854775807", "9223372036854775807"),
        (b"9223372036854775808", "9223372036854775808"),  # beyond a long, a decimal keeps its digits
        (b"-9223372036854775808", "-9223372036854775808"),
        (b"99999999999999999999", "99999999999999999999"),
        (b"99999999999999999999.0", "1.0E20"),
        (b"1e20", "1.0E20"),
        (b"1e40", "1.0E40"),
        (b"-1.5e40", "-1.5E40"),
        (b"1e400", "1E+400"),
        (b"1e-400", "0.0"),
        (b"-1e-400", "-0.0"),
        (b"1e99999", "1e99999"),
        (b"9" * 70, "9" * 70),
        (b"NaN", "NaN"),
        (b"0x10", "0x10"),
        (b"1_000", "1_000"),
        (b"1,5", "1,5"),
        (b'"quoted"', "quoted"),
        (b'"7.0"', "7.0"),
        (b'"a \\"b\\" c"', 'a "b" c'),
        (b'"a\nb"', "a\nb"),
        (b'"open', '"open'),
        (b'say "hi"', 'say "hi"'),
        ("ä😀".encode(), "ä😀"),
        (b"\xff\xfea", "��a"),
        (b"\xe2\x98", "�"),
        (b"\x00", "\x00"),
    ],
)
def test_text_numbers_and_quotes_are_read_and_written_as_connect_does(raw: bytes, text: str) -> None:
    assert header_text(raw) == text


def test_a_header_without_a_value_stays_without() -> None:
    row = header_row([{"key": "a", "value": None}, {"key": "a", "value": b"1.0"}], header_text)
    assert row == [{"key": "a", "value": None}, {"key": "a", "value": "1"}]
    assert header_row([], header_text) == []


@given(st.binary(max_size=80))
def test_any_bytes_become_text_that_utf_8_can_hold(raw: bytes) -> None:
    text = header_text(raw)

    assert text is not None
    text.encode()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_fraction_is_the_same_32_bit_number_afterwards(value: float) -> None:
    text = header_text(repr(value).encode())

    assert text is not None
    assert struct.pack("f", float(text)) == struct.pack("f", value) or value == 0
    assert math.isfinite(float(text))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_whole_number_of_64_bits_keeps_every_digit(value: int) -> None:
    assert header_text(str(value).encode()) == str(value)
    assert header_text(f"{value}.00".encode()) == str(value)


FORMAT = "io.confluent.connect.s3.format.json.JsonFormat"
STORED = {"store.kafka.headers": "true", "headers.format.class": FORMAT, "flush.size": "2"}


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("simple", b"1.50", "1.5"),
        ("string", b"1.50", "1.50"),
        ("string", b"\xff", "\ufffd"),
        ("bytes", b"\x00\xff", "AP8="),
        ("integer", struct.pack(">i", -7), "-7"),
        ("long", struct.pack(">q", 2**40), str(2**40)),
        ("double", struct.pack(">d", 2.5), "2.5"),
        ("boolean", b"\x01", "true"),
        ("json", b'{"schema": {"type": "string"}, "payload": "x"}', "x"),
        ("json", b'{"schema": null, "payload": {"a": [1]}}', '{"a":[1]}'),
        ("json", b'{"schema": null, "payload": null}', None),
    ],
)
def test_a_header_becomes_the_text_of_its_converter(name: str, raw: bytes, text: str | None) -> None:
    assert header_reader(name)(raw) == text


@pytest.mark.parametrize(
    ("name", "raw"), [("json", b"{"), ("json", b'{"a": 1}'), ("integer", b"\x00"), ("boolean", b"\x02")]
)
def test_bytes_that_are_none_of_the_converters_are_an_error(name: str, raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        header_reader(name)(raw)


def test_plain_json_needs_no_envelope() -> None:
    assert header_reader("json", envelope="")(b'{"a": 1}') == '{"a":1}'


def test_a_header_that_cannot_be_read_is_a_dead_letter_of_the_header_converter() -> None:
    converter = {
        "header.converter": "org.apache.kafka.connect.json.JsonConverter",
        "header.converter.schemas.enable": "false",
    }
    world = World({**STORED, **TOLERANT, **converter})
    for offset, header in enumerate((b'"a"', b"{", b"7")):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n": 1}', (("h", header),)))
    world.start().poll_and_commit()
    objects = world.objects()
    assert objects["topics/orders/partition=0/orders+0+0000000000.headers.json"] == [
        {"headers": [{"key": "h", "value": "a"}]},
        {"headers": [{"key": "h", "value": "7"}]},
    ]
    (count,) = (entry.dead_letters[ORDERS] for entry in world.entries() if ORDERS in entry.dead_letters)
    assert json.dumps(dict(count.stages)) == '{"HEADER_CONVERTER": 1}'
