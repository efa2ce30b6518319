"""Services that tests share: one broker, one S3 server, one Spark session for the whole run, started by the first test that asks.

Nothing is imported or started for unit tests, which ask for none of them.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from tests import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.local.kafka import EmbeddedKafka
    from kafka_s3.local.s3 import EmbeddedS3
    from tests.surroundings import Surroundings

# Before anything starts a JVM or an AWS client: every process of the run sees the same time zone, and never the user's own AWS account.
os.environ |= {
    "TZ": "UTC",
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",  # no JVM lives long enough to compile well
    "PYSPARK_PYTHON": sys.executable,  # Spark's workers need the Python that has the product
    "AWS_ACCESS_KEY_ID": "kafka-s3-local",
    "AWS_SECRET_ACCESS_KEY": "kafka-s3-local-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
    os.environ.pop(name, None)
class_archive.use()
time.tzset()

numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """pyspark leaves the sockets to its JVM to the garbage collector, which may come in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


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

    with SharedKafka() as broker:
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
    from tests.integration.support import Bucket
    from tests.surroundings import Surroundings

    content = Bucket(s3.endpoint_url, bucket)
    yield Surroundings(kafka, s3, content, spark)
    content.close()
