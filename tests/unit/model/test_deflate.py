"""Which engine compresses at which level, and is what it makes what any reader of gzip and deflate takes?"""

from __future__ import annotations

import builtins
import gzip
import importlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from kafka_s3.model import deflate
from kafka_s3.model.deflate import GZIP, RAW, packed, packer

BY_ISAL, BY_ZLIB = (-1, 1, 2, 3, 4, 5, 6), (0, 7, 8, 9)
RECORDS = b"".join(
    b'{"id":%d,"name":"customer-%d","amount":%d.5}\n' % (n, n * 7919 % 500, n * 31) for n in range(20_000)
)


def test_every_level_that_can_be_configured_has_its_engine() -> None:
    assert sorted(BY_ISAL + BY_ZLIB) == list(range(-1, 10))
    by_isal = type(isal_zlib.compressobj())
    assert {level for level in range(-1, 10) if isinstance(packer(level), by_isal)} == set(BY_ISAL)


@pytest.mark.parametrize("level", BY_ISAL + BY_ZLIB)
def test_a_stream_in_pieces_is_one_gzip_member(level: int) -> None:
    stream, pieces = packer(level), bytearray()
    for start in range(0, len(RECORDS), 65_536):
        pieces += stream.compress(memoryview(RECORDS)[start : start + 65_536])
    pieces += stream.flush()

    reader = zlib.decompressobj(GZIP)
    assert reader.decompress(pieces) == RECORDS
    assert (reader.eof, reader.unused_data) == (True, b"")
    assert gzip.decompress(pieces) == RECORDS
    assert pieces[4:8] == bytes(4)  # no time: the same records give the same object


@given(st.binary(max_size=3000), st.sampled_from(BY_ISAL + BY_ZLIB))
def test_any_bytes_come_back(data: bytes, level: int) -> None:
    assert gzip.decompress(packed(data, level)) == data
    assert zlib.decompress(packed(data, level, frame=RAW), RAW) == data


def test_nothing_at_all_is_the_member_of_twenty_bytes_that_block_gzip_counts_on() -> None:
    assert {len(packed(b"", level)) for level in (-1, 6)} == {20}


def test_the_levels_for_the_best_ratio_do_have_it() -> None:
    fast, best = len(packed(RECORDS)), len(packed(RECORDS, 9))
    assert best < fast < 1.5 * best


def test_without_a_wheel_zlib_serves_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without_isal(name: str, *more: object, **keywords: object) -> object:
        if name == "isal":
            raise ImportError(name)
        return really(name, *more, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_isal)
    try:
        alone = importlib.reload(deflate)
        assert [alone.packed(RECORDS, level) for level in (-1, 1, 9)] == [
            zlib.compress(RECORDS, level, wbits=GZIP) for level in (-1, 1, 9)
        ]
    finally:
        monkeypatch.undo()
        importlib.reload(deflate)
