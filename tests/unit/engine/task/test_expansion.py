"""A batch whose records become too many values at once is written all the same, a part of it at a time."""

from __future__ import annotations

import io
import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.memory_world import ORDERS, START_MS, World

PARQUET = "io.confluent.connect.s3.format.parquet.ParquetFormat"
WIDE = 200
ITEMS = 75
AT_ONCE = 1 << 19
"""The real bound is reached in `tests/unit/connect/converters/test_expansion.py`."""
SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "a",
            "type": "array",
            "items": {
                "type": "struct",
                "fields": [{"field": f"f{n}", "type": "int64", "optional": True} for n in range(WIDE)],
            },
        }
    ],
}


def test_records_that_are_too_much_together_are_each_written_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.connect.schemas.expansion.AT_ONCE", AT_ONCE)
    count = AT_ONCE // (ITEMS * WIDE) + 2
    config = {"flush.size": str(count), "value.schema": json.dumps(SCHEMA), "format.class": PARQUET}
    world = World(config, topics=(ORDERS,))
    for n in range(count):
        value = json.dumps({"a": [{"f0": n}, *[{}] * (ITEMS - 1)]}).encode()
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, None, value))
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)

    (key,) = [key for key in world.store.objects if key.startswith("topics/")]
    rows = pq.read_table(io.BytesIO(world.store.get(key))).column("a")
    assert pc.struct_field(pc.list_element(rows, 0), "f0").to_pylist() == list(range(count))
    assert world.log().load().progress[ORDERS].frontier == count
