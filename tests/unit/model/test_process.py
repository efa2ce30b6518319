"""Who does the work that is given to a pool?"""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from kafka_s3.model.process import ThreadPool

SINK = ContextVar("SINK", default="none")


def at_work(item: int) -> tuple[int, str, bool]:
    return item, SINK.get(), threading.current_thread() is threading.main_thread()


def test_several_items_are_done_beside_the_caller_in_its_context_and_come_in_their_order() -> None:
    SINK.set("orders")
    with ThreadPool(2) as pool:
        assert list(pool.each(at_work, range(5))) == [(n, "orders", False) for n in range(5)]


def test_one_item_alone_and_all_of_a_single_thread_are_done_by_the_caller_and_none_by_nobody() -> None:
    with ThreadPool(2) as pool:
        assert [done for _, _, done in pool.each(at_work, [7])] == [True]
        assert list(pool.each(at_work, [])) == []
    with ThreadPool(1) as pool:
        assert [done for _, _, done in pool.each(at_work, range(3))] == [True] * 3


@pytest.mark.parametrize("count", [1, 3])
def test_a_failure_is_the_callers(count: int) -> None:
    def fails(item: int) -> int:
        raise ValueError(f"item {item}")

    with ThreadPool(2) as pool, pytest.raises(ValueError, match="item 0"):
        list(pool.each(fails, range(count)))
