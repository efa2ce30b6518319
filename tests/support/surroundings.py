"""A sink inside the test process: on its one Spark session, against the shared broker and S3 server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from tests.support.bucket import Bucket
from tests.support.configurations import BASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3


@dataclass
class Surroundings:
    """A broker, an S3 server, a bucket of the test's own, and Spark."""

    kafka: EmbeddedKafka
    s3: EmbeddedS3
    bucket: Bucket
    spark: SparkSession

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    def config(self, topics: str, **more: str) -> dict[str, str]:
        """A configuration of the self-managed spelling; `more` may be given as `**{"flush.size": "3"}`."""
        return {**BASE, "name": f"sink-{self.bucket.name}", "topics": topics, **self.places(), **more}

    def places(self) -> dict[str, str]:
        """The keys that say where Kafka and the bucket are."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "s3.bucket.name": self.bucket.name,
            "store.url": self.s3.endpoint_url,
        }

    def sink(self, config: dict[str, str], *, observer: object = None, read_timeout_s: float | None = None) -> Sink:
        """The real sink of a configuration, not opened yet; its driver waits so long for an answer of S3."""
        from kafka_s3.model.protocols import join_observers
        from kafka_s3.run.spark.launch import sink_on_spark

        settings = resolved(validate(config).usable())
        options = store_options(settings)
        store = None if read_timeout_s is None else S3Store(replace(options, read_timeout_s=read_timeout_s))
        return sink_on_spark(settings, self.spark, observer=join_observers(observer), store=store)

    def drain(
        self,
        config: dict[str, str],
        *,
        close: Reason | None = Reason.FLUSH_NOW,
        observer: object = None,
        read_timeout_s: float | None = None,
    ) -> Sink:
        """Runs a sink until it has worked off what is there; with `close=None` the open tail stays open."""
        sink = self.sink(config, observer=observer, read_timeout_s=read_timeout_s)
        run_available_now(sink, backoff_ms=500, wait=waiting(Event()), close=close)
        return sink
