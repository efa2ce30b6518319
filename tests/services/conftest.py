"""Services that tests share: one broker, one S3 server, one Spark session for the whole run, started by the first test that asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from tests.support.numbers import numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.local.kafka import EmbeddedKafka
    from kafka_s3.local.s3 import EmbeddedS3
    from tests.support.surroundings import Surroundings


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """A real broker, shared by all tests: use the topics of `topic`. No test gets another's topic: its records are there still."""
    from kafka_s3.local.kafka import EmbeddedKafka

    created = set[str]()

    class SharedKafka(EmbeddedKafka):
        def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> None:
            assert name not in created, f"Two tests use the topic {name}."
            created.add(name)
            super().create_topic(name, partitions, config=config)

    with SharedKafka(settings={"log.cleaner.backoff.ms": "100"}) as broker:  # what is to be compacted is so at once
        yield broker


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Callable[..., str]:
    """Creates topics with names of their own: `topic("orders", partitions=3, config={...})` gives the name."""

    def create(prefix: str = "topic", partitions: int = 1, *, config: dict[str, str] | None = None) -> str:
        name = f"{prefix}-{next(numbers)}"
        kafka.create_topic(name, partitions, config=config)
        return name

    return create


@pytest.fixture(scope="session")
def s3() -> Iterator[EmbeddedS3]:
    """An S3 server, shared by all tests: use the bucket of `bucket`."""
    from kafka_s3.local.s3 import EmbeddedS3

    with EmbeddedS3() as server:
        yield server


@pytest.fixture
def bucket(s3: EmbeddedS3) -> str:
    """The name of a new, empty bucket."""
    name = f"bucket-{next(numbers)}"
    s3.create_bucket(name)
    return name


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two cores, the Kafka source and Delta."""
    from kafka_s3.local.jars import spark_kafka_and_delta_jars
    from kafka_s3.local.java import java_environment

    os.environ |= java_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": ",".join(map(str, spark_kafka_and_delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.memory": "1g",
        "spark.python.daemon.module": "kafka_s3.spark.daemon",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("kafka-s3 tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def here(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession) -> Iterator[Surroundings]:
    """Everything a sink needs, to run inside the test process."""
    from tests.support.bucket import Bucket
    from tests.support.surroundings import Surroundings

    content = Bucket(s3.endpoint_url, bucket)
    yield Surroundings(kafka, s3, content, spark)
    content.close()
