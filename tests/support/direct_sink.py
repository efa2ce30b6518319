"""A sink against a real broker and a real S3, without Spark: each task runs in the test's own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import brokers_of, consumer_properties
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """The engine: the product's reader and pipeline, one assignment after the other."""

    settings: Settings
    store: ObjectStore

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        return [self._outcome(wanted) for wanted in assignments]

    def _outcome(self, wanted: Assignment) -> TaskOutcome:
        servers = self.settings.text("kafka.bootstrap.servers")
        kafka = PlainReader(servers, properties=consumer_properties(self.settings))
        batches = kafka.batches(wanted.topic_partition, wanted.first_unread, until=wanted.until)
        return make_pipeline(self.settings).outcome(wanted, batches, self.store)


def drain_directly(config: Mapping[str, str], *, close: Reason | None = Reason.FLUSH_NOW) -> Settings:
    """Works off what is in Kafka; with `close=None` the open tail stays open."""
    settings = resolved(validate(dict(config)).usable())
    store = S3Store(store_options(settings))
    sink = build_sink(settings, brokers_of(settings), source=OwnProcess(settings, store), store=store, clock_ms=now_ms)
    sink.open()
    sink.poll()
    sink.drain(close=close)
    return settings
