"""Does everything answer that a sink cannot start without? Asked before Spark is, which alone takes longer than all of it.

The bucket with the sink's credentials first, then the brokers and their topics. What is refused, or silent, ends the start at once; a topic
that is not there yet does not: the sink looks for it as long as it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from kafka_s3.connect.config.settings import Settings
from kafka_s3.run.wiring.clients import brokers_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.options import quick, store_options
from kafka_s3.store.s3 import S3Store


def ask_bucket(settings: Settings, tell: Callable[[str], None]) -> None:
    """Lists the sink's state. Raises StorageError where the bucket is not there, refuses, or does not answer."""
    options = store_options(settings)
    tell(f"asking the bucket s3://{options.bucket}" + (f" at {options.endpoint_url}" if options.endpoint_url else ""))
    with closing(S3Store(quick(options, tries=1))) as store:
        next(store.list(state_paths(settings).root), None)


def ask_kafka(settings: Settings, tell: Callable[[str], None]) -> None:
    """Describes the cluster and the topics. Raises SourceError where the brokers refuse or do not answer."""
    tell(f"asking Kafka at {settings.text('kafka.bootstrap.servers')}")
    brokers = brokers_of(settings)
    brokers.cluster_id()
    brokers.describe(settings.names("topics"))
