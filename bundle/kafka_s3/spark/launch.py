"""How does a configuration become a running sink on Spark? Settings resolved, clients made, one call away from the loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from kafka_s3.build import build_sink
from kafka_s3.clients import consumer_properties
from kafka_s3.config.settings import Settings
from kafka_s3.kafka import KafkaBrokers
from kafka_s3.observer import Observer
from kafka_s3.sink import Sink
from kafka_s3.spark.source import SparkSource
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.storage.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_OWNS: Final = frozenset({"auto.offset.reset", "group.id", "client.id", "enable.auto.commit"})


def sink_on_spark(
    settings: Settings, spark: SparkSession, *, observer: Observer | None = None, store: ObjectStore | None = None
) -> Sink:
    """A sink of resolved settings, not opened yet. `store` replaces the driver's view of the bucket in tests of faults."""
    servers = settings.text("kafka.bootstrap.servers")
    properties = consumer_properties(settings)
    reading = {name: value for name, value in properties.items() if name not in SPARK_OWNS}
    return build_sink(
        settings,
        KafkaBrokers(servers, properties=properties),
        source=SparkSource(spark, settings, bootstrap_servers=servers, kafka=reading),
        store=store or S3Store(store_options(settings)),
        clock_ms=now_ms,
        observer=observer,
    )


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000
