"""Values become one text: all bytes in order, a separator behind each, and nothing of what lies around a slice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.records.joining import gathered, joined


@given(st.lists(st.binary(max_size=9), max_size=12), st.binary(max_size=3), st.data())
def test_any_slice_is_joined_as_python_does_it(values: list[bytes], separator: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    text = joined(pa.array(values, pa.binary()).slice(start, stop - start), separator)
    assert bytes(text) == b"".join(value + separator for value in values[start:stop])


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=12), st.binary(max_size=3), st.data())
def test_any_rows_are_gathered_in_their_order_with_where_each_begins(
    values: list[bytes], separator: bytes, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    rows = data.draw(st.lists(st.integers(0, len(values) - start - 1), max_size=12))
    text, bounds = gathered(pa.array(values, pa.binary()).slice(start), np.array(rows, np.int64), separator)
    found = [bytes(text[begin:end]) for begin, end in pairwise(bounds.tolist())]
    assert (found, len(text)) == ([values[start + row] + separator for row in rows], bounds[-1])


@pytest.mark.parametrize("separator", [b"", b"\n"])
def test_strings_are_joined_as_their_utf_8(separator: bytes) -> None:
    assert bytes(joined(pa.array(["ä", "", "z"]), separator)) == b"".join(
        t.encode() + separator for t in ("ä", "", "z")
    )


def test_a_small_slice_does_not_keep_the_memory_of_all() -> None:
    values = pa.array([b"x" * 100] * 10, pa.binary())
    assert isinstance(joined(values, b""), memoryview), "all of it is no copy"
    assert isinstance(joined(values.slice(3, 2), b""), bytes)
