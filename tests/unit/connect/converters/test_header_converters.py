"""Header values become text by the header converter that is configured."""

from __future__ import annotations

import json
import struct

import pytest

from kafka_s3.connect.converters.headers import header_reader
from kafka_s3.testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World

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
