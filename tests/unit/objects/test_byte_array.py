"""Bytes go into an object as they are, each followed by the separator."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.records.values import JsonText, Objects, Plain, Values
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaType
from kafka_s3.objects.text import byte_array_format
from tests.support.runs import run_of

BYTES = ConnectSchema(SchemaType.BYTES, optional=True)


def written(values: list[bytes], *, separator: bytes, gzip_level: int | None, cuts: int = 1) -> bytes:
    file_format = byte_array_format(extension=".bin", separator=separator, gzip_level=gzip_level)
    encoder, content = file_format.open(BYTES), b""
    for start in range(0, len(values), cuts):
        encoder.append(Plain(pa.array(values[start : start + cuts], pa.binary())))
        content += encoder.take()
    encoder.finish()
    content += encoder.take()
    assert encoder.size() == len(content)
    return content


@given(
    values=st.lists(st.binary(max_size=8), max_size=10),
    separator=st.sampled_from([b"\n", b"", b"\r\n", b"||", "→".encode()]),
    level=st.sampled_from([None, -1, 0, 9]),
    cuts=st.integers(1, 4),
)
def test_every_value_is_followed_by_the_separator(
    values: list[bytes], separator: bytes, level: int | None, cuts: int
) -> None:
    content = written(values, separator=separator, gzip_level=level, cuts=cuts)

    assert (content if level is None else gzip.decompress(content)) == b"".join(value + separator for value in values)


def test_gzip_is_one_member_and_shows_in_the_extension() -> None:
    content = written([b"x" * 50_000] * 8, separator=b"\n", gzip_level=6)

    assert content.count(b"\x1f\x8b\x08") == 1
    assert byte_array_format(extension=".bin", separator=b"", gzip_level=6).extension == ".bin.gz"
    assert byte_array_format(extension=".bin", separator=b"", gzip_level=None).extension == ".bin"


def test_no_values_write_nothing() -> None:
    encoder = byte_array_format(extension=".bin", separator=b"\n", gzip_level=None).open(BYTES)
    encoder.append(Plain(pa.array([], pa.binary())))
    encoder.finish()

    assert encoder.take() == b""


def test_a_slice_is_written_from_where_it_begins() -> None:
    encoder = byte_array_format(extension=".bin", separator=b",", gzip_level=None).open(BYTES)
    encoder.append(Plain(pa.array([b"a", b"b", b"c", b"d"], pa.binary())).slice(1, 3))
    encoder.finish()

    assert encoder.take() == b"b,c,"


@pytest.mark.parametrize(
    "schema",
    [
        BYTES,
        ConnectSchema(SchemaType.BYTES),
        ConnectSchema(SchemaType.BYTES, name="com.example.Md5", parameters=(("connect.fixed.size", "16"),)),
    ],
)
def test_bytes_of_any_name_are_taken(schema: ConnectSchema) -> None:
    fitted = byte_array_format(extension=".bin", separator=b"", gzip_level=None).accept(
        run_of(Objects([b"a", b"\xff"]), schema)
    )

    assert isinstance(fitted, Plain)
    assert fitted.objects() == [b"a", b"\xff"]


@pytest.mark.parametrize(
    ("values", "schema", "named"),
    [
        (Plain(pa.array(["text"])), ConnectSchema(SchemaType.STRING, optional=True), "string"),
        (JsonText(pa.array([b'"text"']), None), None, "without schema"),
        (
            Objects([{"n": 1}]),
            ConnectSchema(SchemaType.STRUCT, name="com.example.Order", version=3),
            "com.example.Order v3",
        ),
        (Objects([1]), ConnectSchema(SchemaType.BYTES, name=DECIMAL), "Decimal"),
        (Plain(pa.array([1])), ConnectSchema(SchemaType.INT64), "int64"),
    ],
)
def test_what_is_no_bytes_is_refused_by_name(values: Values, schema: ConnectSchema | None, named: str) -> None:
    shown = byte_array_format(extension=".bin", separator=b"", gzip_level=None).accept(run_of(values, schema))

    assert isinstance(shown, str)
    assert named in shown
    assert "ByteArrayConverter" in shown
