"""The driver gets so many bytes at a time, whatever the records weigh."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafka_s3.kafka.plain_reader import HEADER
from kafka_s3.run.spark import source
from kafka_s3.run.spark.source import RECORD_BYTES, first_bytes, is_cut, sizes

SCHEMA = pa.schema([("value", pa.binary()), ("key", pa.binary()), ("headers", pa.list_(HEADER))])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"value": b"x" * size, "key": None, "headers": []} for size in values], schema=SCHEMA
    )


def test_a_record_weighs_its_value_key_and_headers() -> None:
    rows = [
        {"value": b"123", "key": b"4", "headers": [{"key": "ab", "value": b"c"}, {"key": "d", "value": None}]},
        {"value": None, "key": None, "headers": None},
        {"value": b"", "key": b"12", "headers": [{"key": "e", "value": b"fg"}]},
    ]
    found = sizes(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))

    assert (found - RECORD_BYTES).tolist() == [8, 0, 5]


@pytest.mark.parametrize(("budget", "taken"), [(1, 1), (100 + RECORD_BYTES, 1), (101 + RECORD_BYTES, 2), (10_000, 6)])
def test_records_pass_until_they_have_the_bytes_of_a_read(
    monkeypatch: pytest.MonkeyPatch, budget: int, taken: int
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_READ", budget)
    found = list(first_bytes(iter([batch(100, 100, 100), batch(100, 100, 100)])))

    assert sum(map(len, found)) == taken
    assert is_cut(found) == (taken < 6)
