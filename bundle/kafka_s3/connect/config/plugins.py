"""Which partitioners, formats and transforms do installed packages add, and which keys do those declare?

A plugin is an entry point of the groups `kafka_s3.partitioners`, `kafka_s3.formats` or `kafka_s3.transforms`. It names a callable that
takes settings and returns the part; `options` declares the keys that it reads, which are validated like ours. The callable is called
when a configuration is checked and in every process that writes, so it opens nothing. docs/own-partitioners.md shows one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar

from kafka_s3.connect.config.classes import FORMAT_GROUP, PARTITIONER_GROUP, TRANSFORM_GROUP, offered
from kafka_s3.connect.config.option import InvalidValue, Option, Type, default_of, sensitive
from kafka_s3.connect.config.options.table import BLOCK_GZIP, CLOUD, option_of
from kafka_s3.model.errors import ConfigError, Problem

Made = TypeVar("Made", bound=Callable[..., Any])
CLASS_KEYS: Final = {"partitioner.class": PARTITIONER_GROUP, "format.class": FORMAT_GROUP}
"""The keys that name a plugin whose own keys are beside all others; a transform's are below `transforms.<name>.`."""
MEMBERS: Final = {
    PARTITIONER_GROUP: ("uses_time", "encode"),
    FORMAT_GROUP: ("name", "extension", "open", "accept"),
    TRANSFORM_GROUP: ("apply",),
}
"""What the object must have that a plugin returns."""


def options(*declared: Option) -> Callable[[Made], Made]:
    """Declares the keys that a plugin's class or function reads, as its attribute `OPTIONS`."""

    def declaring(made: Made) -> Made:
        made.OPTIONS = declared  # type: ignore[attr-defined]
        return made

    return declaring


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part of an installed package: `package` is that with its version, `make` the callable, `options` its declared keys."""

    group: str
    name: str
    package: str
    make: Callable[[Any], Any]
    options: tuple[Option, ...]

    def made(self, settings: Any) -> Any:
        """The part under settings. Raises InvalidValue where it refuses them, or lacks what such a part must have."""
        try:
            part = self.make(settings)
        except ConfigError:
            raise
        except Exception as error:  # whatever a package of others does
            rule = f"cannot be made by {self.package}: {type(error).__name__}: {error}."
            raise InvalidValue(rule, "Correct its settings, or the package.") from error
        missing = [name for name in MEMBERS[self.group] if not hasattr(part, name)]
        if missing:
            rule = f"is a {type(part).__name__} of {self.package} without {' and '.join(missing)}."
            raise InvalidValue(rule, f"The group {self.group} wants {', '.join(MEMBERS[self.group])}.")
        return part


def is_plugin(group: str, name: str) -> bool:
    """Whether an installed package offers that name."""
    return name in offered(group, tuple(sys.path))


def plugin(group: str, name: str) -> Plugin:
    """The plugin of a name. Raises InvalidValue where no package offers it, where it cannot be loaded, or declares what cannot be a key."""
    return _loaded(group, name, tuple(sys.path))


@cache
def _loaded(group: str, name: str, _path: tuple[str, ...]) -> Plugin:
    """Kept per import path, as the names that packages offer are."""
    found = next(iter(entry_points(group=group, name=name)), None)
    if found is None:
        rule = f"is offered by no package that is installed here (entry points of {group})."
        raise InvalidValue(rule, "Install the package wherever the sink's driver and tasks run.")
    package = f"{found.dist.name} {found.dist.version}" if found.dist else found.value
    try:
        make = found.load()
    except Exception as error:  # whatever a package of others does when it is imported
        rule = f"is offered by {package}, which cannot be loaded ({found.value}): {type(error).__name__}: {error}."
        raise InvalidValue(rule, "Correct the package's entry point, or install what it needs.") from error
    declared = getattr(make, "OPTIONS", ())
    for fault in _faults(declared, group):
        raise InvalidValue(f"is offered by {package}, whose options {fault}.", "Correct the package.")
    return Plugin(group, name, package, make, tuple(declared))


def make(group: str, key: str, name: str, settings: Any) -> Any:
    """The part that a configuration's key names. Raises ConfigError."""
    try:
        return plugin(group, name).made(settings)
    except InvalidValue as wrong:
        raise ConfigError([Problem(key, name, wrong.rule, wrong.remedy)]) from wrong


def own_options(texts: Mapping[str, str]) -> tuple[dict[str, Option], list[Problem]]:
    """The keys that the plugins of a configuration declare, and what is wrong with those plugins."""
    found: dict[str, Option] = {}
    problems: list[Problem] = []
    for key, group in CLASS_KEYS.items():
        name = texts.get(key, "").strip()
        if not is_plugin(group, name):
            continue
        try:
            found |= {option.key: option for option in plugin(group, name).options}
        except InvalidValue as wrong:
            problems.append(Problem(key, None, wrong.rule, wrong.remedy))
    return found, problems


def _faults(declared: Any, group: str) -> Iterator[str]:
    if not isinstance(declared, tuple | list) or not all(isinstance(one, Option) for one in declared):
        yield "are no tuple of kafka_s3.connect.config.option.Option"
        return
    for option in declared:
        key = option.key
        if group != TRANSFORM_GROUP and (option_of(key) or key in CLOUD or key in BLOCK_GZIP or "." not in key):
            yield f"hold {key}, which is not a key of a package's own: give it a prefix such as acme"
        if option.family:
            yield f"hold {key}: keys are named one by one"
        if option.type is Type.PASSWORD and not sensitive(key):
            yield f"hold the password {key}: its name must say so, with password, secret or token, for logs mask values by their keys"
        try:
            default_of(option)
        except InvalidValue as wrong:
            yield f"hold {key}, whose default {option.default!r} {wrong.rule.rstrip('.')}"
