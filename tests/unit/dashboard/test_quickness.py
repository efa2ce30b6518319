"""What makes pages quick does not change what they say: groups are those of the rows, what is kept is of this state, pages go first."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3_dashboard.figures.data import MINUTE_MS
from kafka_s3_dashboard.page.controls import Chosen
from kafka_s3_dashboard.page.resources import MOST, KeptResults
from kafka_s3_dashboard.reading.background import GiveWay
from kafka_s3_dashboard.reading.groups import groups_by
from tests.support.examples import examples

rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-(2**62), 2**62) | st.integers(0, 3), st.integers(0, 9)), max_size=40
)


@given(found=rows)
@settings(max_examples=examples(60))
def test_groups_sum_up_what_their_rows_have(found: list[tuple[str, int, int]]) -> None:
    frame = pd.DataFrame(found, columns=["word", "number", "value"]).astype(
        {"word": "category", "number": "int64", "value": "int64"}
    )
    groups = groups_by(frame["word"], frame["number"])
    places = [(str(row.word), row.number) for row in frame.iloc[groups.first].itertuples()]
    wanted: dict[tuple[str, int], list[int]] = {}
    for word, number, value in found:
        wanted.setdefault((word, number), []).append(value)
    assert places == list(wanted)  # in order of appearance
    assert groups.sizes().tolist() == [len(values) for values in wanted.values()]
    assert groups.sums(frame["value"]).tolist() == [sum(values) for values in wanted.values()]
    assert groups.lowest(frame["value"]).tolist() == [min(values) for values in wanted.values()]
    assert groups.highest(frame["value"]).tolist() == [max(values) for values in wanted.values()]


def test_a_result_is_kept_for_one_state_of_the_log() -> None:
    kept, made, first, second = KeptResults(), Counter[str](), object(), object()

    def make(name: str) -> str:
        made[name] += 1
        return name

    assert [kept.of(first, "a", make=lambda: make("a")) for _ in range(3)] == ["a"] * 3
    assert made["a"] == 1
    kept.of(second, "a", make=lambda: make("a"))
    assert made["a"] == 2


def test_the_results_that_nobody_asked_for_lately_go_first() -> None:
    kept, state = KeptResults(), object()
    for number in range(MOST + 1):
        kept.of(state, number, make=lambda number=number: number)  # type: ignore[misc]
        kept.of(state, 0, make=lambda: 0)
    assert kept.of(state, 0, make=lambda: -1) == 0
    assert kept.of(state, 1, make=lambda: -1) == -1


def test_readers_wait_while_a_page_is_drawn() -> None:
    way, seen = GiveWay(), list[str]()
    with ThreadPoolExecutor(1) as pool:
        with way.drawing(), way.drawing():
            read = pool.submit(lambda: (way.wait(), seen.append("read")))
            time.sleep(0.05)
            seen.append("drawn")
        read.result(200)
    assert seen == ["drawn", "read"]


def test_a_window_stays_the_same_for_a_minute_so_that_its_figures_can_be_kept() -> None:
    chosen, now_ms = Chosen("orders", span="24 hours"), 1_705_312_800_000
    assert chosen.window(now_ms) == chosen.window(now_ms + MINUTE_MS - 1)
    assert chosen.window(now_ms).since_ms == now_ms - 24 * 60 * MINUTE_MS
