"""The archive of Spark's classes with which a local session starts (`run.java.java.ClassArchive`).

python -m kafka_s3.run.spark.class_archive     (what the first sink on a machine does; in an image, say)

To make it, a process of its own runs a session that does what sinks do (`run.spark.session`); its JVM writes its classes at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from kafka_s3.run.java.jars import pyspark_jars
from kafka_s3.run.java.java import ClassArchive, find_java, run_quietly

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""Code that runs for so short a time is compiled quickly, not well."""
SESSION: Final = "kafka_s3.run.spark.session"


def spark_classes() -> ClassArchive:
    """Return the archive for the installed pyspark. Raises LocalServiceError if pyspark has no jars."""
    return ClassArchive("Spark", pyspark_jars(), _write)


def joined(options: Iterable[str]) -> str:
    """Return options of a JVM as Spark takes them, also if their paths have spaces."""
    return " ".join(f'"{option}"' for option in options)


def _write(options: Sequence[str]) -> None:
    run_quietly([sys.executable, "-m", SESSION, joined([*options, QUICK])])


if __name__ == "__main__":
    spark_classes().options(find_java())
