"""What does a dead letter hold that names a schema of a registry? The schema, and the record as JSON, by the sink's own converter."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.registry_values import RegistryValues
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import Role
from kafka_s3.run.wiring.conversion import registry_converter

NO_TIME: Final = -1
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class DecodedContent:
    """A key or value: the schema that it names (blank where it names none), and either the record as JSON or why there is none."""

    role: Role
    schema: str
    text: str = ""
    failure: str = ""


class LetterDecoder:
    """The registry converters of a configuration, for single letters. Thread-safe; made of resolved settings.

    Raises ValueError where they do not go together.
    """

    def __init__(self, settings: Settings) -> None:
        made = {role: registry_converter(settings, role) for role in (Role.KEY, Role.VALUE)}
        self._converters = {role: make for role, make in made.items() if make is not None}

    def decoded(self, letter: DeadLetter) -> list[DecodedContent]:
        """Key and value, as far as a registry converter is configured for them and they are there. A registry is asked."""
        raw = {Role.KEY: letter.key, Role.VALUE: letter.value}
        return [
            _decoded(make(letter.topic), role, content, letter)
            for role, make in self._converters.items()
            if (content := raw[role]) is not None
        ]


def _decoded(converter: RegistryValues, role: Role, content: bytes, letter: DeadLetter) -> DecodedContent:
    offsets, times = np.array([letter.offset]), np.array([NO_TIME])
    headers = pa.array([[{"key": name, "value": value} for name, value in letter.headers]], _HEADERS)
    batch = KafkaBatch(offsets, times, pa.array([content], pa.binary()), headers)
    schema = converter.schema_names(batch)[0]
    try:
        found = converter.decode(batch)
    except SinkError as error:  # the registry does not answer, or refuses us
        return DecodedContent(role, schema, failure=str(error))
    if found.failures:
        return DecodedContent(role, schema, failure=found.failures[0].message)
    (run,) = found.runs
    return DecodedContent(role, schema, json.dumps(run.values.objects()[0], default=_told, ensure_ascii=True, indent=2))


def _told(value: object) -> str:
    """What JSON has no form for: bytes as text with escapes, decimals and times as they are written."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
