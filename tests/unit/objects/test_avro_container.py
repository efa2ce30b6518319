"""An Avro container that we write is read by another implementation, value for value."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.avro import AvroPayloads
from kafka_s3.connect.records.values import AvroBodies, JsonText, Objects, Plain, StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_table
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.objects.avro_container import BLOCK_BYTES, CODECS, avro_format
from kafka_s3.objects.format import FormatError
from tests.support.examples import examples
from tests.support.memory_world import pieces
from tests.support.runs import run_of

SINK = AvroOptions()
SCHEMA = read_schema({
    "type": "struct",
    "name": "com.example.Order",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "s", "type": "string", "optional": True},
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
    ],
})  # fmt: skip
ROWS: list[Any] = [{"n": n, "s": f"ä{n}" if n % 3 else None, "m": [("k", n)]} for n in range(50)]
READ = [{**row, "m": dict(row["m"])} for row in ROWS]


def finished(encoder: Any) -> bytes:
    encoder.finish()
    content = encoder.take()
    return bytes(content)


def read(content: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(content)))


def blocks(content: bytes) -> list[tuple[int, bytes]]:
    """Count and stored bytes of each block."""
    return [(block.num_records, block.bytes_.getvalue()) for block in fastavro.block_reader(io.BytesIO(content))]


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(10))
@given(
    cuts=st.lists(st.integers(0, 50), max_size=6),
    steps=st.lists(st.sampled_from(["compact", "take", "empty", ""]), max_size=6),
)
def test_every_codec_is_read_back(codec: str, cuts: list[int], steps: list[str]) -> None:
    encoder, content = avro_format(codec, SINK).open(SCHEMA), b""
    for number, (start, stop) in enumerate(pieces(len(ROWS), cuts)):
        encoder.append(Objects(ROWS[start:stop]))
        match steps[number] if number < len(steps) else "":
            case "compact":
                encoder.compact()
                assert encoder.pending() == 0
            case "take":
                content += encoder.take()
            case "empty":
                encoder.append(Objects([]))
    content += finished(encoder)

    assert read(content) == READ
    assert encoder.size() == len(content)
    reader = fastavro.reader(io.BytesIO(content))
    assert reader.codec == codec
    assert reader.metadata["avro.codec"] == codec


@pytest.mark.parametrize("codec", CODECS)
def test_the_size_grows_with_what_is_written_and_blocks_are_cut(codec: str) -> None:
    encoder, sizes = avro_format(codec, SINK).open(SCHEMA), []
    for _ in range(60):
        encoder.append(Objects(ROWS * 8))
        sizes.append(encoder.size())
        assert encoder.pending() < BLOCK_BYTES
    content = finished(encoder)

    assert len(blocks(content)) > 1
    assert read(content) == READ * 8 * 60
    assert sizes[0] < sizes[-1]


def test_a_value_bigger_than_a_block_has_a_block_of_its_own() -> None:
    schema = ConnectSchema(SchemaType.STRING)
    encoder = avro_format("deflate", SINK).open(schema)
    texts = ["small", "x" * (3 * BLOCK_BYTES), "y" * BLOCK_BYTES, "end"]
    for text in texts:
        encoder.append(Plain(pa.array([text])))
    content = finished(encoder)

    assert read(content) == texts
    assert [count for count, _ in blocks(content)] == [2, 1, 1]


def test_a_file_without_records_is_still_a_container() -> None:
    encoder = avro_format("snappy", SINK).open(SCHEMA)
    encoder.append(Objects([]))
    encoder.compact()

    assert read(finished(encoder)) == []


WRITER = {
    "type": "record",
    "name": "Order",
    "namespace": "com.example",
    "fields": [{"name": "n", "type": "long"}, {"name": "l", "type": {"type": "array", "items": "string"}}],
}


def bodies_of(payloads: list[bytes]) -> tuple[AvroBodies, ConnectSchema | None]:
    made = AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(WRITER)), SINK, version=4)
    found = made.decode_payloads(pa.array(payloads, pa.binary()))
    values = found.values
    assert found.failures == []
    assert isinstance(values, AvroBodies)
    return values, made.schema


def test_bodies_of_the_same_shape_pass_through_byte_for_byte() -> None:
    odd = [
        b"\x02\x01\x04\x02a\x00",
        b"\x84\x80\x00\x02\x02b\x02\x02c\x00",
    ]  # a block with its size, a long with padding, two blocks
    values, schema = bodies_of([*odd, odd[0] + b"trailing"])
    file_format = avro_format("null", SINK)
    fitted = file_format.accept(run_of(values, schema))
    encoder = file_format.open(schema)
    assert fitted is values
    encoder.append(fitted.slice(0, 1))
    encoder.append(fitted.take(np.array([1, 2])))
    content = finished(encoder)

    assert blocks(content) == [(3, odd[0] + odd[1] + odd[0])]
    assert read(content) == [{"n": 1, "l": ["a"]}, {"n": 2, "l": ["b", "c"]}, {"n": 1, "l": ["a"]}]


def test_bodies_of_another_shape_are_written_again() -> None:
    values, schema = bodies_of([b"\x02\x02\x02a\x00"])
    narrow = read_schema({"type": "struct", "name": "com.example.Order", "fields": [{"field": "n", "type": "int64"}]})
    encoder = avro_format("null", SINK).open(narrow)
    encoder.append(Objects([{"n": row["n"]} for row in values.objects()]))
    encoder.append(values)  # as it is, it would not be read

    assert read(finished(encoder)) == [{"n": 1}, {"n": 1}]
    assert schema is not None


def anything(value: Any) -> Any:
    """A record of the schema `Anything` as a plain value."""
    (found,) = [(name, part) for name, part in value.items() if part is not None] or [("null", None)]
    if found[0] == "array":
        return [anything(item) for item in found[1]]
    if found[0] == "map":
        return {anything(entry["key"]): anything(entry["value"]) for entry in found[1]}
    return found[1]


def test_schemaless_values_are_records_of_any_type() -> None:
    documents: list[Any] = [{"a": [1, "x", None, 2.5, True], "b": {"c": {}}}, 7, "text", [[]], False]
    texts = JsonText(pa.array([json.dumps(one).encode() for one in documents], pa.binary()), None)
    file_format = avro_format("deflate", SINK)
    fitted = file_format.accept(run_of(texts, None))
    assert isinstance(fitted, AvroBodies)
    encoder = file_format.open(None)
    encoder.append(fitted)
    content = finished(encoder)

    assert [anything(value) for value in read(content)] == documents
    assert fastavro.reader(io.BytesIO(content)).writer_schema["name"] == "io.confluent.connect.avro.Anything"


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        (Plain(pa.array(["a", "ß"])), ConnectSchema(SchemaType.STRING, optional=True)),
        (Plain(pa.array([b"\xff", b""])), ConnectSchema(SchemaType.BYTES, optional=True)),
        (Plain(pa.array([1, -5], pa.int32())), ConnectSchema(SchemaType.INT32, optional=True)),
        (Plain(pa.array([True, False])), ConnectSchema(SchemaType.BOOLEAN)),
    ],
)
def test_values_without_fields_are_the_top_level_type(values: Values, schema: ConnectSchema) -> None:
    encoder = avro_format("null", SINK).open(schema)
    encoder.append(values)

    assert read(finished(encoder)) == values.objects()


def test_columns_are_written_as_their_rows_and_kept_for_the_partitioner() -> None:
    schema = read_schema({"type": "struct", "fields": [{"field": "n", "type": "int64"}, {"field": "t", "type": "int64",
                          "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}]})  # fmt: skip
    columns = StructColumns(arrow_table([{"n": 1, "t": 1_700_000_000_123}], schema))
    file_format = avro_format("null", SINK)
    fitted = file_format.accept(run_of(columns, schema))
    assert isinstance(fitted, AvroBodies)
    assert pa.array(fitted.column(["n"])).to_pylist() == [1]
    encoder = file_format.open(schema)
    encoder.append(fitted)
    (row,) = read(finished(encoder))

    assert row["n"] == 1
    assert row["t"].timestamp() == pytest.approx(1_700_000_000.123)


def test_a_value_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    file_format = avro_format("null", SINK)
    bad = Objects([ROWS[0], {"n": "text", "s": None, "m": []}])
    encoder = file_format.open(SCHEMA)
    encoder.append(Objects(ROWS[:1]))

    assert isinstance(file_format.accept(run_of(bad, SCHEMA)), str)
    with pytest.raises(FormatError, match="Avro cannot hold"):
        encoder.append(bad)
    assert read(finished(encoder)) == READ[:1]


def test_a_name_that_avro_does_not_allow_is_refused_with_the_name() -> None:
    schema = read_schema({"type": "struct", "fields": [{"field": "a-b", "type": "int64"}]})
    shown = avro_format("null", SINK).accept(run_of(Objects([{"a-b": 1}]), schema))

    assert isinstance(shown, str)
    assert "a-b" in shown
