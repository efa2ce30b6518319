"""How does a failure get from a task to the loop? As an error of the product: by name in the report's place, or read off Spark's own."""

from __future__ import annotations

import json

from pyspark.errors import PySparkException

from kafka_s3 import errors
from kafka_s3.errors import KafkaUnavailable, OffsetsLost, SinkError, SourceError

LOST = ("OffsetOutOfRange", "failOnDataLoss", "KAFKA_DATA_LOSS", "Cannot fetch offset", "data was lost")
KAFKA = ("org.apache.kafka", "kafka010", "TimeoutException: Cannot fetch record")
SHOWN = 400


def failure_text(error: SinkError, where: object) -> str:
    """An error as a row of the report's form."""
    return json.dumps({"raised": type(error).__name__, "text": f"{where}: {error}"})


def raise_failure(text: str) -> None:
    """Raises the error that a row stands for; does nothing for a report."""
    document = json.loads(text)
    if "raised" in document:
        kind = getattr(errors, document["raised"], SinkError)
        raise kind(document["text"])


def source_error(error: PySparkException) -> SourceError | None:
    """Kafka's part in a failed Spark job as an error of the product, None where it has none."""
    text = str(error)
    if not any(mark in text for mark in KAFKA):
        return None
    reason = next((line.strip() for line in text.splitlines() if any(mark in line for mark in KAFKA)), "")[:SHOWN]
    if any(mark in text for mark in LOST):
        return OffsetsLost(f"Kafka lost records while they were read: {reason} The next start says which.")
    return KafkaUnavailable(f"Spark could not read from Kafka: {reason}")
