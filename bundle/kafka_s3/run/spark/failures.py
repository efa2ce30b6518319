"""What does a failed job of Spark mean? As an error of the product: whose process died, what Kafka answered."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import PySparkException, PythonException

from kafka_s3.kafka.clients import lost, unanswered
from kafka_s3.model.errors import EngineDied, SourceError, UnreadableRecord

try:  # without Spark Connect a job that fails in its tasks is an error of the bridge to Java; a Connect client need not have the bridge
    from py4j.protocol import Py4JJavaError
except ImportError:
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JJavaError)

LOST = ("OffsetOutOfRange", "failOnDataLoss", "KAFKA_DATA_LOSS", "Cannot fetch offset", "data was lost")
DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure", "TaskTimedOut")
KAFKA = ("org.apache.kafka", "kafka010", "TimeoutException: Cannot fetch record")
RECORD = ("ArithmeticException", "fetching the next record from")
"""A time that Spark cannot count in microseconds, bytes that are not a record: another attempt meets them again."""
SHOWN = 400
AFTER_DEATH = (
    "Nothing of this batch was committed, and it is read again. Most often the memory is short: give the executors more, or lower "
    "tasks.max."
)


def source_error(error: Exception) -> SourceError | None:
    """A failed Spark job as an error of the product where Kafka has a part in it or a process of Spark died, else None.

    What Python raised in a task is no outage of Kafka, whatever names its text holds.
    """
    text = str(error)
    if (died := death(error)) is not None:
        return died
    if isinstance(error, PythonException) or not any(mark in text for mark in KAFKA):
        return None
    if any(mark in text for mark in RECORD):
        return UnreadableRecord(
            f"Spark's Kafka source cannot read a record, however often it tries: {_line(text, RECORD)}"
        )
    reason = _line(text, KAFKA)
    if any(mark in text for mark in LOST):
        return lost(reason)
    return unanswered(f"Spark could not read from Kafka: {reason}")


def death(error: Exception) -> SourceError | None:
    """A failed Spark job as an error of the product where a process of Spark died, else None."""
    text = str(error)
    if not any(mark in text for mark in DIED):
        return None
    return EngineDied(f"A process of Spark died at its work: {_line(text, DIED)} {AFTER_DEATH}")


def python_reason(error: Exception) -> str:
    """The line of a failed job's error that names what Python's worker raised, else its first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line) and not line.startswith("org.")]
    return (raised or lines or [type(error).__name__])[0][:SHOWN]


def _line(text: str, marks: Sequence[str]) -> str:
    """The line of an error that says it."""
    return next((line.strip() for line in text.splitlines() if any(mark in line for mark in marks)), "")[:SHOWN]
