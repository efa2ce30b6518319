"""With record.metadata.enable every row says where in Kafka it comes from."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.converters.whole_records import DATA_URL, bytes_of_text, text_of_bytes
from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.memory_world import rows as lines

PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
INFERRED = {**PARQUET, "value.schema.inference": "true"}
AVRO = {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}
STRINGS = {"key.converter": "org.apache.kafka.connect.storage.StringConverter"}
ON = {"record.metadata.enable": "true", "flush.size": "3", **TOLERANT}


def world_with(config: dict[str, str], values: list[bytes]) -> World:
    world = World({**ON, **config})
    world.start()
    for n, value in enumerate(values):
        key = None if n == 1 else b"k%d" % n
        time = None if n == 2 and "json" in config.get("format.class", "json") else START_MS + n
        world.kafka.add(ORDERS, MemoryRecord(n, time, key, value, (("h", b"1.50"), ("g", None)) if n == 0 else ()))
    world.sink.poll_and_commit()
    return world


def parquet_rows(world: World) -> list[Any]:
    return [row for key, data in world.store.objects.items() if key.endswith(".parquet")
            for row in pq.read_table(io.BytesIO(data)).to_pylist()]  # fmt: skip


def avro_rows(content: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(content)))


def buried(world: World) -> list[int]:
    return [message.origin[2] for message in world.kafka.produced.get("dlq", []) if message.origin]


def test_json_lines_end_with_the_coordinates() -> None:
    values = [b'{"n": 0 }', b"{}", b' {"n": {"_kafka": 1}}\n']
    (rows,) = world_with(STRINGS, values).objects().values()

    coordinates = {"topic": "orders", "partition": 0}
    assert rows == [
        {"n": 0, "_kafka": {**coordinates, "offset": 0, "timestamp": START_MS, "key": "k0",
                            "headers": [{"key": "h", "value": "1.5"}, {"key": "g", "value": None}]}},
        {"_kafka": {**coordinates, "offset": 1, "timestamp": START_MS + 1, "key": None, "headers": []}},
        {"n": {"_kafka": 1}, "_kafka": {**coordinates, "offset": 2, "timestamp": None, "key": "k2", "headers": []}},
    ]  # fmt: skip
    assert [list(row)[-1] for row in rows] == ["_kafka"] * 3


@pytest.mark.parametrize("format_of", [{}, INFERRED, AVRO])
def test_values_without_fields_or_with_that_field_are_dead_letters(format_of: dict[str, str]) -> None:
    values = [b"5", b'{"n": 1}', b'"text"', b'{"n": 2, "_kafka": {}}', b"[]", b'{"n": 3}', b"true", b'{"n": 4}']
    world = world_with({**STRINGS, **format_of}, values)

    assert buried(world) == [0, 2, 3, 4, 6]
    assert len([key for key in world.store.objects if key.startswith("topics/")]) == 1


def test_keys_that_are_not_utf_8_stay_apart_also_in_a_state_table() -> None:
    state = {"state.enable": "true", "state.table": "main.now.orders", "state.run.on": "job"}
    world = World({**ON, **STRINGS, **INFERRED, **state})
    world.start()
    for n, raw in enumerate((b"a", b"\xff", b"\xfe", "\ufffd".encode())):
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, raw, b'{"n": %d}' % n))
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert buried(world) == []
    assert len({row["_kafka"]["key"] for row in parquet_rows(world)}) == 4


def test_inferred_parquet_columns_take_the_struct_as_the_last_column() -> None:
    rows = parquet_rows(world_with({**STRINGS, **INFERRED}, [b'{"a": 1}', b'{"b": "x"}', b'{"a": 2}']))

    assert [(row["a"], row["b"], row["_kafka"]["offset"]) for row in rows] == [
        (1, None, 0),
        (None, "x", 1),
        (2, None, 2),
    ]
    assert [list(row)[-1] for row in rows] == ["_kafka"] * 3
    assert rows[0]["_kafka"]["headers"] == [{"key": "h", "value": "1.5"}, {"key": "g", "value": None}]
    assert rows[0]["_kafka"]["timestamp"].timestamp() == START_MS / 1000
    assert [row["_kafka"]["key"] for row in rows] == ["k0", None, "k2"]


@pytest.mark.parametrize("format_of", [{}, PARQUET, AVRO])
def test_values_with_a_schema_have_the_struct_as_a_field(format_of: dict[str, str]) -> None:
    fields = [{"field": "n", "type": "int32"}]
    values = [
        json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"n": n}}).encode() for n in range(3)
    ]
    world = world_with({**STRINGS, **format_of, "value.converter.schemas.enable": "true"}, values)
    ((key, content),) = [(key, data) for key, data in world.store.objects.items() if key.startswith("topics/")]
    rows = parquet_rows(world) if format_of is PARQUET else avro_rows(content) if format_of else lines(key, content)

    assert rows[0]["_kafka"]["headers"] == [{"key": "h", "value": "1.5"}, {"key": "g", "value": None}]
    assert [(row["n"], row["_kafka"]["offset"], row["_kafka"]["key"]) for row in rows] == [
        (0, 0, "k0"),
        (1, 1, None),
        (2, 2, "k2"),
    ]


def test_keys_of_another_converter_are_bytes() -> None:
    config = {"key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    (rows,) = world_with(config, [b"{}"] * 3).objects().values()

    assert [row["_kafka"]["key"] for row in rows] == ["azA=", None, "azI="]


@given(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda text: f"{DATA_URL}{text}".encode())))
def test_any_bytes_become_text_of_which_they_can_be_made_again(raw: bytes) -> None:
    text = text_of_bytes(raw)
    assert bytes_of_text(text) == raw
    assert text.encode() == raw or text.startswith(DATA_URL)


@pytest.mark.parametrize("format_of", [{}, INFERRED])
@pytest.mark.parametrize("headers", ["SimpleHeaderConverter", "ByteArrayConverter"])
def test_keys_and_header_values_that_are_not_utf_8_keep_their_bytes(format_of: dict[str, str], headers: str) -> None:
    world = World({**ON, **STRINGS, **format_of, "header.converter": headers, "flush.size": "1"})
    world.start()
    world.kafka.add(
        ORDERS, MemoryRecord(0, START_MS, b"\xff\xfe", b'{"n": 1}', (("h", b"\x80"), ("g", b"text"), ("e", b"")))
    )
    assert world.sink.poll_and_commit()
    ((key, content),) = [(key, data) for key, data in world.store.objects.items() if key.startswith("topics/")]
    (row,) = parquet_rows(world) if format_of else lines(key, content)

    assert row["_kafka"]["key"] == "data:application/octet-stream;base64,//4="
    values = [header["value"] for header in row["_kafka"]["headers"]]
    assert values == ["data:application/octet-stream;base64,gA==", "text", ""]


def test_a_text_that_only_begins_like_a_data_url_stays_text() -> None:
    assert bytes_of_text(f"{DATA_URL}no base64!") == f"{DATA_URL}no base64!".encode()
