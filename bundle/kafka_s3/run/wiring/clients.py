"""How is Kafka reached under a configuration, with or without Spark? As the connector's consumer would reach it."""

from __future__ import annotations

from kafka_s3.connect.config.options.client import NEVER_PASSED_ON
from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader.reach import why_out_of_reach
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.text import Secret


def consumer_properties(settings: Settings) -> dict[str, str]:
    """The consumer's Java properties, secrets revealed: for the clients' ears only."""
    given = settings.prefixed("consumer.override.")
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in given.items()
        if name not in NEVER_PASSED_ON
    }


def why_tasks_cannot_read(settings: Settings, place: TopicPartition) -> str | None:
    """Why a process like this one cannot read the topic-partition by itself; None: it can (`kafka.reader`)."""
    return why_out_of_reach(settings.text("kafka.bootstrap.servers"), consumer_properties(settings), place)


def brokers_of(settings: Settings) -> KafkaBrokers:
    """The cluster of resolved settings."""
    return KafkaBrokers(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))
