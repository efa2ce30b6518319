"""Every configuration that the repository publishes: its examples, and the public ones that run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafka_s3.connect.config.classes import REGISTRY_CONVERTERS
from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import validate
from tests.support.public_configurations import CLOUD, MANAGED, OWN, SELF_MANAGED, WORKER, merged
from tests.support.repository import ROOT

EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").iterdir())
    if path.suffix in (".json", ".properties") and path.name != "worker.properties"
]
PUBLIC = {
    **{name: (merged(OWN, given), WORKER) for name, (given, _) in SELF_MANAGED.items()},
    **{name: (merged(CLOUD, given), {**WORKER, **worker}) for name, (given, worker, _) in MANAGED.items()},
}
PLACES = {
    "kafka.bootstrap.servers": "memory:9092", "value.converter.schema.registry.url": "http://registry:8081", "store.url": "http://s3:9000",
}  # fmt: skip
TOPICS = {"orders-.*": "orders-eu", "shop\\.public\\.(.*)": "shop.public.orders"}
"""A topic for each pattern."""


def published(**places: str) -> dict[str, Settings]:
    """Their settings by name; `places` are other values of keys that they give, with underscores for dots."""
    there = PLACES | {key.replace("_", "."): text for key, text in places.items()}

    def placed(texts: Mapping[str, str]) -> dict[str, str]:
        without_spark = {"state.run.on": "job"} if "state.enable" in texts else {}
        return {**texts, **{key: text for key, text in there.items() if key in texts}, **without_spark}

    found = {path.name: (_without_references(read_config(path).texts), WORKER) for path in EXAMPLES} | PUBLIC
    return {name: validate(placed(given), worker=placed(worker)).usable() for name, (given, worker) in found.items()}


def needs_services(settings: Settings) -> bool:
    """Whether it needs a schema registry, or an S3 server for its Delta table."""
    return settings.text("value.converter") in REGISTRY_CONVERTERS or settings.flag("delta.enable")


def topics_of(settings: Settings) -> list[str]:
    """Its topics, or one that its pattern matches."""
    return list(settings.names("topics")) or [TOPICS[settings.text("topics.regex")]]


def _without_references(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: re.sub(r"\$\{[a-z]+:[^}]*\}", "x", text) for key, text in texts.items()}
