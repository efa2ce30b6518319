"""Can this very process read a topic-partition by itself, and if not, why? Asked in a task before the reader is chosen, and by `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import TopicPartition

TIMEOUT_S: Final = 15.0


def why_not(properties: Mapping[str, str]) -> str | None:
    """What keeps librdkafka here from reading under these properties (the consumer's, by their Java names), before anything is sent."""
    try:
        from kafka_s3.kafka.reader import library, messages, settings  # compiles, which may fail, too
    except (ImportError, OSError, AttributeError) as error:
        return f"the reader cannot be loaded here: {error}"
    return messages.why_unusable() or next(settings.obstacles_to_reading(properties, library.features()), None)


def check_reach(bootstrap_servers: str, properties: Mapping[str, str], topic_partition: TopicPartition) -> None:
    """Asks the topic-partition's leader something. Raises KafkaUnavailable where this process gets no answer, which may pass, SourceError
    where it cannot read for another reason.
    """
    reason = why_not(properties)
    if reason is not None:
        raise SourceError(reason)
    from kafka_s3.kafka.iam import iam_login
    from kafka_s3.kafka.reader.consumer import Consumer
    from kafka_s3.kafka.reader.settings import reading_settings

    login = iam_login(bootstrap_servers, properties)
    consumer = Consumer(reading_settings(bootstrap_servers, properties), login)
    try:
        consumer.bounds(topic_partition, timeout_s=TIMEOUT_S)
    finally:
        consumer.close()


def why_out_of_reach(
    bootstrap_servers: str, properties: Mapping[str, str], topic_partition: TopicPartition
) -> str | None:
    """Why this process cannot read the topic-partition from its leader now; None: it can."""
    try:
        check_reach(bootstrap_servers, properties, topic_partition)
    except SourceError as error:
        return str(error)
    return None
