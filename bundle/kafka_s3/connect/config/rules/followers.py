"""Which configurations cannot have a Delta table, Glue tables, done-markers or notifications?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from kafka_s3.connect.config.classes import known_notifiers
from kafka_s3.connect.config.rules import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.table_names import TOPIC
from kafka_s3.model.errors import Problem

TABLE_NAME: Final = "delta.table.name"
PARQUET: Final = "io.confluent.connect.s3.format.parquet.ParquetFormat"


def _tables_are_made_of_parquet(settings: Settings) -> Iterator[Problem]:
    if settings.flag("delta.enable") and settings.text("format.class") != "parquet":
        rule = f"needs Parquet objects; format.class is {settings.text('format.class')}."
        yield problem("delta.enable", rule, f"Set format.class={PARQUET}, or delta.enable=false.")


def _tables_have_folders(settings: Settings) -> Iterator[Problem]:
    if not settings.flag("delta.enable"):
        return
    for key, fits in (
        ("directory.delim", settings.text("directory.delim") == "/"),
        ("file.delim", "/" not in settings.text("file.delim")),
    ):
        if not fits:
            rule = "leaves the objects of a topic in no folder of their own, which delta.enable=true needs."
            yield problem(key, rule, "Leave it out, or set delta.enable=false.")


def _the_writer_is_installed(settings: Settings) -> Iterator[Problem]:
    needed = settings.flag("delta.enable") and settings.text("delta.writer") == "delta-rs"
    if needed and find_spec("deltalake") is None:
        yield problem("delta.enable", "needs the package deltalake.", "pip install 'kafka-s3[delta]'")


def _spark_writes_to_names(settings: Settings) -> Iterator[Problem]:
    if settings.flag("delta.enable") and settings.text("delta.writer") == "spark" and not settings.text(TABLE_NAME):
        yield problem(TABLE_NAME, "is needed with delta.writer=spark.", "For example main.raw.${topic}.")


def _each_table_has_a_name(settings: Settings) -> Iterator[Problem]:
    name = settings.text(TABLE_NAME)
    if not settings.flag("delta.enable") or not name or TOPIC in name:
        return
    if settings.optional_text("topics.regex") or len(settings.names("topics")) > 1:
        rule = "is the name of one table, but the sink may have several topics."
        yield problem(TABLE_NAME, rule, "Put ${topic} into it, for example main.raw.${topic}.")


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
    Rule((TABLE_NAME, "delta.enable", "delta.writer"), _spark_writes_to_names),
    Rule((TABLE_NAME, "delta.enable", "topics", "topics.regex"), _each_table_has_a_name),
    Rule(("delta.enable", "delta.writer"), _the_writer_is_installed),
    Rule(("delta.enable", "format.class"), _tables_are_made_of_parquet),
    Rule(("delta.enable", "directory.delim", "file.delim"), _tables_have_folders),
    Rule((GLUE, "format.class"), _glue_needs_columns),
    Rule((GLUE, "directory.delim"), _glue_needs_folders),
    Rule((MARKER, "partitioner.class", "timestamp.extractor"), _markers_need_record_times),
    Rule((MARKER,), _markers_are_passed_over),
    Rule((NOTIFIER, "notification.target"), _notifications_are_taken),
)
