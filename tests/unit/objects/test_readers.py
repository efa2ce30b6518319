"""Objects are read back by code of their own, in pieces, and damage is reported."""

from __future__ import annotations

import ast
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.objects import readers
from kafka_s3.objects.block_gzip_form import Delimited, Prefixed
from kafka_s3.objects.readers import DAMAGE, avro_count, framed, inflated, separated, sliced

LINES = b"".join(b'{"n":%d}\n' % n for n in range(50))


def cut(content: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        yield content[:size]
        content = content[size:]
    yield content


@given(
    st.lists(st.binary(max_size=12).filter(lambda one: b"||" not in one + b"|"), max_size=8),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_records_are_the_same_wherever_pieces_end(values: list[bytes], sizes: list[int]) -> None:
    text = b"".join(value + b"||" for value in values)
    assert list(separated(cut(text, sizes), b"||")) == values
    assert b"".join(inflated(cut(gzip.compress(text) + gzip.compress(text), sizes))) == 2 * text


def test_a_gzip_member_that_is_cut_off_anywhere_is_noticed() -> None:
    packed = gzip.compress(LINES)
    for size in range(1, len(packed)):
        with pytest.raises(DAMAGE):
            list(inflated([packed[:size]]))
    assert b"".join(inflated([packed])) == LINES


def test_a_key_without_its_value_is_noticed() -> None:
    with pytest.raises(ValueError, match="the last key has no value"):
        list(framed([b"\0\0\0\x01k"], Prefixed(include_keys=True)))
    assert list(framed([b"\0\0\0\x01k\0\0\0\x01v"], Prefixed(include_keys=True))) == [(b"k", b"v")]
    assert list(framed([b"k=v\n"], Delimited(b"\n", b"="))) == [(b"k", b"v")]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_records_are_counted_by_their_blocks(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "string"}, [str(n) for n in range(1000)], codec=codec, sync_interval=100)
    content = out.getvalue()
    assert avro_count(sliced(content)) == 1000
    other_end = content[:-1] + bytes([content[-1] ^ 1])
    for damaged in (content[:-1], other_end, b"Obj\x02" + content[4:], content + b"\x02", content + b"\x02\x01"):
        with pytest.raises((ValueError, EOFError)):
            avro_count(sliced(damaged))


def test_no_reader_uses_what_writes_objects() -> None:
    tree = ast.parse(Path(readers.__file__).read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not found & {
        f"kafka_s3.objects.{name}" for name in ("text", "parquet", "avro_container", "block_gzip", "format")
    }
