from __future__ import annotations

from kafka_s3.model.timing import RateLimiter


def test_one_of_a_kind_goes_through_and_counts_those_before_it() -> None:
    now = [0.0]
    seldom = RateLimiter(1, clock=lambda: now[0])
    assert [seldom.due("a"), seldom.due("a", 4), seldom.due("b")] == [1, 0, 1]
    now[0] = 1.0
    assert [seldom.due("a", 2), seldom.due("a")] == [6, 0]
