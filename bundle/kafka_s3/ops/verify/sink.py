"""What is there to verify of the sink of these settings? Its bucket, its log, and the topics in Kafka."""

from __future__ import annotations

from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.ops.verify.audit import Audit
from kafka_s3.ops.verify.cluster import Cluster
from kafka_s3.ops.verify.form import form_of
from kafka_s3.ops.verify.layout import object_layout
from kafka_s3.ops.verify.segments import SegmentSelection
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.options import store_options
from kafka_s3.store.s3 import S3Store


def kafka_of(settings: Settings) -> Cluster:
    """The brokers, as the audit reads them."""
    return PlainReader(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def audit_of(
    settings: Settings, selection: SegmentSelection, *, sample: int | None = None, kafka: Cluster | None = None
) -> Audit:
    """The audit of a sink; without `kafka` no broker is asked, with `sample` only so many objects are read."""
    store, paths = S3Store(store_options(settings)), state_paths(settings)
    return Audit(store, paths, object_layout(settings), form_of(settings), kafka, selection, sample)
