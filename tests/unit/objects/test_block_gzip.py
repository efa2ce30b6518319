"""Block-GZIP data objects: where blocks begin, what is in them, and what their index says."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.config.option import default_of
from kafka_s3.connect.config.options.spellings import BLOCK_GZIP_OURS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Nulls, Objects, Plain, Values
from kafka_s3.model.files import Role
from kafka_s3.objects.block_gzip import BlockGzipFile, block_gzip_format, unfit
from kafka_s3.objects.block_gzip_form import (
    BlockGzip,
    Delimited,
    Framing,
    Lines,
    Prefixed,
    delimiter_bytes,
    parse_index,
    resume_offset,
)
from kafka_s3.objects.format import FormatError
from kafka_s3.run.wiring.conversion import block_gzip_of
from tests.support.block_gzip import chunks, opened, texts, written
from tests.support.examples import examples

FRAMINGS: list[Framing] = [
    Lines(), Delimited(), Delimited(b"\r\n"), Delimited(b"|", b"\t"), Delimited(b"\0", b""), Prefixed(), Prefixed(include_keys=True),
]  # fmt: skip


def raw(*values: bytes | None) -> Values:
    return Plain(pa.array(values, pa.binary()))


JSON_TEXT = JsonText(pa.array([b'{"a": 1}'], pa.binary()), None)


def block_contents(content: bytes, index: list[dict[str, int]]) -> list[bytes]:
    """Each block inflated alone, as one whole gzip member."""
    found = []
    for chunk in index:
        inflater = zlib.decompressobj(31)
        start = chunk["byte_offset"]
        found.append(inflater.decompress(content[start : start + chunk["byte_length"]]))
        assert inflater.eof
        assert inflater.unused_data == b""
    return found


def one_by_one(sizes: list[int], block_size: int) -> list[int]:
    """Records per block, by the rule for one record at a time."""
    counts, held = [0], 0
    for size in sizes:
        if held + size > block_size:
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += size
    return counts


def framed(framing: Framing, value: str, key: bytes | None) -> bytes:
    plain = value.encode()
    match framing:
        case Lines():
            return plain if value.endswith("\n") else plain + b"\n"
        case Delimited(delimiter, None):
            return plain + delimiter
        case Delimited(delimiter, between):
            assert between is not None
            return (key or b"") + between + plain + delimiter
        case Prefixed(include_keys):
            front = len(key or b"").to_bytes(4, "big") + (key or b"") if include_keys else b""
            return front + len(plain).to_bytes(4, "big") + plain


def test_the_published_example_of_one_hundred_records_fills_the_index_as_published() -> None:
    encoder = opened(Lines(), block_size=67_108_864)
    encoder.append(texts(*(f'{{"foo": "bar", "counter":{n}}}' for n in range(100))))
    encoder.finish()
    (chunk,) = chunks(encoder)
    assert (chunk["byte_length_uncompressed"], chunk["num_records"]) == (2890, 100)
    assert (chunk["byte_offset"], chunk["first_record_offset"]) == (0, 0)
    assert chunk["byte_length"] == len(encoder.take())


def test_the_published_blocks_of_100_and_123_records_follow_one_another_in_bytes_and_offsets() -> None:
    first = [f'{{"foo": "bar", "counter":{n}}}' for n in range(100)]
    second = ["x" * 231, *("y" * 23 for _ in range(83)), *("z" * 22 for _ in range(39))]
    content, index = written(Lines(), texts(*first, *second), block_size=3121)
    assert [(c["byte_length_uncompressed"], c["num_records"]) for c in index] == [(2890, 100), (3121, 123)]
    assert [c["first_record_offset"] for c in index] == [0, 100]
    assert index[1]["byte_offset"] == index[0]["byte_length"] == len(content) - index[1]["byte_length"]


def test_blocks_split_where_the_original_splits_them() -> None:
    encoder = opened(Lines(), block_size=100)
    records = [f"record {n:04d} xxxxxxxxxxxxxxxxxxxx" for n in range(12)]
    encoder.append(texts(*records))
    encoder.finish()
    content, index = encoder.take(), chunks(encoder, 500)
    assert [(c["byte_length_uncompressed"], c["num_records"], c["first_record_offset"]) for c in index] == [
        (99, 3, 500), (99, 3, 503), (99, 3, 506), (99, 3, 509),
    ]  # fmt: skip
    assert gzip.decompress(content).decode() == "".join(f"{record}\n" for record in records)
    assert sum(c["byte_length"] for c in index) == len(content)
    assert block_contents(content, index)[1] == "".join(f"{record}\n" for record in records[3:6]).encode()
    assert resume_offset(parse_index(encoder.index(500), "x.index.json")) == 512


def test_a_first_record_larger_than_a_block_leaves_an_empty_block_of_20_bytes_in_front() -> None:
    content, index = written(Lines(), texts("x" * 500, "y"), block_size=100)
    assert [c["num_records"] for c in index] == [0, 1, 1]
    assert (index[0]["byte_length"], index[0]["byte_length_uncompressed"]) == (20, 0)
    assert [c["first_record_offset"] for c in index] == [0, 0, 1]
    assert block_contents(content, index) == [b"", b"x" * 500 + b"\n", b"y\n"]


@pytest.mark.parametrize(
    ("values", "records"),
    [
        pytest.param(("x" * 49, "y" * 49, "z"), [2, 1], id="one that fits exactly stays in its block"),
        pytest.param(("a", "x" * 500, "y" * 500, "b"), [1, 1, 1, 1], id="a later one larger than a block has its own"),
    ],
)
def test_a_block_ends_before_the_record_that_it_has_no_room_for(values: tuple[str, ...], records: list[int]) -> None:
    _, index = written(Lines(), texts(*values), block_size=100)
    assert [c["num_records"] for c in index] == records


@pytest.mark.parametrize(
    ("framing", "values", "expected"),
    [
        pytest.param(Lines(), texts("a", "b\n", "", "c\n\n"), b"a\nb\n\nc\n\n", id="original: a line feed where there is none"),
        pytest.param(Lines(), raw("ä".encode(), b"\xff!"), "ä\n\ufffd!\n".encode(), id="original: marks where bytes are no UTF-8"),
        pytest.param(Delimited(), raw(b"a", b"b\n", None), b"a\nb\n\n\n", id="successor: its delimiter always"),
        pytest.param(Delimited(), JSON_TEXT, b'{"a": 1}\n', id="successor: JSON documents are texts"),
        pytest.param(Prefixed(), Nulls(2), b"\0" * 8, id="successor: nulls are empty"),
    ],
)  # fmt: skip
def test_records_are_framed_as_the_connector_frames_them(framing: Framing, values: Values, expected: bytes) -> None:
    content, _ = written(framing, values)
    assert gzip.decompress(content) == expected


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (Delimited(b"\n", b"\t"), b"k\tv\n\tw\n"),
        (Prefixed(include_keys=True), b"\0\0\0\1k\0\0\0\1v\0\0\0\0\0\0\0\1w"),
        (Delimited(), b"v\nw\n"),
    ],
)
def test_keys_lie_in_front_of_values(framing: Framing, expected: bytes) -> None:
    encoder = opened(framing)
    encoder.append_keyed(raw(b"v", b"w"), [b"k", None])
    encoder.finish()
    assert gzip.decompress(encoder.take()) == expected


def test_the_original_measures_in_utf_16_units_and_the_successor_in_bytes() -> None:
    record = "ä€😀"  # 2, 3 and 4 bytes; 1, 1 and 2 units
    _, (lines,) = written(Lines(), texts("plain", record))
    _, (delimited,) = written(Delimited(), texts("plain", record))
    assert lines["byte_length_uncompressed"] == 6 + 5
    assert delimited["byte_length_uncompressed"] == 6 + 10
    _, index = written(Lines(), texts(record, record), block_size=10)
    assert [c["num_records"] for c in index] == [2]


def test_null_values_fail_in_the_original_and_are_empty_in_the_successor() -> None:
    assert [row for row, _ in unfit(Lines(), texts("a", None, "b", None))] == [1, 3]
    assert len(unfit(Lines(), Nulls(2))) == 2
    assert unfit(Delimited(), texts(None)) == []
    encoder = opened(Lines())
    with pytest.raises(FormatError, match="null value"):
        encoder.append(texts("a", None))
    encoder.append(texts("b"))
    encoder.finish()
    assert gzip.decompress(encoder.take()) == b"b\n"


def test_the_format_says_why_it_cannot_take_a_run() -> None:
    def run(values: Values) -> Run:
        return Run(np.arange(len(values)), np.zeros(len(values), np.int64), values, None)

    form = block_gzip_format(BlockGzip())
    assert form.extension == ".gz"
    good = texts("a")
    assert form.accept(run(good)) is good
    assert "null value" in str(form.accept(run(texts(None))))
    assert "StringConverter" in str(form.accept(run(Objects([{"a": 1}]))))
    assert "int64" in str(form.accept(run(Plain(pa.array([1])))))


def test_the_index_is_stored_beside_the_data_object() -> None:
    form = block_gzip_format(BlockGzip())
    encoder = form.open(None)
    encoder.append(texts("a"))
    encoder.finish()
    (beside,) = form.sidecar_objects(encoder, "p/2016-02-24/t-00000-000000000007.gz", 7)
    assert (beside.role, beside.key) == (Role.INDEX, "p/2016-02-24/t-00000-000000000007.index.json")
    assert json.loads(beside.content)["chunks"][0]["first_record_offset"] == 7


def test_the_index_of_an_unfinished_file_is_a_programming_error() -> None:
    with pytest.raises(RuntimeError, match="before the file is finished"):
        opened(Lines()).index(0)


def test_keys_that_are_not_as_many_as_the_values_are_refused() -> None:
    with pytest.raises(FormatError, match="2 keys for 1 values"):
        opened(Prefixed(include_keys=True)).append_keyed(raw(b"v"), [b"a", b"b"])


def test_equal_records_give_equal_bytes() -> None:
    values = texts(*(f"record {n}" for n in range(50)))
    assert written(Lines(), values) == written(Lines(), values)


def test_the_size_grows_while_gzip_holds_bytes_back_and_is_exact_in_the_end() -> None:
    encoder, sizes, content = opened(Lines(), block_size=1 << 20), [], b""
    for n in range(40):
        encoder.append(texts(*(f"{(n * 7919 + m) % 10007} {m}" for m in range(200))))
        sizes.append(encoder.size())
        content += encoder.take()
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    encoder.finish()
    content += encoder.take()
    assert encoder.size() == len(content)
    assert (encoder.pending(), encoder.take()) == (0, b"")


record_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=examples(120))
@given(
    records=st.lists(st.tuples(record_texts, st.none() | st.binary(max_size=4)), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    framing=st.sampled_from(FRAMINGS),
    block_size=st.integers(1, 60),
    as_bytes=st.booleans(),
    first_offset=st.integers(0, 10**12),
)
@example([("x" * 12, None)], [], Lines(), 1, False, 0)
@example([("", None), ("", None)], [], Delimited(b""), 1, False, 0)
def test_any_records_round_trip_and_their_blocks_follow_one_another(
    records: list[tuple[str, bytes | None]],
    cuts: list[int],
    framing: Framing,
    block_size: int,
    as_bytes: bool,
    first_offset: int,
) -> None:
    encoder, content = opened(framing, block_size=block_size), b""
    bounds = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    array: Any = pa.array([value for value, _ in records], pa.string())
    whole = Plain(array.cast(pa.binary()) if as_bytes else array)
    for start, stop in pairwise(bounds):
        encoder.append_keyed(whole.slice(start, stop), [key for _, key in records[start:stop]])
        content += encoder.take()
    encoder.finish()
    content += encoder.take()

    expected = [framed(framing, value, key) for value, key in records]
    sizes = [len(one.decode("utf-8").encode("utf-16-le")) // 2 if framing == Lines() else len(one) for one in expected]
    index = parse_index(encoder.index(first_offset), "x.index.json")  # checks that bytes and offsets follow one another
    assert gzip.decompress(content) == b"".join(expected)
    assert [block.num_records for block in index.blocks] == one_by_one(sizes, block_size)
    assert index.byte_length == len(content)
    assert index.blocks[0].first_record_offset == first_offset
    assert resume_offset(index) == first_offset + len(records)
    assert sum(block.byte_length_uncompressed for block in index.blocks) == sum(sizes)
    at = 0
    for block, inflated in zip(index.blocks, block_contents(content, chunks(encoder)), strict=True):
        assert inflated == b"".join(expected[at : at + block.num_records])
        at += block.num_records


@pytest.mark.parametrize(
    ("text", "encoding", "encoded"),
    [
        ("\n", "UTF-8", b"\n"), ("\n", "UTF-16BE", b"\0\n"), ("\n", "utf-16", b"\xfe\xff\0\n"),
        ("\n", "UTF-32", b"\0\0\0\n"), ("€", "ISO-8859-1", b"?"),
    ],
)  # fmt: skip
def test_delimiters_are_encoded_as_java_encodes_them(text: str, encoding: str, encoded: bytes) -> None:
    assert delimiter_bytes(text, encoding) == encoded


def test_the_variant_follows_from_the_settings() -> None:
    def variant(**given: Any) -> BlockGzip:
        values = {row.key: default_of(row) for row in BLOCK_GZIP_OURS}
        values |= {f"block.gzip.{key.replace('__', '.')}": value for key, value in given.items()}
        return block_gzip_of(Settings(values, frozenset(), frozenset(), frozenset(), {}, {}))

    assert variant(dialect="original", block__size=7) == BlockGzip(Lines(), 7)
    assert variant() == BlockGzip(Delimited())
    assert variant(key__delimiter="\t", key__encoding="UTF-16BE") == BlockGzip(Delimited(b"\n", b"\0\t"))
    assert variant(format="binary", include__keys=True) == BlockGzip(Prefixed(include_keys=True))


@given(
    steps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
    size=st.integers(4, 40),
)
def test_the_index_shows_the_offset_of_every_record_whatever_gaps_there_are(
    steps: list[tuple[int, int, bool]], size: int
) -> None:
    """Each step is so many records, a gap behind them, and whether the file is kept for another task there."""
    encoder, at, expected = opened(Lines(), block_size=size), 7, []
    for count, gap, paused in steps:
        offsets = np.arange(at, at + count)
        encoder.set_offsets(offsets)
        encoder.append(texts(*["abc"] * count))
        expected += offsets.tolist()
        at += count + gap
        if paused:
            state, encoder = encoder.pause(), opened(Lines(), block_size=size)
            encoder.resume(state)
    encoder.finish()
    index = parse_index(encoder.index(7), "x.index.json")
    assert [offset for block in index.blocks for offset in block.offsets()] == expected
    assert resume_offset(index) == expected[-1] + 1
    gapless = expected[-1] - expected[0] + 1 == len(expected)
    assert (b"spans" in encoder.index(7)) <= (not gapless)


def test_gaps_between_all_records_take_little_of_what_is_kept_for_another_task() -> None:
    encoder = opened(Lines(), block_size=100_000)
    encoder.set_offsets(np.arange(0, 200_000, 2))
    encoder.append(texts(*["abc"] * 100_000))
    state = encoder.pause()
    assert sum(len(block["spans"]) for block in state["blocks"]) + len(state["spans"]) < 10_000


def test_under_strict_records_are_taken_for_gapless_as_in_the_original() -> None:
    encoder = block_gzip_format(BlockGzip(Lines(), 100, true_offsets=False)).open(None)
    assert isinstance(encoder, BlockGzipFile)
    encoder.set_offsets(np.array([0, 100]))
    encoder.append(texts("a", "b"))
    encoder.finish()
    assert list(parse_index(encoder.index(0), "x").blocks[0].offsets()) == [0, 1]
