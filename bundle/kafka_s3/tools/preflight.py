"""Does everything answer that a sink cannot start without? Asked before Spark is, which alone takes longer than all of it.

The bucket with the sink's credentials first, then the brokers and their topics. What is refused, or silent, ends the start at once; a topic
that is not there yet does not: the sink looks for it as long as it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from kafka_s3.config.settings import Settings
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.storage.options import ANSWER_S, quick, store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.wiring.clients import consumer_properties
from kafka_s3.wiring.pipeline import state_paths

TIMEOUT: Final = "default.api.timeout.ms"


def ask_bucket(settings: Settings, tell: Callable[[str], None]) -> None:
    """Lists the sink's state. Raises StorageError where the bucket is not there, refuses, or does not answer."""
    options = store_options(settings)
    tell(f"asking the bucket s3://{options.bucket}" + (f" at {options.endpoint_url}" if options.endpoint_url else ""))
    with closing(S3Store(quick(options, tries=1))) as store:
        next(store.list(state_paths(settings).root), None)


def ask_kafka(settings: Settings, tell: Callable[[str], None]) -> None:
    """Describes the cluster and the topics. Raises SourceError where the brokers refuse or do not answer."""
    servers, properties = settings.text("kafka.bootstrap.servers"), consumer_properties(settings)
    tell(f"asking Kafka at {servers}")
    longest = min(int(properties.get(TIMEOUT, ANSWER_S * 1000)), ANSWER_S * 1000)
    brokers = KafkaBrokers(servers, properties={**properties, TIMEOUT: str(longest)})
    brokers.cluster_id()
    brokers.describe(settings.names("topics"))
