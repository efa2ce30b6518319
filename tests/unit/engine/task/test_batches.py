"""Batches become larger where open files are many, within a bound, and no record is lost or moved."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.task.batches import MOST, ROWS_PER_FILE, FilesMade, coalesced, records_at_once
from tests.support.examples import examples


def a_batch(first: int, rows: int, *, wide: bool = False) -> pa.RecordBatch:
    columns = {"offset": pa.array(range(first, first + rows), pa.int64())}
    return pa.RecordBatch.from_pydict(columns | ({"key": pa.nulls(rows, pa.binary())} if wide else {}))


def rows_of(batches: list[pa.RecordBatch], *, open_files: int, budget: int = 1 << 20) -> list[int]:
    return [len(batch) for batch in coalesced(batches, lambda: open_files, budget)]


def test_few_open_files_get_the_batches_as_they_come() -> None:
    batches = [a_batch(0, 640), a_batch(640, 640)]
    assert [*coalesced(batches, lambda: 10, 1 << 20)] == batches
    assert rows_of(batches, open_files=0) == [640, 640]


def test_many_get_enough_records_for_each_and_the_rest_at_the_end() -> None:
    batches = [a_batch(at * 640, 640) for at in range(5)]
    assert rows_of(batches, open_files=20) == [1280, 1280, 640]


def test_no_more_is_held_than_the_budget_says() -> None:
    batches = [a_batch(at * 100, 100) for at in range(5)]
    assert rows_of(batches, open_files=1000, budget=2 * batches[0].nbytes) == [200, 200, 100]
    assert rows_of(batches, open_files=1000, budget=1) == [100] * 5


def test_however_much_memory_there_is_a_joined_batch_has_offsets_of_32_bits() -> None:
    half = pa.RecordBatch.from_pydict({"value": pa.array([bytes(MOST // 2 + 1)], pa.binary())})
    assert rows_of([half] * 3, open_files=1000, budget=1 << 40) == [1] * 3


def test_batches_of_other_columns_stay_apart() -> None:
    batches = [a_batch(0, 10), a_batch(10, 10), a_batch(20, 10, wide=True)]
    assert rows_of(batches, open_files=1000) == [20, 10]


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 300), max_size=12), st.integers(0, 20), st.integers(1, 5000))
def test_every_record_comes_once_and_in_order(sizes: list[int], files: int, budget: int) -> None:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    batches = [a_batch(start, size) for start, size in zip(starts, sizes, strict=True)]
    found = [*coalesced(batches, lambda: files, budget)]
    assert [offset for batch in found for offset in batch.column("offset").to_pylist()] == [*range(sum(sizes))]
    assert all(batch.nbytes <= budget or len(batch) <= max(sizes) for batch in found)
    assert all(len(batch) < ROWS_PER_FILE * files + max(sizes) for batch in found if files)


def test_while_nothing_is_known_of_a_topic_each_record_may_close_a_file() -> None:
    assert records_at_once(5000, closed=0, records=0, files=0) == 5000
    assert records_at_once(5000, closed=0, records=8000, files=0) == 5000


def test_as_many_records_are_taken_as_make_the_files_that_are_left() -> None:
    assert records_at_once(5000, closed=1000, records=16_000, files=2000) == 32_000
    assert records_at_once(5000, closed=5000, records=10, files=10) == 500, "a tenth at least, or it would never end"


def test_a_task_begins_with_what_the_last_one_of_its_topic_has_seen() -> None:
    made = FilesMade()
    assert made.of("orders") == (0, 0)
    made.note("orders", 8000, 1)
    made.note("orders", 0, 0)
    assert (made.of("orders"), made.of("others")) == ((8000, 1), (0, 0))
    made.note("others", 10, 10)
    assert made.of("orders") == (0, 0)
