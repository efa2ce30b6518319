"""Could two files get one name by the templates that are given? Then they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import routes
from kafka_s3.connect.naming.keys import (
    CONNECT_DIRECTORY,
    TOPIC,
    TemplateNames,
    directory_fault,
    name_fault,
    part_refusal,
    refusal,
)
from kafka_s3.model.errors import Problem
from kafka_s3.model.offsets import TopicPartition

NAME: Final = "object.name.template"
DIRECTORY: Final = "directory.template"
_EXAMPLES: Final = {NAME: "For example ${topic}-${partition}-${offset}.", DIRECTORY: "For example raw/${directory}."}


def _templates_are_sound(settings: Settings) -> Iterator[Problem]:
    for key, fault in ((NAME, name_fault), (DIRECTORY, directory_fault)):
        template = settings.text(key)
        reason = (fault(template) or _left(template)) if template else None
        if reason is not None:
            yield problem(key, reason, _EXAMPLES[key])


def _left(template: str) -> str | None:
    refused = part_refusal(template)
    return f"{refused}." if refused else None


def _topics_are_told_apart(settings: Settings) -> Iterator[Problem]:
    """Topics have the same partitions and offsets; so do two that a transform sends to one."""
    name, folder = settings.text(NAME), settings.text(DIRECTORY) or CONNECT_DIRECTORY
    if not name or TOPIC in name:
        return
    several = bool(settings.text("topics.regex")) or len(settings.names("topics")) > 1
    if routes(settings) or (several and TOPIC not in folder):
        yield problem(NAME, "lacks ${topic}: files of two topics could get one name.", _EXAMPLES[NAME])


def _files_are_found_again(settings: Settings) -> Iterator[Problem]:
    """A file that is made again is told from those of other topics by its key, which a new time would change."""
    if "${time}" in settings.text(NAME) and routes(settings):
        yield problem(NAME, "has ${time}, which does not go with transforms that change topics.", "Leave it out.")


def _objects_stay_out_of_the_state(settings: Settings) -> Iterator[Problem]:
    folder = settings.text(DIRECTORY)
    if not folder or directory_fault(folder):
        return
    names = TemplateNames(settings.text("topics.dir"), folder, connect_name("+"), 1)
    key = names.key(TopicPartition("t", 0), "d", offset=0, extension="")
    reason = refusal(key, state_prefix=settings.text("state.prefix"))
    if reason is not None and part_refusal(folder) is None:
        yield problem(DIRECTORY, f"gives keys that are never written: {reason}", "Use another folder.")


def _delimiters_can_be_read(settings: Settings) -> Iterator[Problem]:
    """The default name is Connect's, with whatever `file.delim` is."""
    delimiter = settings.text("file.delim")
    if settings.text(DIRECTORY) and not settings.text(NAME) and name_fault(connect_name(delimiter)):
        rule = "does not go with directory.template: names could not be told from folders, or partitions from offsets."
        yield problem("file.delim", rule, "Leave it out for +.")


def connect_name(delimiter: str) -> str:
    """Connect's names as a template."""
    return delimiter.join(("${topic}", "${partition}", "${offset}"))


def _not_with(settings: Settings) -> Iterator[Problem]:
    for key in (key for key in (NAME, DIRECTORY) if settings.text(key)):
        if settings.strict:
            rule = "goes beyond the original, which compatibility.strict=true excludes."
            yield problem(key, rule, "Leave one of the two out.")
        if settings.flag("delta.enable"):
            yield problem(key, "does not go with delta.enable=true: tables lie in Connect's folders.", "Leave it out.")
        if settings.text("format.class") == BLOCK_GZIP_FORMAT:
            yield problem(key, "does not go with Block-GZIP, which has names of its own.", "Leave it out.")


PROBLEMS: Final = (
    Rule((NAME, DIRECTORY), _templates_are_sound),
    Rule((NAME, DIRECTORY, "topics", "topics.regex", "transforms", "predicates"), _topics_are_told_apart),
    Rule((NAME, "transforms", "predicates"), _files_are_found_again),
    Rule((DIRECTORY, "topics.dir", "state.prefix"), _objects_stay_out_of_the_state),
    Rule((NAME, DIRECTORY, "file.delim"), _delimiters_can_be_read),
    Rule((NAME, DIRECTORY, "compatibility.strict", "delta.enable", "format.class"), _not_with),
)
