"""Which of the consumer's Java properties does Spark's Kafka source take, and how are Kafka's classes called where it runs?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from kafka_s3.config.jaas import SHADE, renamed
from kafka_s3.config.options.client import LOGIN_HANDLER

SPARK_OWNS: Final = frozenset({"auto.offset.reset", "group.id", "client.id", "enable.auto.commit"})
HANDLER: Final = "sasl.login.callback.handler.class"


class KafkaClasses(StrEnum):
    """What stands before the names of Kafka's classes: nothing, or the prefix of the copy that Databricks brings along."""

    PLAIN = ""
    SHADED = SHADE


def kafka_classes(environment: Mapping[str, str]) -> KafkaClasses:
    """The names of the surroundings: shaded on Databricks."""
    return KafkaClasses.SHADED if "DATABRICKS_RUNTIME_VERSION" in environment else KafkaClasses.PLAIN


def reading_properties(java: Mapping[str, str], classes: KafkaClasses) -> dict[str, str]:
    """The properties for reading, with class names as they are called there, whichever spelling the configuration has."""
    found = {name: value for name, value in java.items() if name not in SPARK_OWNS}
    if "sasl.jaas.config" in found:
        found["sasl.jaas.config"] = renamed(found["sasl.jaas.config"], prefix=classes)
    if found.get("sasl.mechanism") == "OAUTHBEARER":  # Kafka's default handler makes unsigned tokens of its own
        found[HANDLER] = classes + found.get(HANDLER, LOGIN_HANDLER).removeprefix(SHADE)
    return found
