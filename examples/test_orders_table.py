"""How to test a pipeline on the sink's Delta table, on a laptop: pytest, delta-spark and chispa. `pytest examples/test_orders_table.py`

The table is made by the real sink, with the configuration of production, from records that the test writes down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chispa import assert_df_equality

from kafka_s3 import read_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_s3_testing.sink_run import RunSink

CONFIG = read_config(Path(__file__).parent / "orders-table.json").texts


# ---------------------------------------------------------------- the pipeline that is tested


def revenue_by_country(orders: DataFrame) -> DataFrame:
    """What each country has paid, without cancelled orders. Older orders have no field `cancelled`."""
    from pyspark.sql import functions as F  # noqa: N812

    paid = orders.where(~F.coalesce(F.col("cancelled"), F.lit(False)))
    return paid.groupBy("country").agg(F.sum(F.col("price") * F.col("quantity")).alias("revenue"))


def order(**fields: Any) -> bytes:
    """A value as the shop produces it."""
    return json.dumps({"country": "DE", "price": 1.5, "quantity": 2} | fields).encode()


# ---------------------------------------------------------------- the tests: run_sink and spark are the plugin's


def test_cancelled_orders_bring_no_revenue(run_sink: RunSink, spark: SparkSession, tmp_path: Path) -> None:
    """Also where the field came later."""
    records = [
        order(),
        order(country="FR", quantity=1),
        order(),  # up to here the field is not known yet
        order(cancelled=True),
        order(country="FR", quantity=3, cancelled=False),
    ]
    made = run_sink(CONFIG, {"orders": records}).save(tmp_path)

    found = revenue_by_country(spark.read.format("delta").load(str(made / "topics" / "orders")))

    expected = spark.createDataFrame([("DE", 6.0), ("FR", 6.0)], "country string, revenue double")
    assert_df_equality(found, expected, ignore_row_order=True)


def test_a_broken_record_is_not_in_the_table(run_sink: RunSink, spark: SparkSession, tmp_path: Path) -> None:
    """It is a dead letter."""
    made = run_sink(CONFIG, {"orders": [order(quantity=1), b"{broken"]})

    found = spark.read.format("delta").load(str(made.save(tmp_path) / "topics" / "orders"))

    expected = spark.createDataFrame([("DE", 1)], "country string, quantity long")
    assert_df_equality(found.select("country", "quantity"), expected)
    assert [letter.value for letter in made.dead_letters] == [b"{broken"]
