"""Records by directory: whether they are slices or gathered, each directory gets the same ones in the same order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batch

NAMES = ["a", "b", "c"]


def documents(offsets: np.ndarray) -> Run:
    texts = pa.array([b"%d" % offset for offset in offsets], pa.binary())
    return Run(offsets, offsets + 1000, JsonText(texts, pa.table({"own": offsets})), None)


@given(st.lists(st.integers(0, 2), max_size=40), st.data())
def test_directories_come_in_first_seen_order_with_all_their_records(codes: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(codes)))
    stop = data.draw(st.integers(start, len(codes)))
    run = documents(np.arange(7, 7 + len(codes)))
    part = mixed_batch([RoutedRun(run, np.array(codes, np.int32), NAMES, None)])

    found = {}
    for name, [(run, places)] in part.runs_by_partition(start, stop):
        assert run.offsets.tolist() == (places + 7).tolist() == run.values.objects()
        assert len(run.values) == len(run) == len(run.timestamps)
        assert run.values.table.column("own").to_pylist() == run.offsets.tolist()
        found[name] = places.tolist()

    expected: dict[str, list[int]] = {}
    for place in range(start, stop):
        expected.setdefault(NAMES[codes[place]], []).append(place)
    assert list(found.items()) == list(expected.items())


def test_directories_that_take_turns_and_end_with_the_last_record_are_no_slice() -> None:
    part = mixed_batch([RoutedRun(documents(np.arange(4)), np.array([0, 1, 0, 1], np.int32), NAMES, None)])
    found = {name: run.offsets.tolist() for name, [(run, _)] in part.runs_by_partition(0, 4)}
    assert found == {"a": [0, 2], "b": [1, 3]}
