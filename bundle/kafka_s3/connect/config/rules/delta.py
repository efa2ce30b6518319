"""Which configurations cannot have a Delta table?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.table_names import TOPIC
from kafka_s3.model.errors import Problem

NAME: Final = "delta.table.name"
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
    if settings.flag("delta.enable") and settings.text("delta.writer") == "spark" and not settings.text(NAME):
        yield problem(NAME, "is needed with delta.writer=spark.", "For example main.raw.${topic}.")


def _each_table_has_a_name(settings: Settings) -> Iterator[Problem]:
    name = settings.text(NAME)
    if not settings.flag("delta.enable") or not name or TOPIC in name:
        return
    if settings.optional_text("topics.regex") or len(settings.names("topics")) > 1:
        rule = "is the name of one table, but the sink may have several topics."
        yield problem(NAME, rule, "Put ${topic} into it, for example main.raw.${topic}.")


PROBLEMS: Final = (
    Rule((NAME, "delta.enable", "delta.writer"), _spark_writes_to_names),
    Rule((NAME, "delta.enable", "topics", "topics.regex"), _each_table_has_a_name),
    Rule(("delta.enable", "delta.writer"), _the_writer_is_installed),
    Rule(("delta.enable", "format.class"), _tables_are_made_of_parquet),
    Rule(("delta.enable", "directory.delim", "file.delim"), _tables_have_folders),
)
