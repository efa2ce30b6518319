"""Which configurations cannot have Glue tables, done-markers or notifications?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.classes import known_notifiers
from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem

GLUE: Final = "glue.database.name"
MARKER: Final = "done.marker.name"
NOTIFIER: Final = "notification.class"
WITH_COLUMNS: Final = ("parquet", "avro", "json")
BY_TIME: Final = ("time", "daily", "hourly")


def _glue_needs_columns(settings: Settings) -> Iterator[Problem]:
    if settings.text(GLUE) and settings.text("format.class") not in WITH_COLUMNS:
        rule = f"needs objects with columns; format.class is {settings.text('format.class')}."
        yield problem(GLUE, rule, "Write Parquet, Avro or JSON, or leave it out.")


def _glue_needs_folders(settings: Settings) -> Iterator[Problem]:
    if settings.text(GLUE) and settings.text("directory.delim") != "/":
        yield problem(GLUE, "needs folders: directory.delim is not /.", "Leave one of them out.")


def _markers_need_record_times(settings: Settings) -> Iterator[Problem]:
    known = settings.text("partitioner.class") in BY_TIME and settings.text("timestamp.extractor") == "Record"
    if settings.text(MARKER) and not known:
        rule = "needs directories by the records' own times: the log knows no others."
        yield problem(MARKER, rule, "Take a time partitioner with timestamp.extractor=Record, or leave it out.")


def _markers_are_passed_over(settings: Settings) -> Iterator[Problem]:
    name = settings.text(MARKER)
    if name and (not name.startswith(("_", ".")) or "/" in name):
        yield problem(MARKER, "would be read as data by query engines.", "Begin it with _ and take no slash: _SUCCESS.")


def _notifications_are_taken(settings: Settings) -> Iterator[Problem]:
    name, target = settings.text(NOTIFIER), settings.text("notification.target")
    if not name:
        return
    known = known_notifiers()
    if name not in known:
        yield problem(NOTIFIER, "is not known.", f"The known ones are {', '.join(known)}.")
    wanted = {"webhook": ("http://", "https://"), "sns": ("arn:",), "sqs": ("http://", "https://")}.get(name, ("",))
    if not target.startswith(wanted):
        yield problem("notification.target", f"is no target of {name}.", f"It begins with {' or '.join(wanted)}.")


PROBLEMS: Final = (
    Rule((GLUE, "format.class"), _glue_needs_columns),
    Rule((GLUE, "directory.delim"), _glue_needs_folders),
    Rule((MARKER, "partitioner.class", "timestamp.extractor"), _markers_need_record_times),
    Rule((MARKER,), _markers_are_passed_over),
    Rule((NOTIFIER, "notification.target"), _notifications_are_taken),
)
