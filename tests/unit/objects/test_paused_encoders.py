"""An encoder that is paused, and goes on as another object, writes the file of one that never was."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.records.values import JsonText, Objects, Plain, Values
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.block_gzip import block_gzip_format
from kafka_s3.objects.block_gzip_form import BlockGzip, Lines, parse_index
from kafka_s3.objects.format import Columnar, Format, Pausing
from kafka_s3.objects.parquet import parquet_format
from kafka_s3.objects.text import GzipMember, byte_array_format, json_format
from tests.support.examples import examples

SCHEMA = ConnectSchema(
    SchemaType.STRUCT,
    name="Order",
    fields=(
        Field("n", ConnectSchema(SchemaType.INT64)),
        Field("text", ConnectSchema(SchemaType.STRING, optional=True)),
    ),
)
ROWS: list[dict[str, Any]] = [{"n": n, "text": None if n % 7 == 0 else f"row {n} " * (n % 5)} for n in range(120)]
Make = Callable[[list[dict[str, Any]]], Values]


def objects(rows: list[dict[str, Any]]) -> Values:
    return Objects(rows)


def json_text(rows: list[dict[str, Any]]) -> Values:
    texts = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    return JsonText(texts, pa.Table.from_pylist(rows))


def raw(rows: list[dict[str, Any]]) -> Values:
    return Plain(pa.array([json.dumps(row).encode() for row in rows], pa.binary()))


def json_rows(content: bytes) -> Any:
    return [json.loads(line) for line in content.splitlines()]


def gzip_rows(content: bytes) -> Any:
    member = zlib.decompressobj(31)
    text = member.decompress(content)
    assert (member.eof, member.unused_data) == (True, b"")  # one member
    return json_rows(text)


def avro_rows(content: bytes) -> Any:
    return list(fastavro.reader(io.BytesIO(content)))


def parquet_rows(content: bytes) -> Any:
    return pq.read_table(io.BytesIO(content)).to_pylist()


def block_rows(content: bytes) -> Any:
    return json_rows(gzip.decompress(content))


CASES = {
    "json": (json_format(gzip_level=None, decimals="BASE64"), json_text, None, json_rows),
    "json, gzip": (json_format(gzip_level=-1, decimals="BASE64"), objects, SCHEMA, gzip_rows),
    "bytes, gzip 9": (byte_array_format(extension=".bin", separator=b"\n", gzip_level=9), raw, None, gzip_rows),
    "avro": (avro_format("deflate", AvroOptions()), objects, SCHEMA, avro_rows),
    "parquet": (parquet_format("zstd", AvroOptions()), objects, SCHEMA, parquet_rows),
    "parquet, inferred": (parquet_format("snappy", AvroOptions()), json_text, None, parquet_rows),
    "block gzip": (block_gzip_format(BlockGzip(Lines(), 700)), raw, None, block_rows),
}
EVERY_FORMAT = pytest.mark.parametrize(("form", "make", "schema", "rows"), CASES.values(), ids=CASES)


@EVERY_FORMAT
@settings(max_examples=examples(30))
@given(steps=st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["", "pause", "take", "compact"])), max_size=12))
def test_the_file_is_that_of_an_encoder_that_was_never_paused(
    form: Format,
    make: Make,
    schema: ConnectSchema | None,
    rows: Callable[[bytes], Any],
    steps: list[tuple[int, str]],
) -> None:
    encoder, content, at = form.open(schema), b"", 0
    for count, step in steps:
        some = ROWS[at : at + count]
        at += len(some)
        if some:
            encoder.append(make(some))
        if step == "compact":
            encoder.compact()
        if step == "take":
            content += encoder.take()
        if step == "pause":
            assert isinstance(encoder, Pausing)
            size, paused = encoder.size(), encoder.pause()
            content += encoder.take()
            encoder = form.open(schema)
            assert isinstance(encoder, Pausing)
            encoder.resume(paused)
            assert form.name in ("json", "bytearray", "block_gzip") or encoder.size() == size
    if at < len(ROWS):
        encoder.append(make(ROWS[at:]))
    encoder.finish()
    content += encoder.take()

    assert rows(content) == ROWS
    assert encoder.size() == len(content)
    assert not isinstance(encoder, Columnar) or encoder.written_schema().names == ["n", "text"]
    if form.name == "block_gzip":
        (index,) = form.sidecar_objects(encoder, "key.gz", 5)
        found = parse_index(index.content, "key")
        assert (found.byte_length, found.blocks[-1].until) == (len(content), 5 + len(ROWS))
        for block in found.blocks:
            gzip.decompress(content[block.byte_offset : block.byte_offset + block.byte_length])


def test_blocks_begin_at_the_same_records_however_often_their_file_was_paused() -> None:
    form, make, schema, _ = CASES["block gzip"]
    encoder = form.open(schema)
    for row in ROWS:
        encoder.append(make([row]))
        assert isinstance(encoder, Pausing)
        paused, encoder = encoder.pause(), form.open(schema)
        assert isinstance(encoder, Pausing)
        encoder.resume(paused)
    encoder.finish()
    whole = form.open(schema)
    whole.append(make(ROWS))
    whole.finish()
    counts = [
        [block.num_records for block in parse_index(form.sidecar_objects(one, "k.gz", 0)[0].content, "k").blocks]
        for one in (encoder, whole)
    ]
    assert counts[0] == counts[1]
    assert len(counts[0]) > 3


@pytest.mark.parametrize("level", [-1, 0, 1, 6, 9])
@pytest.mark.parametrize("pieces", [[], [b""], [b"a"], [b"abc" * 9000, b"", b"def" * 70_000]])
def test_a_member_is_read_by_zlib_whether_it_was_paused_or_not(level: int, pieces: list[bytes]) -> None:
    whole, paused = GzipMember(level), GzipMember(level)
    contents = [b"", b""]
    for piece in pieces:
        contents[0] += whole.compress(piece)
        contents[1] += paused.compress(piece) + paused.flushed()
        state, paused = paused.pause(), GzipMember(level)
        paused.resume(state)
    for content in (contents[0] + whole.end(), contents[1] + paused.end()):
        member = zlib.decompressobj(31)
        assert member.decompress(content) == b"".join(pieces)
        assert (member.eof, member.unused_data) == (True, b"")


def test_row_groups_of_several_processes_are_read_by_others(tmp_path: Path) -> None:
    import duckdb

    form = parquet_format("zstd", AvroOptions())
    encoder, content = form.open(SCHEMA), b""
    for at in range(0, 120, 40):
        encoder.append(Objects(ROWS[at : at + 40]))
        encoder.compact()
        assert isinstance(encoder, Pausing)
        paused = encoder.pause()
        content += encoder.take()
        encoder = form.open(SCHEMA)
        assert isinstance(encoder, Pausing)
        encoder.resume(paused)
    encoder.finish()
    content += encoder.take()

    metadata = pq.read_metadata(io.BytesIO(content))
    assert (metadata.num_row_groups, metadata.num_rows) == (3, 120)
    assert b"parquet.avro.schema" in metadata.metadata
    assert pq.read_table(io.BytesIO(content)).to_pylist() == ROWS
    file = tmp_path / "pieces.parquet"
    file.write_bytes(content)
    assert duckdb.sql(f"select sum(n), count(text) from '{file}'").fetchall() == [(7140, 102)]


def test_a_parquet_file_that_an_earlier_release_paused_goes_on() -> None:
    form = parquet_format("zstd", AvroOptions())
    begun: Any = form.open(SCHEMA)
    begun.append(objects(ROWS[:60]))
    begun.compact()
    paused = begun.pause()
    del paused["zstd_level"]  # which it did not settle
    resumed: Any = form.open(SCHEMA)
    resumed.resume(paused)
    resumed.append(objects(ROWS[60:]))
    resumed.finish()
    assert parquet_rows(begun.take() + resumed.take()) == ROWS
