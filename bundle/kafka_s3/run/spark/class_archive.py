"""What is the archive of Spark's classes, with which a local session starts (`run.java.java.ClassArchive`)?

There is one for each duty of a session, for a JVM holds what it maps in memory: 13,000 classes with Spark's SQL, half of them without.

python -m kafka_s3.run.spark.class_archive     (what the first sink on a machine does; in an image, say)

To make it, a process of its own runs a session that does what sinks do (`run.spark.session`); its JVM writes its classes at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from kafka_s3.run.java.jars import pyspark_jars
from kafka_s3.run.java.java import ClassArchive, find_java, run_quietly

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""What lives so short is compiled quickly, not well."""


class Duty(StrEnum):
    """What a local session is for: to hand out numbers to tasks that read for themselves, for whatever Spark's SQL can do, or for that
    and Delta tables with names in a catalog.
    """

    NUMBERS = "numbers"
    QUERIES = "queries"
    TABLES = "tables"


SESSION: Final = "kafka_s3.run.spark.session"


NAMES: Final = {Duty.NUMBERS: "Spark-core", Duty.QUERIES: "Spark"}
"""The archives. Sessions for tables take the second: Delta's classes come from jars that no archive covers."""


def spark_classes(duty: Duty = Duty.QUERIES) -> ClassArchive:
    """The archive for the installed pyspark. Raises LocalServiceError where there is none."""
    archived = Duty.QUERIES if duty is Duty.TABLES else duty
    return ClassArchive(NAMES[archived], pyspark_jars(), partial(_write, archived))


def joined(options: Iterable[str]) -> str:
    """Options of a JVM as Spark takes them, whatever their paths are called."""
    return " ".join(f'"{option}"' for option in options)


def _write(duty: Duty, options: Sequence[str]) -> None:
    run_quietly([sys.executable, "-m", SESSION, duty, joined([*options, QUICK])])


if __name__ == "__main__":
    for one in NAMES:
        spark_classes(one).options(find_java())
