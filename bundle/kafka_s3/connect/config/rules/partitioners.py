"""Which keys go with which of the partitioners that the original does not have?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

_OWN_KEYS: Final = {
    "partition.header.name": "header",
    "partition.key.field": "key",
    "partition.field.format.path": "field_and_time",
}


def _headers_are_named(settings: Settings) -> Iterator[Problem]:
    names = settings.names("partition.header.name")
    if settings.text("partitioner.class") == "header" and not (names and all(names)):
        yield problem(
            "partition.header.name",
            "must be set, without blank names, for partitioner.class=header.",
            "For example: tenant,region.",
        )


def _key_fields_are_named(settings: Settings) -> Iterator[Problem]:
    if any(not part.strip() for name in settings.names("partition.key.field") for part in name.split(".")):
        yield problem(
            "partition.key.field", "holds a blank part between dots.", "Write a,b.c without stray separators."
        )


def _strict_has_the_originals(settings: Settings) -> Iterator[Problem]:
    if settings.strict and settings.text("partitioner.class") in ("header", "key"):
        rule = "goes beyond the original, which compatibility.strict=true excludes."
        yield problem("partitioner.class", rule, "Leave one of the two out.")


def _of_another_partitioner(settings: Settings) -> Iterator[Problem]:
    for key, name in _OWN_KEYS.items():
        if settings.given(key) and settings.text("partitioner.class") != name:
            yield problem(key, f"has no effect: it is for partitioner.class={name}.", "Set that, or leave it out.")


def _fields_close_files(settings: Settings) -> Iterator[Problem]:
    """As with the plugin: its directories are a time partitioner's to the writer."""
    by_change = settings.number("rotate.interval.ms") > 0 and settings.flag("rotate.file.on.partition.change")
    if settings.text("partitioner.class") == "field_and_time" and by_change:
        rule = "closes all files at each record whose fields differ from those of the one before, as in the original."
        yield problem("rotate.file.on.partition.change", rule, "Set it to false, if fields alternate.")


PROBLEMS: Final = (
    Rule(("partitioner.class", "partition.header.name"), _headers_are_named),
    Rule(("partition.key.field",), _key_fields_are_named),
    Rule(("partitioner.class", "compatibility.strict"), _strict_has_the_originals),
)
WARNINGS: Final = (
    Rule(("partitioner.class", *_OWN_KEYS), _of_another_partitioner),
    Rule(("partitioner.class", "rotate.interval.ms", "rotate.file.on.partition.change"), _fields_close_files),
)
