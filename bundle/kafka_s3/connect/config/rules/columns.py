"""Which directories have the name of a column? A query engine sees both as columns, and ignores case."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    CONFLUENT_CONVERTERS,
    FIELD_PARTITIONERS,
    PATTERN_PARTITIONERS,
)
from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

_LEVEL: Final = re.compile(r"'?([A-Za-z_]\w*)'?=")
_STANDARD: Final = {
    "daily": ("year", "month", "day"),
    "hourly": ("year", "month", "day", "hour"),
    "default": ("partition",),
}
_WHOLE_KEY: Final = ("key",)
_FORMATS_WITHOUT_COLUMNS: Final = frozenset({"bytearray", BLOCK_GZIP_FORMAT})
_RENAME: Final = "Choose directories of another name, or rename the field by a transform."
_KEYS: Final = {
    "time": "path.format", "field_and_time": "path.format", "field": "partition.field.name", "header": "partition.header.name",
    "key": "partition.key.field",
}  # fmt: skip


def directory_names(settings: Settings) -> tuple[str, ...]:
    """The names of the partitioner's directories `name=value`; none of an own partitioner."""
    match settings.text("partitioner.class"):
        case "header":
            return settings.names("partition.header.name")
        case "key":
            return settings.names("partition.key.field") or _WHOLE_KEY
        case name if name in FIELD_PARTITIONERS | PATTERN_PARTITIONERS:
            return (*_of_fields(settings), *(_of_pattern(settings) if name in PATTERN_PARTITIONERS else ()))
        case name:
            return _STANDARD.get(name, ())


def _of_fields(settings: Settings) -> tuple[str, ...]:
    """The directories that have the names of columns on purpose, and the same values."""
    name = settings.text("partitioner.class")
    named = name == "field" or (name == "field_and_time" and settings.flag("partition.field.format.path"))
    return settings.names("partition.field.name") if named else ()


def _of_pattern(settings: Settings) -> list[str]:
    return _LEVEL.findall(settings.text("path.format").replace("'", ""))


def _directories_have_names_of_their_own(settings: Settings) -> Iterator[Problem]:
    counts = Counter(name.lower() for name in directory_names(settings))
    for name, count in counts.items():
        if count > 1:
            rule = f"names {count} levels of directories {name}= (case does not count), which a query engine takes for one column."
            yield problem(_key(settings), rule, "Give each level a name of its own.")


def compared_with_registry(settings: Settings) -> bool:
    """Whether a registry knows fields that the directories could hide: of topics that are named, as they come, in a format with columns."""
    return (
        settings.text("value.converter") in CONFLUENT_CONVERTERS
        and settings.text("format.class") not in _FORMATS_WITHOUT_COLUMNS
        and not settings.names("transforms")
        and bool(settings.names("topics"))
        and bool(_hiding(settings))
    )


def hidden_fields(settings: Settings, topic: str, fields: Iterable[str]) -> list[Problem]:
    """The fields of a topic's values that a directory has the name of."""
    return [Problem("topics", topic, rule, _RENAME) for rule in _hidden(settings, fields)]


def _hiding(settings: Settings) -> dict[str, str]:
    """The directories that could hide a column, by their names in lower case."""
    on_purpose = _of_fields(settings)
    return {name.lower(): name for name in directory_names(settings) if name not in on_purpose}


def _hidden(settings: Settings, columns: Iterable[str]) -> Iterator[str]:
    """The rule that each column breaks that a directory has the name of."""
    names = _hiding(settings)
    for column in columns:
        if column.lower() in names:
            yield (
                f"has the field {column}, and objects lie in directories {names[column.lower()]}=: a query engine shows one of the two."
            )


def _columns_are_no_directories(settings: Settings) -> Iterator[Problem]:
    """Of the columns that the configuration names; `validate` and `doctor` ask the registry for its own, `ddl` looks into objects."""
    for rule in _hidden(settings, _columns(settings)):
        yield problem("value.schema", rule, _RENAME)


def _columns(settings: Settings) -> list[str]:
    try:
        fields = json.loads(settings.text("value.schema") or "{}").get("fields", [])
        return [str(one["field"]) for one in fields]
    except (ValueError, TypeError, KeyError, AttributeError):  # the rule for value.schema says so
        return []


def _key(settings: Settings) -> str:
    return _KEYS.get(settings.text("partitioner.class"), "partitioner.class")


_PARTITIONS: Final = (
    "partitioner.class", "path.format", "partition.field.name", "partition.field.format.path", "partition.header.name",
    "partition.key.field",
)  # fmt: skip
WARNINGS: Final = (
    Rule(_PARTITIONS, _directories_have_names_of_their_own),
    Rule((*_PARTITIONS, "value.schema"), _columns_are_no_directories),
)
