"""What do footers of Parquet objects say, and how much of one is read for it?"""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_s3.followers.delta.planner import TAIL_BYTES, read_footer
from kafka_s3.model.errors import StorageError
from kafka_s3.store.memory import MemoryStore


def store_of(table: pa.Table, **options: Any) -> tuple[MemoryStore, int]:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, store_schema=False, **options)
    store = MemoryStore()
    store.put("key", buffer.getvalue())
    return store, len(buffer.getvalue())


def stats(table: pa.Table, **options: Any) -> dict[str, Any]:
    store, size = store_of(table, **options)
    found: dict[str, Any] = json.loads(read_footer(store, "key", size).stats())
    return found


def test_statistics_come_from_all_row_groups_of_the_footer() -> None:
    table = pa.table(
        {
            "n": pa.array([3, None, 1, 2]), "day": [date(2024, 1, day) for day in (4, 2, 3, 1)], "none": pa.array([None] * 4, pa.int64()),
            "in": [{"x": n} for n in (5, 6, None, 4)], "list": [[1]] * 4, "money": pa.array([Decimal("1.25")] * 4),
        }
    )  # fmt: skip
    assert stats(table, row_group_size=2) == {
        "numRecords": 4,
        "minValues": {"n": 1, "day": "2024-01-01", "in": {"x": 4}},
        "maxValues": {"n": 3, "day": "2024-01-04", "in": {"x": 6}},
        "nullCount": {"n": 1, "day": 0, "none": 4, "in": {"x": 1}, "money": 0},
    }


def test_bounds_never_exclude_a_value_that_is_there() -> None:
    at = datetime(2024, 1, 1, 12, 0, 0, 1500, tzinfo=UTC)
    table = pa.table(
        {
            "long": ["a" * 40, "z" * 40], "top": ["b", "c" * 32 + "\U0010ffff"], "f": [1.0, float("nan")],
            "at": pa.array([at, at], pa.timestamp("us", tz="UTC")),
        }
    )  # fmt: skip
    found = stats(table)
    assert found["minValues"] == {"long": "a" * 32, "top": "b", "f": 1.0, "at": "2024-01-01T12:00:00.001Z"}
    assert found["maxValues"] == {"long": "z" * 32 + "\U0010ffff", "at": "2024-01-01T12:00:00.002Z"}


BEYOND_MS, BEYOND_DAYS = 253_402_300_800_000, 2_932_897
"""The first millisecond and the first day of the year 10000."""


@pytest.mark.parametrize(
    ("kind", "numbers", "low", "high"),
    [
        (pa.timestamp("ms", "UTC"), [BEYOND_MS, 0], "1970-01-01T00:00:00.000Z", None),
        (pa.timestamp("ms", "UTC"), [BEYOND_MS, BEYOND_MS], None, None),
        (pa.timestamp("ms"), [-BEYOND_MS, BEYOND_MS - 1], None, "9999-12-31T23:59:59.999"),
        (pa.timestamp("us", "UTC"), [-1, BEYOND_MS * 1000 - 1], "1969-12-31T23:59:59.999Z", None),
        (pa.timestamp("us", "UTC"), [-(2**63), 2**63 - 1], None, None),
        (pa.date32(), [BEYOND_DAYS, 0], "1970-01-01", None),
        (pa.date32(), [-719_162, BEYOND_DAYS - 1], "0001-01-01", "9999-12-31"),
        (pa.date32(), [-(2**31), 2**31 - 1], None, None),
        (pa.time32("ms"), [-5, 2**31 - 1], None, None),
    ],
)
def test_a_bound_beyond_the_years_1_to_9999_is_left_out_and_the_other_stays(
    kind: pa.DataType, numbers: list[int], low: str | None, high: str | None
) -> None:
    found = stats(pa.table({"at": pa.array(numbers, kind)}))
    assert (found["minValues"].get("at"), found["maxValues"].get("at")) == (low, high)


def test_only_the_first_columns_have_statistics_as_with_deltas_own_writers() -> None:
    found = stats(pa.table({f"c{n:02}": [n] for n in range(40)}))
    assert len(found["nullCount"]) == 32


def test_a_footer_larger_than_the_first_request_is_read_whole() -> None:
    store, size = store_of(pa.table({f"a column with a long name {n}": [n] for n in range(1500)}))
    footer = read_footer(store, "key", size)
    assert size > TAIL_BYTES
    assert footer.records == 1
    assert len(footer.schema) == 1500


def test_an_object_that_is_no_parquet_is_refused_by_name() -> None:
    store = MemoryStore()
    store.put("key", b"nothing of the kind")
    with pytest.raises(StorageError, match="Object key is not a Parquet file"):
        read_footer(store, "key", 19)
