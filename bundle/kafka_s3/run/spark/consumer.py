"""Which of the consumer's Java properties does Spark's Kafka source take, and how are Kafka's classes called where it runs?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from kafka_s3.connect.config.jaas import IAM_MECHANISM, SHADE, SHADES, Module, renamed
from kafka_s3.connect.config.options.client import IAM_HANDLER, LOGIN_HANDLER

SPARK_OWNS: Final = frozenset({"auto.offset.reset", "group.id", "client.id", "enable.auto.commit"})
HANDLER: Final = "sasl.login.callback.handler.class"
CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"


class KafkaClasses(StrEnum):
    """How the classes of Kafka and of Amazon MSK are called: by their names, or as in the copies that Databricks brings along."""

    PLAIN = "plain"
    SHADED = "shaded"

    def prefix(self, module: Module) -> str:
        """What stands before the name of a login module, and of the handlers that go with it."""
        return SHADES[module] if self is KafkaClasses.SHADED else ""


def kafka_classes(environment: Mapping[str, str]) -> KafkaClasses:
    """The names of the surroundings: shaded on Databricks."""
    return KafkaClasses.SHADED if "DATABRICKS_RUNTIME_VERSION" in environment else KafkaClasses.PLAIN


def reading_properties(java: Mapping[str, str], classes: KafkaClasses) -> dict[str, str]:
    """The properties for reading, with class names as they are called there, whichever spelling the configuration has."""
    found = {name: value for name, value in java.items() if name not in SPARK_OWNS}
    if "sasl.jaas.config" in found:
        found["sasl.jaas.config"] = renamed(found["sasl.jaas.config"], prefix=classes.prefix)
    if found.get("sasl.mechanism") == "OAUTHBEARER":  # Kafka's default handler makes unsigned tokens of its own
        found[HANDLER] = classes.prefix(Module.OAUTHBEARER) + found.get(HANDLER, LOGIN_HANDLER).removeprefix(SHADE)
    if found.get("sasl.mechanism") == IAM_MECHANISM:
        found[CLIENT_HANDLER] = classes.prefix(Module.IAM) + IAM_HANDLER
    return found
