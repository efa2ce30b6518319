"""Which fixtures does the wheel bring to pytest? Services, started once by the first test that asks, and sinks run over records.

Session-wide: `kafka_broker`, `s3_server`, `schema_registry`, `spark`. For one test: `kafka_topic`, `s3_bucket`, `run_sink`,
`run_sink_on_spark`. A fixture of the same name in a `conftest.py` comes first, as always in pytest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.registry import EmbeddedRegistry
    from kafka_s3_testing.services.s3 import EmbeddedS3
    from kafka_s3_testing.sink_run import RunSink

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where warnings are errors, tests on Spark do not fail for PySpark's sockets, which it leaves to the garbage collector."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[EmbeddedKafka]:
    """A real broker, shared by all tests: use the topics of `kafka_topic`."""
    from kafka_s3_testing.services.kafka import EmbeddedKafka

    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: EmbeddedKafka) -> Callable[..., str]:
    """Creates topics with names of their own: `kafka_topic("orders", partitions=3, config={...})` gives the name."""

    def create(prefix: str = "topic", partitions: int = 1, *, config: dict[str, str] | None = None) -> str:
        name = f"{prefix}-{next(_numbers)}"
        kafka_broker.create_topic(name, partitions, config=config)
        return name

    return create


@pytest.fixture(scope="session")
def s3_server() -> Iterator[EmbeddedS3]:
    """An S3 server, shared by all tests: use the bucket of `s3_bucket`."""
    from kafka_s3_testing.services.s3 import EmbeddedS3

    with EmbeddedS3() as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: EmbeddedS3) -> str:
    """The name of a new, empty bucket."""
    name = f"test-bucket-{next(_numbers)}"
    s3_server.create_bucket(name)
    return name


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[EmbeddedRegistry]:
    """A schema registry, a thread of the test process; its schemas stay for the whole run."""
    from kafka_s3_testing.services.registry import EmbeddedRegistry

    with EmbeddedRegistry() as registry:
        yield registry


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two cores, its Kafka source and Delta, in UTC."""
    from kafka_s3.run.spark.session import delta_session, end_session

    session = delta_session(name="kafka-s3 tests", cores="2", warehouse=tmp_path_factory.mktemp("warehouse"))
    yield session
    end_session(session)


@pytest.fixture
def run_sink(request: pytest.FixtureRequest) -> RunSink:
    """`run_sink(config, {topic: records})`: the sink in memory, no process; with `delta.enable` the bucket is one of `s3_server`."""
    from kafka_s3_testing.sink_run import run_in_memory

    return partial(run_in_memory, server=lambda: request.getfixturevalue("s3_server"))


@pytest.fixture
def run_sink_on_spark(kafka_broker: EmbeddedKafka, s3_server: EmbeddedS3, spark: SparkSession) -> RunSink:
    """The same through Kafka, Spark and S3, as production runs it."""
    from kafka_s3_testing.sink_run import run_on_spark

    return partial(run_on_spark, kafka=kafka_broker, server=s3_server, spark=spark)
