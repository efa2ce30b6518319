"""Under which subject does a registry keep the versions of a record's schema? (SEMANTICS A11)"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kafka_s3.model.files import Role

PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class SubjectNameStrategy(StrEnum):
    """The subject name strategies, by the short names of their Java classes."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


def strategy_of(name: str) -> SubjectNameStrategy:
    """The strategy of a Java class name or a short name. Raises ValueError with the known names."""
    try:
        return SubjectNameStrategy(name.strip().removeprefix(PACKAGE))
    except ValueError:
        known = ", ".join(SubjectNameStrategy)
        raise ValueError(
            f"Unknown subject name strategy {name!r}: use one of {known}, or its class name in {PACKAGE[:-1]}."
        ) from None


def needs_record_name(strategy: str) -> bool:
    """Whether the subject depends on the name of the record's schema. Raises ValueError where the strategy is unknown."""
    return strategy_of(strategy) is not SubjectNameStrategy.TOPIC


def subject(strategy: str, topic: str, record_name: str | None, *, role: Role) -> str:
    """The subject of a record's value or key schema; `record_name` is the full name of that schema.

    Raises ValueError where the strategy is unknown, or needs a name and the schema has none.
    """
    known = strategy_of(strategy)
    if known is SubjectNameStrategy.TOPIC:
        return f"{topic}-{role}"
    if not record_name:
        raise ValueError(
            f"{known} needs the name of the record, and the {role} schema of topic {topic} has none: use TopicNameStrategy."
        )
    return record_name if known is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"
