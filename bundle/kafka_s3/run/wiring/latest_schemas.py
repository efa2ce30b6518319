"""Which schema have a topic's values now, by the newest version of its subject in the registry?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeAlias

from kafka_s3.connect.config.rules.columns import hidden_fields
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.registry.options import SubjectNameStrategy, subject
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.schemas.registered import Language
from kafka_s3.model.errors import Problem, UnknownSchema
from kafka_s3.model.files import Role
from kafka_s3.run.wiring.conversion import SIDES, catalog_of
from kafka_s3.run.wiring.registries import registry_of

LatestSchema: TypeAlias = Callable[[str], ConnectSchema | None]
"""Gives the newest schema of a topic's values; None where none is registered under the topic's name, or the subject depends on the record.

Raises RegistryUnavailable, RegistryError, SchemaError.
"""


@contextmanager
def latest_schemas(
    settings: Settings, *, timeout_s: float | None = None, retries: int | None = None
) -> Iterator[LatestSchema]:
    """The registry of the values' converter, asked topic by topic, within these limits or its own. Raises ValueError, RegistryError."""
    registry, _ = registry_of(settings, SIDES[Role.VALUE], timeout_s=timeout_s, retries=retries)
    with closing(registry):
        catalog = catalog_of(settings, Role.VALUE, registry=registry)
        first = (0,) if catalog.language is Language.PROTOBUF else ()

        def latest(topic: str) -> ConnectSchema | None:
            if catalog.strategy is not SubjectNameStrategy.TOPIC:
                return None
            try:
                version, registered = registry.latest(subject(catalog.strategy, topic, None, role=Role.VALUE))
            except UnknownSchema:
                return None
            return catalog.make(registered, first, version).schema

        yield latest


def hidden_by_directories(settings: Settings, latest: LatestSchema, topic: str) -> list[Problem]:
    """The fields of a topic's newest schema that a directory has the name of. Raises as `LatestSchema` does."""
    schema = latest(topic)
    return [] if schema is None else hidden_fields(settings, topic, (field.name for field in schema.fields))
