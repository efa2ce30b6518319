"""Do the limits of a consumer follow from what a topic's records take?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.kafka.reader.settings import (
    LEARNING,
    LEAST_FETCHED,
    MOST_FETCHED,
    QUEUE_BYTES,
    TOO_MUCH,
    WAITING_BYTES,
    Pace,
    Weight,
)

MIB = 1 << 20
ORDERS = Weight.of_fetch(held=55_000, records=110, fetched=16_500)
"""JSON of 142 bytes, not compressed."""
SIZES = st.integers(1, 1 << 30)


def test_ordinary_records_are_read_with_the_highest_limits_and_together() -> None:
    assert ORDERS.pace(1) == Pace(MOST_FETCHED, 25_000)
    assert ORDERS.pace(4) == Pace(128 << 10, 12_500)
    assert ORDERS.pace(32) == Pace(128 << 10, 3125)
    assert ORDERS.allows(32)
    assert not ORDERS.is_large


def test_what_is_a_hundred_times_larger_in_memory_is_fetched_in_small_pieces() -> None:
    bombs = Weight.of_fetch(held=8 * MIB, records=100, fetched=80_000)
    assert bombs.pace(1) == Pace(MOST_FETCHED // 4, 195)
    assert bombs.is_large
    assert not bombs.allows(32)


def test_batches_that_alone_are_too_large_are_fetched_one_by_one() -> None:
    assert Weight.of_fetch(held=100 * MIB, records=1000, fetched=MIB).pace(1).records == 1


@given(SIZES, st.integers(1, 100_000), st.integers(1, MIB), st.sampled_from([1, 4, 32]))
def test_what_waits_and_what_a_fetch_brings_are_within_the_bound(
    held: int, records: int, fetched: int, together: int
) -> None:
    weight = Weight.of_fetch(held, records, fetched)
    limits = weight.pace(together)
    share = QUEUE_BYTES / together
    assert limits.records == 1 or limits.records * weight.record <= (WAITING_BYTES if together == 1 else share)
    assert limits.fetch_bytes == LEAST_FETCHED or limits.fetch_bytes * weight.log_byte <= share
    assert not weight.exceeds(limits, limits.records, together)


def test_records_that_become_larger_count_at_once_and_smaller_ones_bit_by_bit() -> None:
    larger = ORDERS.with_later(held=1_000_000, records=100)
    assert larger.record == 10_000
    assert larger.with_later(held=200_000, records=100).record == pytest.approx(9000)


def test_limits_that_allow_far_too_much_are_noticed_whether_so_much_waits_or_not() -> None:
    limits = ORDERS.pace(1)
    assert not ORDERS.exceeds(limits, 1000, 1)
    assert ORDERS.exceeds(limits, TOO_MUCH * QUEUE_BYTES // 500 + 1, 1)
    assert ORDERS.with_later(held=100_000 * 100, records=100).exceeds(limits, 10, 1)


def test_the_first_fetch_has_nothing_behind_it() -> None:
    assert Pace(16 << 10, 1) == LEARNING
