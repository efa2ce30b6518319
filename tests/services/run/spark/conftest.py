"""What tests of Delta tables on Spark share: a server, a schema of the catalog for each test, and a sink whose tables have names there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.s3_servers import strict_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3
    from tests.services.run.spark.delta_spark_world import SparkWorld


@pytest.fixture(scope="session")
def objects() -> Iterator[EmbeddedS3]:
    """versitygw, whose buckets are folders."""
    from kafka_s3_testing.services.s3 import EmbeddedS3

    with EmbeddedS3(engine=strict_engine()) as server:
        yield server


@pytest.fixture
def schema(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"s{abs(hash(request.node.name)) % 10**9}"
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def named(objects: EmbeddedS3, spark: SparkSession, schema: str) -> SparkWorld:
    """Tables over the objects themselves, with names."""
    from tests.services.run.spark.delta_spark_world import SparkWorld

    return SparkWorld(objects, spark, schema)
