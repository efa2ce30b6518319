"""How is Kafka reached under a configuration, with or without Spark, and does everything answer that a sink cannot start without?

The bucket is asked first, with the sink's credentials, then the brokers and their topics; before Spark starts, which alone takes longer.
What is refused, or silent, ends the start at once; a topic that is not there yet does not: the sink looks for it as long as it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from kafka_s3.connect.config.options.client import NEVER_PASSED_ON
from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader.reach import why_out_of_reach
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Topic
from kafka_s3.model.text import Secret
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.options import quick
from kafka_s3.store.s3 import S3Store

if TYPE_CHECKING:
    from kafka_s3.kafka.plain_reader import PlainReader


def consumer_properties(settings: Settings) -> dict[str, str]:
    """The consumer's Java properties, secrets revealed: for the clients' ears only."""
    given = settings.prefixed("consumer.override.")
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in given.items()
        if name not in NEVER_PASSED_ON
    }


def why_tasks_cannot_read(settings: Settings, tp: TopicPartition) -> str | None:
    """Why a process like this one cannot read the topic-partition by itself; None: it can (`kafka.reader`)."""
    return why_out_of_reach(settings.text("kafka.bootstrap.servers"), consumer_properties(settings), tp)


def brokers_of(settings: Settings) -> KafkaBrokers:
    """The cluster of resolved settings."""
    return KafkaBrokers(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def plain_reader(settings: Settings) -> PlainReader:
    """Reads records of the cluster outside of tasks: for whoever compares, explains or forecasts."""
    from kafka_s3.kafka.plain_reader import PlainReader  # loads Arrow

    return PlainReader(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def group_of(settings: Settings) -> str:
    """The consumer group of the connector, and of the mirrored offsets."""
    return settings.optional_text("consumer.override.group.id") or f"connect-{settings.name}"


def wanted_topics(settings: Settings, brokers: Brokers) -> list[str]:
    """The topics that the configuration names, or that its pattern matches now. Raises SourceError."""
    pattern = settings.optional_text("topics.regex")
    if not pattern:
        return list(settings.names("topics"))
    return [name for name in brokers.topic_names() if re.fullmatch(pattern, name)]


def configured_topics(settings: Settings, brokers: Brokers) -> dict[str, Topic]:
    """The configured topics that Kafka has."""
    return brokers.describe(wanted_topics(settings, brokers))


def ask_bucket(settings: Settings, notify: Callable[[str], None]) -> None:
    """Lists the sink's state. Raises StorageError where the bucket is not there, refuses, or does not answer."""
    options = store_options(settings)
    notify(
        f"connecting to the bucket s3://{options.bucket}"
        + (f" at {options.endpoint_url}" if options.endpoint_url else "")
    )
    with closing(S3Store(quick(options, tries=1))) as store:
        next(store.list(state_paths(settings).root), None)


def ask_kafka(settings: Settings, notify: Callable[[str], None]) -> KafkaBrokers:
    """Describe the cluster and the topics, and return the client. Raises SourceError if the brokers refuse or do not answer."""
    notify(f"connecting to Kafka at {settings.text('kafka.bootstrap.servers')}")
    brokers = brokers_of(settings)
    brokers.cluster_id()
    brokers.describe(settings.names("topics"))
    return brokers
