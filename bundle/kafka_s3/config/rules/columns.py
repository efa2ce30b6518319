"""Which directories have the name of a column? A query engine sees both as columns, and tells names apart by letters alone, not by case."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kafka_s3.config.rules.rule import Rule, is_time_partitioner, problem
from kafka_s3.config.settings import Settings
from kafka_s3.model.errors import Problem

_LEVEL: Final = re.compile(r"'?([A-Za-z_]\w*)'?=")
_STANDARD: Final = {
    "daily": ("year", "month", "day"),
    "hourly": ("year", "month", "day", "hour"),
    "default": ("partition",),
}
RENAME: Final = "Rename the directory in path.format, or the field by a transform."
_KEYS: Final = {"time": "path.format", "field": "partition.field.name"}


def directory_names(settings: Settings) -> tuple[str, ...]:
    """The names of the partitioner's directories `name=value`; none of an own partitioner."""
    partitioner = settings.text("partitioner.class")
    if partitioner == "field":
        return settings.names("partition.field.name")
    if partitioner == "time":
        return tuple(_LEVEL.findall(settings.text("path.format").replace("'", "")))
    return _STANDARD.get(partitioner, ())


def _directories_have_names_of_their_own(settings: Settings) -> Iterator[Problem]:
    counts = Counter(name.lower() for name in directory_names(settings))
    for name, count in counts.items():
        if count > 1:
            rule = f"names {count} levels of directories {name}= (case does not count), which a query engine takes for one column."
            yield problem(_key(settings), rule, "Give each level a name of its own.")


def hidden_columns(settings: Settings, columns: Iterable[str]) -> list[tuple[str, str]]:
    """The columns that a directory has the name of, each with the directory's.

    A field partitioner's directories have the names of columns on purpose, and the same values.
    """
    if not (is_time_partitioner(settings) or settings.text("partitioner.class") == "default"):
        return []
    names = {name.lower(): name for name in directory_names(settings)}
    return [(column, names[column.lower()]) for column in columns if column.lower() in names]


def hidden(column: str, directory: str) -> str:
    """The rule that such a pair breaks."""
    return f"has the field {column}, and objects lie in directories {directory}=: a query engine shows one of the two."


def _columns_are_no_directories(settings: Settings) -> Iterator[Problem]:
    """Of the columns that the configuration itself names; `doctor` asks the registry for its own, `ddl` looks into objects."""
    for pair in hidden_columns(settings, _columns(settings)):
        yield problem("value.schema", hidden(*pair), RENAME)


def _columns(settings: Settings) -> list[str]:
    try:
        fields = json.loads(settings.text("value.schema") or "{}").get("fields", [])
        return [str(one["field"]) for one in fields]
    except (ValueError, TypeError, KeyError, AttributeError):  # the rule for value.schema says so
        return []


def _key(settings: Settings) -> str:
    return _KEYS.get(settings.text("partitioner.class"), "partitioner.class")


_PARTITIONS: Final = ("partitioner.class", "path.format", "partition.field.name")
WARNINGS: Final = (
    Rule(_PARTITIONS, _directories_have_names_of_their_own),
    Rule((*_PARTITIONS, "value.schema"), _columns_are_no_directories),
)
