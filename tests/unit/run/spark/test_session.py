"""Tests of what the local Spark session passes to its JVM, and of which sinks need it for good."""

from __future__ import annotations

import pytest

from kafka_s3.run.spark.process import needs_lasting_session
from kafka_s3.run.spark.session import ARROW, COLLECTOR, HEAP, java_options
from tests.support.memory_world import settings_of

PARQUET = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}
STATE = {**PARQUET, "state.enable": "true", "state.table": "main.state.orders", "record.metadata.enable": "true"}


@pytest.mark.parametrize(
    ("variable", "options", "reported"),
    [
        ("PATH", "-XX:+UseG1GC", f"{COLLECTOR} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseStringDeduplication", f"{COLLECTOR} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseG1GC", f"{HEAP} {ARROW}"),
        ("_JAVA_OPTIONS", "-XX:+UseSerialGC -Xmx1g", f"{HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xms1g", f"{COLLECTOR} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC -XX:InitialRAMPercentage=50", ARROW),
    ],
)
def test_collector_and_first_heap_that_the_user_chose_stay(variable: str, options: str, reported: str) -> None:
    """With a second collector a JVM does not start."""
    assert java_options({variable: options}) == reported


@pytest.mark.parametrize(
    ("keys", "lasting"),
    [
        ({}, False),
        ({"kafka.reader": "tasks"}, False),
        ({"kafka.reader": "spark"}, True),
        ({"tasks.run.on": "driver"}, True),
        ({**PARQUET, "delta.enable": "true"}, False),
        ({**PARQUET, "delta.enable": "true", "delta.table.name": "main.raw.orders"}, True),
        ({**STATE, "state.run.on": "sink"}, True),
        ({**STATE, "state.run.on": "job"}, False),
    ],
)
def test_a_session_lasts_if_spark_reads_or_keeps_tables(keys: dict[str, str], lasting: bool) -> None:
    assert needs_lasting_session(settings_of({"name": "orders", "flush.size": "3", **keys})) is lasting
