"""Which connectors and plugins are there, and which keys does each take? Out of the option table; required is what validation asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kafka_s3.connect.config.classes import CONNECTORS, MANAGED_CLOUD, SELF_MANAGED, TRANSFORM_GROUP, offered
from kafka_s3.connect.config.dialects.managed_cloud import REPLACED
from kafka_s3.connect.config.dialects.spelling import ORIGINAL, SUCCESSOR, SUCCESSORS
from kafka_s3.connect.config.option import (
    InvalidValue,
    KnownClass,
    OneOf,
    OneOfAnyCase,
    Option,
    OptionGroup,
    Type,
    did_you_mean,
)
from kafka_s3.connect.config.options.table import BLOCK_GZIP_OPTIONS, CLOUD, CLOUD_OPTIONS, OPTIONS, TRANSFORM_OPTIONS
from kafka_s3.connect.config.plugins import CLASS_KEYS, plugin
from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import ConfigError, Problem

SHARED: Final = frozenset({
    OptionGroup.FRAMEWORK, OptionGroup.TRANSFORMS, OptionGroup.CONVERTERS, OptionGroup.ERRORS, OptionGroup.KAFKA, OptionGroup.OURS,
})  # fmt: skip
"""What every spelling takes by the same keys."""
SECRET: Final = "${secrets:scope/key}"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A connector or a plugin by the name that users know: `key` names it in a configuration with the value `connector`, a class.

    `options` are the rows of its keys.
    """

    name: str
    connector: str
    doc: str
    options: tuple[Option, ...]
    key: str = "connector.class"

    def required(self) -> frozenset[str]:
        """The keys without which validation refuses a configuration of this connector."""
        if self.key != "connector.class":
            return frozenset(option.key for option in self.options if option.required)
        found = validate({"connector.class": self.connector}).problems
        return frozenset(problem.key for problem in found if "is required" in problem.rule)

    def rows(self) -> list[tuple[Option, bool]]:
        """Each row, and whether its key is required: those first, the rest in the order of the table."""
        needed = self.required()
        rows = [(option, option.key in needed) for option in self.options]
        return sorted(rows, key=lambda row: not row[1])


def catalog() -> tuple[CatalogEntry, ...]:
    """Every connector."""
    own = [option for option in OPTIONS if option.group is not OptionGroup.BLOCK_GZIP]
    shared = [option for option in OPTIONS if option.group in SHARED]
    cloud = [option for option in own if option.key not in CLOUD and option.key not in REPLACED]
    return (
        CatalogEntry(
            "S3SinkConnector",
            SELF_MANAGED,
            "The self-managed connector: every format, partitioner and rotation rule.",
            _distinct((*own, *TRANSFORM_OPTIONS)),
        ),
        CatalogEntry(
            MANAGED_CLOUD,
            MANAGED_CLOUD,
            "The managed cloud connector: by time, with few keys.",
            _distinct((*CLOUD_OPTIONS, *cloud, *TRANSFORM_OPTIONS)),
        ),
        CatalogEntry(
            "Block-GZIP",
            SUCCESSOR,
            "Files of gzip blocks with an index, from whose middle a record can be read.",
            _distinct((*BLOCK_GZIP_OPTIONS, *shared, *TRANSFORM_OPTIONS)),
        ),
    )


def _other_classes() -> Iterator[CatalogEntry]:
    """The connectors once more, by the other classes that run as they do."""
    own, _, block_gzip = catalog()
    yield from (replace(own, connector=java) for java, ours in CONNECTORS.items() if java != ours)
    rows = tuple(option for option in block_gzip.options if option.key not in SUCCESSORS)
    yield replace(block_gzip, connector=ORIGINAL, options=rows)


def plugins() -> tuple[CatalogEntry, ...]:
    """Every partitioner, format and transform that an installed package adds. Raises ConfigError where one cannot be loaded."""
    keys = {group: key for key, group in CLASS_KEYS.items()} | {TRANSFORM_GROUP: "transforms.<name>.type"}
    found = []
    for group, key in keys.items():
        for name in offered(group, tuple(sys.path)):
            try:
                one = plugin(group, name)
            except InvalidValue as wrong:
                raise ConfigError([Problem(key, name, wrong.rule, wrong.remedy)]) from wrong
            doc = (one.make.__doc__ or "").strip().partition("\n")[0] or f"A plugin of {one.package}."
            prefix = "transforms.<name>." if group == TRANSFORM_GROUP else ""
            options = tuple(replace(option, key=prefix + option.key) for option in one.options)
            found.append(CatalogEntry(name, name, f"{doc} ({one.package})", options, key))
    return tuple(found)


def entry(name: str) -> CatalogEntry:
    """The connector or plugin of a name, in any case, or of a class. Raises ConfigError with the names that there are."""
    entries = (*catalog(), *_other_classes(), *plugins())
    found = next((one for one in entries if name.lower() in (one.name.lower(), one.connector.lower())), None)
    if found is None:
        names = list(dict.fromkeys(one.name for one in entries))
        remedy = f"Known: {', '.join(names)}. {did_you_mean(name, names)}".rstrip()
        raise ConfigError([Problem("NAME", name, "is not a connector of the catalog.", remedy)])
    return found


def example_of(option: Option) -> str:
    """A value that could be written: the row's own, the first of a set, else the default; blank where nothing is worth showing."""
    if option.example:
        return option.example
    match option.valid:
        case OneOf(values) | OneOfAnyCase(values):
            return next((value for value in values if value and value != option.default), option.default or "")
        case KnownClass(names):
            return next(iter(names))
    if option.type is Type.PASSWORD:
        return SECRET
    if option.type is Type.BOOLEAN:
        return "false" if option.default == "true" else "true"
    return (option.default or "").replace("\n", "")


def _distinct(options: Iterable[Option]) -> tuple[Option, ...]:
    """Each key once, by its first row."""
    first: dict[str, Option] = {}
    for option in options:
        first.setdefault(option.key, option)
    return tuple(first.values())
