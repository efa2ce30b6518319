"""Does the driver that reads for its tasks hold a bounded number of bytes, and still every record?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, OpenState
from kafka_s3.run.spark.source import BYTES_PER_READ, DriverSource, SparkSource
from kafka_s3.run.wiring.pipeline import task_plan
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3


@pytest.mark.nightly
def test_large_records_are_read_in_pieces_of_64_mib_and_all_of_them(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession, topic: Callable[..., str]
) -> None:
    name, count = topic("large"), 90
    produce(kafka.bootstrap_servers, name, [Given(document(n=n, text="x" * 900_000)) for n in range(count)])
    config = {
        **BASE, "name": "driver", "topics": name, "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "kafka.bootstrap.servers": kafka.bootstrap_servers, "flush.size": "1000", "tasks.run.on": "driver",
    }  # fmt: skip
    settings = resolved(validate(config).usable())
    spark_source = SparkSource(spark, task_plan(settings), bootstrap_servers=kafka.bootstrap_servers)
    wanted = Assignment(TopicPartition(name, 0), 0, count, (Delivery(0, count),), close=Reason.FLUSH_NOW)

    first = spark_source.first_batches(wanted)
    assert BYTES_PER_READ <= sum(batch.nbytes for batch in first) < BYTES_PER_READ + (2 << 20)
    rest = replace(wanted, state=OpenState("", 0, 1, 0, 3))
    pieces = list(DriverSource(spark_source)._batches(rest))
    assert [offset for piece in pieces for offset in piece.column("offset").to_pylist()] == list(range(3, count))
    (report,) = DriverSource(spark_source).run_on_driver([wanted])
    assert [(file.first_offset, file.last_offset, file.records) for file in report.files] == [(0, 89, 90)]
