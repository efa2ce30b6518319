"""An offset set behaves as a set of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.model.offsets import OffsetSet
from tests.support.examples import examples

OFFSETS = st.sets(st.integers(0, 60))


def content(offsets: OffsetSet) -> set[int]:
    return {offset for first, last in offsets.ranges for offset in range(first, last + 1)}


@settings(max_examples=examples(150))
@given(OFFSETS, OFFSETS, st.integers(-1, 61))
def test_it_behaves_as_a_set(left: set[int], right: set[int], cut: int) -> None:
    a, b = OffsetSet.of(left), OffsetSet.of(right)

    assert content(a) == left
    assert len(a) == len(left)
    assert content(a.plus(b)) == left | right
    assert a.plus(b) == b.plus(a) == OffsetSet.of(left | right)
    assert content(a.since(cut)) == {offset for offset in left if offset >= cut}
    assert content(a.before(cut)) == {offset for offset in left if offset < cut}
    asked = np.array(sorted(right), np.int64)
    assert a.mask(asked).tolist() == [offset in left for offset in sorted(right)]


def test_neighbours_are_one_range() -> None:
    assert OffsetSet.of([7, 3, 4, 5, 9]).ranges == ((3, 5), (7, 7), (9, 9))
