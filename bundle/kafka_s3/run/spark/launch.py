"""How does a configuration become a running sink on Spark? Settings resolved, clients made, one call away from the loop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.process import run_in_daemon
from kafka_s3.model.protocols import Brokers, Observer, Source
from kafka_s3.model.timing import now_ms
from kafka_s3.run.spark.catalog import HOW_TO_KNOW, SparkCatalog
from kafka_s3.run.spark.choice import ChosenSource, Decided, KafkaReader, Trial
from kafka_s3.run.spark.consumer import kafka_classes, reading_properties
from kafka_s3.run.spark.driver import DriverSource
from kafka_s3.run.spark.progress import WatchedSource
from kafka_s3.run.spark.source import SparkSource
from kafka_s3.run.spark.tasks_source import TasksSource
from kafka_s3.run.spark.unreadable import ReadHereInstead
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.options import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sink_on_spark(
    settings: Settings, spark: SparkSession, *, observer: Observer | None = None, store: ObjectStore | None = None
) -> Sink:
    """A sink of resolved settings, not opened yet. `store` is the driver's view of the bucket, where there is one already."""
    servers = settings.text("kafka.bootstrap.servers")
    properties = consumer_properties(settings)
    brokers = KafkaBrokers(servers, properties=properties)
    source = _source(settings, spark, properties, brokers, (observer or Observer()).decided)
    return build_sink(
        settings,
        brokers,
        source=source if observer is None else WatchedSource(source, spark, observer.reading),
        store=store or S3Store(store_options(settings)),
        clock_ms=now_ms,
        observer=observer,
        spark=_catalog(settings, spark),
        background=lambda work: run_in_daemon(work, "retry"),
    )


def _source(
    settings: Settings, spark: SparkSession, properties: Mapping[str, str], brokers: Brokers, decided: Decided
) -> Source:
    """Who reads, by `tasks.run.on` and `kafka.reader`."""
    servers, reader = settings.text("kafka.bootstrap.servers"), KafkaReader(settings.text("kafka.reader"))
    reading = reading_properties(properties, kafka_classes(os.environ))
    by_spark = SparkSource(spark, settings, bootstrap_servers=servers, kafka=reading)
    if settings.text("tasks.run.on") == "driver":
        return ReadHereInstead(DriverSource(by_spark), settings, properties=properties)
    instead = ReadHereInstead(by_spark, settings, properties=properties)
    if reader is KafkaReader.SPARK:
        return instead
    tasks = TasksSource(spark, settings, bootstrap_servers=servers, properties=properties)
    if reader is KafkaReader.TASKS:
        return tasks
    check = partial(Trial(servers, properties).check, spark)
    return ChosenSource(tasks, instead, check=check, brokers=brokers, decided=decided)


def _catalog(settings: Settings, spark: SparkSession) -> SparkCatalog | None:
    """What gives the sink's tables names, None where they have none. Raises ConfigError where Spark shall write them and cannot."""
    if not settings.flag("delta.enable") or not settings.text("delta.table.name"):
        return None
    url = settings.text("delta.spark.bucket.url") or f"s3://{settings.text('s3.bucket.name')}"
    catalog = SparkCatalog(spark, url)
    if settings.text("delta.writer") == "spark" and not catalog.knows_delta():
        raise ConfigError([Problem("delta.writer", "spark", f"cannot write tables here. {HOW_TO_KNOW}")])
    return catalog
