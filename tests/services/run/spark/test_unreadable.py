"""Does a record that Spark cannot represent stop nothing but itself?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import UnreadableRecord
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.spark.source import DriverSource, SparkSource
from kafka_s3.run.wiring.pipeline import task_plan
from tests.support.bucket import Bucket
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.connect.config.settings import Settings
    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

NANOSECONDS = 1_736_935_200_000_000_000
MICROSECONDS = 1_736_935_200_000_000


@pytest.fixture
def times(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions whose producers count as they please: partition 0 in ms, us and ns, partition 1 in ms."""
    name = f"times-{abs(hash(request.node.name)) % 10**9}"
    KafkaBrokers(kafka.bootstrap_servers).create_topic(
        name, partitions=2, config={"message.timestamp.after.max.ms": str(2**63 - 1)}
    )
    stamps = [1_736_935_200_000, MICROSECONDS, NANOSECONDS, 1_736_935_200_001]
    records = [Given(document(n=n), 0, stamp) for n, stamp in enumerate(stamps)]
    produce(kafka.bootstrap_servers, name, [*records, *(Given(document(n=n), 1) for n in range(3))])
    return name


@pytest.fixture
def settings(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, times: str) -> Callable[..., Settings]:
    def make(**more: str) -> Settings:
        config = {
            **BASE, "name": times, "topics": times, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
            "kafka.bootstrap.servers": kafka.bootstrap_servers, "flush.size": "2", **more,
        }  # fmt: skip
        return resolved(validate(config).usable())

    return make


@pytest.mark.parametrize("where", ["executors", "driver"])
def test_a_time_in_nanoseconds_is_written_like_any_other(
    settings: Callable[..., Settings], spark: SparkSession, s3: EmbeddedS3, bucket: str, times: str, where: str
) -> None:
    sink = sink_on_spark(settings(**{"tasks.run.on": where, "kafka.reader": "spark"}), spark)
    sink.open()
    assert sink.poll_and_commit()
    sink.drain(close=Reason.FLUSH_NOW)
    content = Bucket(s3.endpoint_url, bucket)
    found = {
        key: [json.loads(line)["n"] for line in content.get(key).splitlines()]
        for key in content.listing()
        if key.startswith("topics/")
    }
    content.close()
    assert sorted(found.values()) == [[0, 1], [0, 1], [2], [2, 3]]
    assert sink.log.state.totals.read == 7


@pytest.mark.parametrize("on_driver", [False, True])
def test_sparks_failure_is_no_outage_of_kafka(
    settings: Callable[..., Settings], spark: SparkSession, kafka: EmbeddedKafka, times: str, on_driver: bool
) -> None:
    engine = SparkSource(spark, task_plan(settings()), bootstrap_servers=kafka.bootstrap_servers)
    wanted = Assignment(TopicPartition(times, 0), 0, 4, (Delivery(0, 4),))
    with pytest.raises(UnreadableRecord, match="cannot read a record, however often it tries"):
        (DriverSource(engine).run_on_driver if on_driver else engine.run_job)([wanted])
