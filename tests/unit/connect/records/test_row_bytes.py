"""What does each row of a table take in memory? All together about what Arrow says of the table, wherever it was cut."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from kafka_s3.connect.records.values import row_bytes, table_bytes

TABLE = pa.table({
    "number": pa.array([1, None, 3, 4]), "flag": pa.array([True, False, None, True]),
    "text": pa.array(["a", None, "ccc", "x" * 1000]), "nothing": pa.nulls(4),
    "list": pa.array([["x" * 50, "y"], None, [], ["z"]], pa.list_(pa.string())),
    "map": pa.array([[("k", 1)], None, [("kk", 2), ("z" * 99, 3)], []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": "y" * 300}, {"a": None, "b": None}]),
    "structs": pa.array([[{"a": 1}] * 3, [], None, [{"a": 2}]]),
    "decimal": pa.array([Decimal("1.1")] * 4, pa.decimal128(10, 2)), "fixed": pa.array([b"abcd"] * 4, pa.binary(4)),
})  # fmt: skip


def test_a_row_takes_what_its_values_take() -> None:
    first, second, third, last = row_bytes(TABLE).tolist()

    assert first + second + third + last == pytest.approx(table_bytes(TABLE), rel=0.02)
    assert second < first < third < last
    assert third > 99 + 300
    assert last > 1000


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (2, 4), (3, 3)])
def test_slices_and_tables_of_several_pieces_have_their_rows(start: int, stop: int) -> None:
    whole = row_bytes(TABLE)
    for table in (TABLE.slice(start, stop - start), pa.concat_tables([TABLE, TABLE]).slice(4 + start, stop - start)):
        assert np.abs(row_bytes(table) - whole[start:stop]).max(initial=0) <= 2  # bits that say what is null
