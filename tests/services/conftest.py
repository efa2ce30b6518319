"""Services that tests share: those of the plugin that users test with (`kafka_s3_testing.plugin`), by shorter names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3
    from tests.support.surroundings import Surroundings


@pytest.fixture(scope="session", autouse=True)
def _spark_classes() -> None:
    """Every JVM of Spark takes the archive of its classes, also those that tests start by its own commands."""
    from kafka_s3.run.java.java import find_java
    from kafka_s3.run.spark.class_archive import joined, spark_classes

    os.environ["SPARK_SUBMIT_OPTS"] = joined(spark_classes().options(find_java()))


@pytest.fixture(scope="session")
def kafka(kafka_broker: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """The broker. No test gets another's topic: its records are there still."""
    created, create_topic = set[str](), kafka_broker.create_topic

    def create(name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> None:
        assert name not in created, f"Two tests use the topic {name}."
        created.add(name)
        create_topic(name, partitions, config=config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_broker, "create_topic", create)
        yield kafka_broker


@pytest.fixture
def topic(kafka: EmbeddedKafka, kafka_topic: Callable[..., str]) -> Callable[..., str]:
    """The plugin's topics, watched by `kafka`."""
    return kafka_topic


@pytest.fixture(scope="session")
def s3(s3_server: EmbeddedS3) -> EmbeddedS3:
    """The plugin's server."""
    return s3_server


@pytest.fixture
def bucket(s3_bucket: str) -> str:
    """The plugin's bucket."""
    return s3_bucket


@pytest.fixture
def here(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession) -> Iterator[Surroundings]:
    """Everything a sink needs, to run inside the test process."""
    from tests.support.bucket import Bucket
    from tests.support.surroundings import Surroundings

    content = Bucket(s3.endpoint_url, bucket)
    yield Surroundings(kafka, s3, content, spark)
    content.close()
