"""How to test a sink's configuration, on a laptop: which objects it makes, what is in them, what becomes of bad records.

With the wheel's extra `testing` and chispa installed (docs/testing.md): `pytest examples/test_orders.py`. `run_sink` and `spark` are
fixtures that the wheel brings to pytest; what `run_sink` runs is the real sink, with the configuration of production, over records
that the test writes down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chispa import assert_df_equality

from kafka_s3 import read_config
from kafka_s3_testing.records import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.sink_run import RunSink

CONFIG = read_config(Path(__file__).parent / "orders.json").texts


def order(number: int, **fields: Any) -> bytes:
    """A value as the shop produces it."""
    return json.dumps({"order_id": number, "created_at": "2025-03-14T08:15:00.000Z"} | fields).encode()


def test_an_order_lies_in_the_directory_of_its_hour(run_sink: RunSink) -> None:
    """By the field `created_at`, whatever Kafka's timestamp says. Without any process: a few milliseconds."""
    later = Record(order(2, created_at="2025-03-14T09:00:00.000Z"), partition=2, timestamp_ms=0)

    made = run_sink(CONFIG, {"orders": [order(1), later]})

    assert sorted(made.objects) == [
        "topics/orders/year=2025/month=03/day=14/hour=08/orders+0+0000000000.json.gz",
        "topics/orders/year=2025/month=03/day=14/hour=09/orders+2+0000000000.json.gz",
    ]


def test_orders_are_written_as_they_came(run_sink: RunSink, spark: SparkSession) -> None:
    """Field by field."""
    made = run_sink(CONFIG, {"orders": [order(1, express=True), order(2)]})

    found = made.dataframe(spark, "orders").select("order_id", "express")

    assert_df_equality(found, spark.createDataFrame([(1, True), (2, None)], "order_id long, express boolean"))


def test_an_order_without_its_time_is_a_dead_letter(run_sink: RunSink) -> None:
    """With the stage at which it failed; the others are written."""
    made = run_sink(CONFIG, {"orders": [order(1), b'{"order_id": 2}', b"{broken"]})

    assert [(letter.offset, letter.stage) for letter in made.dead_letters] == [(1, "TASK_PUT"), (2, "VALUE_CONVERTER")]
    assert made.table("orders").num_rows == 1
    assert sum(entry.totals.dead_letters for entry in made.entries) == 2
