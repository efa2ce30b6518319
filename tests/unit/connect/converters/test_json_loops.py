"""What the loop lets pass is JSON, and what it finds in it is what a parser finds; what it does not let pass is left to the judge."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.converters.json_loops import Members
from kafka_s3.connect.converters.json_values import parse_document

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["a", "b", "ä", "longer name"])
DOCUMENTS = st.dictionaries(NAMES | st.text(max_size=4), VALUES, max_size=5)


def members(documents: list[bytes], *names: str) -> Members:
    """What is found in the documents; the same where more bytes follow, as many are looked at together where there are so many."""
    found = Members(pa.array(documents, pa.binary()), names)
    followed = Members(pa.array([*documents, b'"' * 64], pa.binary()).slice(0, len(documents)), names)
    assert found.passed.tolist() == followed.passed.tolist()
    if not found.refused:
        assert found._notes.tolist() == followed._notes.tolist()
    return followed


def text(document: Any, *, readable: bool, spaced: bool) -> bytes:
    return json.dumps(document, ensure_ascii=not readable, separators=None if spaced else (",", ":")).encode(
        "utf-8", "replace"
    )


@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_whatever_json_writes_passes(documents: list[Any], readable: bool, spaced: bool) -> None:
    assert members([text(one, readable=readable, spaced=spaced) for one in documents]).passed.all()


@given(DOCUMENTS, st.data())
def test_what_passes_after_a_change_of_any_byte_is_json_of_one_line(document: Any, data: st.DataObject) -> None:
    raw = bytearray(text(document, readable=True, spaced=True))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    changed = bytes(raw)
    if members([changed]).passed.all():
        value, line = parse_document(changed)
        assert (type(value), line) == (dict, changed)


@given(st.binary(max_size=12))
def test_nothing_passes_that_the_judge_refuses(middle: bytes) -> None:
    raw = b'{"a":' + middle + b"}"
    if members([raw]).passed.all():
        value, line = parse_document(raw)
        assert (list(value), line) == (["a"], raw)


@pytest.mark.parametrize("raw", [
    b"", b"{", b"}", b"{}x", b"{} ", b" {}", b"null", b"[]", b'"a"', b'{"a":1,}', b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":+1}',
    b'{"a":-}', b'{"a":1e}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":tru}', b'{"a":truely}', b'{"a" 1}',
    b'{"a":1 "b":2}',
    b'{"a":[1,]}', b'{"a":[1}', b'{"a":{"b":1]}', b'{a:1}', b"{'a':1}", b'{"a":"\n"}', b'{"a":\n1}', b'{"a":"\\x"}', b'{"a":"\\u12g4"}',
    b'{"a":"\xff"}',
    b'{"a":"\xc0\x80"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xf4\x90\x80\x80"}', b'{"a":"\xc3"}', b'{"a":"\\"}', b'{"a":"b}', b'{"":}',
    b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", b'{"a":' + b"1" * 400 + b"}",
])  # fmt: skip
def test_none_of_these_passes(raw: bytes) -> None:
    assert not members([b"{}", raw]).passed[1]


def test_members_are_found_at_the_top_only_and_the_last_of_a_name_counts() -> None:
    found = members([b'{"a":1,"b":{"a":7},"a":2}', b'{"c":[{"a":3}]}', b'{ "a" : null }'], "a")
    assert found.passed.all()
    assert found.column(0, pa.int64()).to_pylist() == [2, None, None]  # type: ignore[union-attr]


ROWS = st.lists(st.dictionaries(NAMES, st.integers(-(2**70), 2**70), max_size=4), min_size=1, max_size=6)


@given(ROWS, st.randoms())
def test_members_are_found_wherever_they_are_in_documents_of_changing_order(rows: list[Any], random: Random) -> None:
    shuffled = [dict(random.sample(list(row.items()), len(row))) for row in rows]
    found = members([text({"x": {"a": 0}, **row}, readable=True, spaced=False) for row in shuffled], "a", "b", "ä")
    for number, name in enumerate(("a", "b", "ä")):
        expected = [row.get(name) for row in rows]
        column = found.column(number, pa.int64())
        fits = all(one is None or -(2**63) <= one < 2**63 for one in expected)
        assert (None if column is None else column.to_pylist()) == (expected if fits else None)


def test_more_members_than_are_known_by_their_place() -> None:
    rows = [{f"name {number}": number + row for number in range(600)} for row in range(3)]
    found = members(
        [text(row, readable=True, spaced=True) for row in rows], "name 0", "name 511", "name 512", "name 599"
    )
    columns = [found.column(number, pa.int64()) for number in range(4)]
    assert [column and column.to_pylist() for column in columns] == [[n, n + 1, n + 2] for n in (0, 511, 512, 599)]


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_a_fraction_is_the_nearest_double(numbers: list[str]) -> None:
    found = members([b'{"a":' + one.encode() + b"}" for one in numbers], "a")
    assert found.passed.all()
    column = found.column(0, pa.float64())
    assert column is not None
    assert list(map(repr, column.to_pylist())) == [repr(float(one)) for one in numbers]


@pytest.mark.parametrize(("kind", "texts", "values"), [
    (pa.string(), [b'"x"', b'"\xc3\xa4"', b'""', b"null"], ["x", "ä", "", None]),
    (pa.int64(), [b"0", b"-9223372036854775808", b"null"], [0, -(2**63), None]),
    (pa.int32(), [b"-0", b"2147483647"], [0, 2**31 - 1]),
    (pa.int64(), [b"999999999999999999", b"-999999999999999999"], [10**18 - 1, 1 - 10**18]),
    (pa.float64(), [b"1", b"-1.5e3", b"0.1"], [1.0, -1500.0, 0.1]),
    (pa.bool_(), [b"true", b"false", b"null"], [True, False, None]),
    (pa.int64(), [b"1", b"1.5"], None), (pa.int64(), [b"9223372036854775808"], None), (pa.int32(), [b"2147483648"], None),
    (pa.string(), [b'"a\\nb"'], None), (pa.string(), [b"1"], None), (pa.float64(), [b'"1"'], None), (pa.bool_(), [b"1"], None),
    (pa.int64(), [b"[1]"], None), (pa.string(), [b'{"a":"b"}'], None),
])  # fmt: skip
def test_a_member_becomes_a_column_where_all_of_it_is_of_the_type(
    kind: pa.DataType, texts: list[bytes], values: list[Any] | None
) -> None:
    found = members([b'{"n":0,"a":' + one + b"}" for one in texts], "a")
    assert found.passed.all()
    column = found.column(0, kind)
    assert (None if column is None else column.to_pylist()) == values


def test_a_slice_of_documents_is_read_as_itself() -> None:
    whole = pa.array([b'{"a":1}', b"x", b'{"a":3}', b'{"a":4}'], pa.binary())
    found = Members(whole.slice(2, 2), ["a"])
    assert not found.refused
    assert found.column(0, pa.int64()).to_pylist() == [3, 4]  # type: ignore[union-attr]
