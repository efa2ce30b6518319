"""Keys and headers lie in objects beside the values, in each format's own shape, read back by other implementations."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World, rows

FORMATS = {
    "json": "io.confluent.connect.s3.format.json.JsonFormat",
    "avro": "io.confluent.connect.s3.format.avro.AvroFormat",
    "parquet": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "bytes": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
}
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
HEADERS = [[{"key": "a", "value": "1.5"}], [{"key": "b", "value": "x"}, {"key": "b", "value": ""}]]
NAME = "topics/orders/partition=0/orders+0+0000000000"


def world_with_keys(**config: str) -> World:
    on = {"flush.size": "2", "store.kafka.keys": "true", "key.converter": STRINGS, "keys.format.class": FORMATS["json"]}
    world = World({**on, **{name.replace("_", "."): value for name, value in config.items()}})
    world.start()
    for n in range(2):
        heads = ((("a", b"1.50"),), (("b", b"x"), ("b", b"")))[n]
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, b"k%d" % n, b'{"n": %d}' % n, heads))
    world.sink.poll_and_commit()
    return world


def found(world: World, infix: str) -> tuple[str, bytes]:
    """Extension and content of the one object with that infix."""
    ((key, content),) = [(key, data) for key, data in world.store.objects.items() if key.startswith(NAME + infix)]
    return key.removeprefix(NAME + infix), content


def avro(content: bytes) -> tuple[Any, list[Any]]:
    reader = fastavro.reader(io.BytesIO(content))
    return json.loads(reader.metadata["avro.schema"]), list(reader)


def test_keys_as_json_are_lines() -> None:
    assert found(world_with_keys(), ".keys") == (".json", b'"k0"\n"k1"\n')


def test_keys_as_avro_have_the_type_of_the_key() -> None:
    extension, content = found(world_with_keys(keys_format_class=FORMATS["avro"]), ".keys")

    assert extension == ".avro"
    assert avro(content) == (["null", "string"], ["k0", "k1"])


def test_keys_as_parquet_are_wrapped() -> None:
    extension, content = found(world_with_keys(keys_format_class=FORMATS["parquet"]), ".keys")

    assert extension == ".snappy.parquet"
    assert pq.read_table(io.BytesIO(content)).to_pylist() == [{"key": "k0"}, {"key": "k1"}]
    footer = pq.read_metadata(io.BytesIO(content)).metadata[b"parquet.avro.schema"]
    assert json.loads(footer)["name"] == "RecordKey"


def test_keys_as_bytes_are_raw() -> None:
    config = {
        "key_converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "keys_format_class": FORMATS["bytes"],
    }

    assert found(world_with_keys(**config), ".keys") == (".bin", b"k0\nk1\n")


def test_headers_as_json_are_wrapped_in_an_object() -> None:
    world = world_with_keys(store_kafka_headers="true", headers_format_class=FORMATS["json"])
    extension, content = found(world, ".headers")

    assert extension == ".json"
    assert rows(".json", content) == [{"headers": one} for one in HEADERS]


def test_headers_as_avro_are_a_top_level_array() -> None:
    extension, content = found(
        world_with_keys(store_kafka_headers="true", headers_format_class=FORMATS["avro"]), ".headers"
    )
    schema, records = avro(content)

    assert extension == ".avro"
    assert records == HEADERS
    assert schema["type"] == "array"
    assert [field["name"] for field in schema["items"]["fields"]] == ["key", "value"]


def test_headers_as_parquet_are_wrapped() -> None:
    extension, content = found(
        world_with_keys(store_kafka_headers="true", headers_format_class=FORMATS["parquet"]), ".headers"
    )

    assert extension == ".snappy.parquet"
    assert pq.read_table(io.BytesIO(content)).to_pylist() == [{"headers": one} for one in HEADERS]
    footer = pq.read_metadata(io.BytesIO(content)).metadata[b"parquet.avro.schema"]
    assert json.loads(footer)["name"] == "RecordHeaders"


@pytest.mark.parametrize("values", ["json", "avro"])
def test_the_objects_of_a_file_are_completed_values_keys_headers(values: str) -> None:
    world = world_with_keys(
        format_class=FORMATS[values], store_kafka_headers="true", headers_format_class=FORMATS["json"]
    )
    completed = [key.removeprefix(NAME) for verb, key in world.calls if verb == "complete_upload"]

    assert completed == [f".{values}", ".keys.json", ".headers.json"]
    (entry,) = [entry for entry in world.entries() if entry.files]
    assert [(str(file.role), file.records, file.first_offset, file.last_offset) for file in entry.files] == [
        ("value", 2, 0, 1), ("key", 2, 0, 1), ("header", 2, 0, 1),
    ]  # fmt: skip
    assert entry.totals.written == 2
