"""Which settings do a configuration's plugins refuse? Each is made once, of settings that are right in every other respect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_s3.connect.config.masking import masking
from kafka_s3.connect.config.plugins import CLASS_KEYS, is_plugin, plugin
from kafka_s3.connect.config.rules.rule import problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transform_classes import TRANSFORM_GROUP
from kafka_s3.connect.config.transforms import Configured, configured_steps
from kafka_s3.connect.config.valid_values import InvalidValue
from kafka_s3.model.errors import ConfigError, Problem

_TIMES = ("Record", "RecordField")


def refused_by_plugins(settings: Settings) -> Iterator[Problem]:
    """What the plugins themselves say to their settings, and a partitioner by time without times that can be had again."""
    mask = masking(settings)  # a package of others may show what it was given
    for key, group, name, given in _named(settings):
        try:
            part = plugin(group, name).made(given)
        except ConfigError as error:
            yield from (replace(one, rule=mask(one.rule), remedy=mask(one.remedy)) for one in error.problems)
        except InvalidValue as wrong:
            yield problem(key, mask(wrong.rule), wrong.remedy)
        else:
            if key == "partitioner.class" and part.uses_time and not _has_times(settings):
                rule = f"must be {' or '.join(_TIMES)}: {name} makes directories of times, which must be the same whenever a file is made."
                yield problem("timestamp.extractor", rule, "Set timestamp.extractor=Record.")


def _named(settings: Settings) -> Iterator[tuple[str, str, str, Settings | Configured]]:
    """Each plugin: the key that names it, its group and name, and the settings that it gets."""
    for key, group in CLASS_KEYS.items():
        if is_plugin(group, settings.text(key)):
            yield key, group, settings.text(key), settings
    for step in configured_steps(settings).steps:
        if step.transform.own:
            yield f"transforms.{step.transform.alias}.type", TRANSFORM_GROUP, step.transform.kind, step.transform


def _has_times(settings: Settings) -> bool:
    return settings.given("timestamp.extractor") and settings.text("timestamp.extractor") in _TIMES
