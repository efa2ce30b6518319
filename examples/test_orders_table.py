"""How to test a pipeline on the sink's Delta table, on a laptop: pytest, delta-spark and chispa. `pytest examples/test_orders_table.py`

The table is made by the real sink, with the configuration of production, from records that the test writes down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from kafka_s3.config.read import read_config
from kafka_s3.local.tables import delta_tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIG = read_config(Path(__file__).parent / "orders-table.json").texts


# ---------------------------------------------------------------- the pipeline that is tested


def revenue_by_country(orders: DataFrame) -> DataFrame:
    """What each country has paid, without cancelled orders. Older orders have no field `cancelled`."""
    from pyspark.sql import functions as F  # noqa: N812

    paid = orders.where(~F.coalesce(F.col("cancelled"), F.lit(False)))
    return paid.groupBy("country").agg(F.sum(F.col("price") * F.col("quantity")).alias("revenue"))


# ---------------------------------------------------------------- fixtures, for a conftest.py of your own


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark that reads Delta tables."""
    from kafka_s3.local.jars import spark_kafka_and_delta_jars
    from kafka_s3.local.java import java_environment

    with pytest.MonkeyPatch.context() as patch:
        for name, value in java_environment().items():
            patch.setenv(name, value)
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", ",".join(map(str, spark_kafka_and_delta_jars())))
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        yield session
        session.stop()


def order(**fields: Any) -> bytes:
    """A value as the shop produces it."""
    return json.dumps({"country": "DE", "price": 1.5, "quantity": 2} | fields).encode()


# ---------------------------------------------------------------- the tests


def test_cancelled_orders_bring_no_revenue(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the field came later."""
    records = [
        order(),
        order(country="FR", quantity=1),
        order(),  # up to here the field is not known yet
        order(cancelled=True),
        order(country="FR", quantity=3, cancelled=False),
    ]
    tables = delta_tables_of(CONFIG, {"orders": records}, tmp_path)

    found = revenue_by_country(spark.read.format("delta").load(str(tables["orders"])))

    expected = spark.createDataFrame([("DE", 6.0), ("FR", 6.0)], "country string, revenue double")
    assert_df_equality(found, expected, ignore_row_order=True)


def test_a_broken_record_is_not_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """It is a dead letter."""
    tables = delta_tables_of(CONFIG, {"orders": [order(quantity=1), b"{broken"]}, tmp_path)

    found = spark.read.format("delta").load(str(tables["orders"])).select("country", "quantity")

    assert_df_equality(found, spark.createDataFrame([("DE", 1)], "country string, quantity long"))
