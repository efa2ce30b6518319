"""Tests of what the local Spark session passes to its JVM, and of which sinks need it for good."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.spark.process import needs_lasting_session
from kafka_s3.run.spark.session import ARROW, COLLECTOR, HEAP, Duty, check_catalog, duty_of, duty_of_all, java_options
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


@pytest.mark.parametrize(
    ("keys", "duty"),
    [
        ({}, Duty.RECORDS),
        ({"kafka.reader": "spark"}, Duty.RECORDS),
        ({**PARQUET, "delta.enable": "true"}, Duty.RECORDS),
        ({**PARQUET, "delta.enable": "true", "delta.table.name": "main.raw.orders"}, Duty.TABLES),
        ({**STATE, "state.run.on": "sink"}, Duty.TABLES),
        ({**STATE, "state.run.on": "sink", "state.table.format": "iceberg"}, Duty.RECORDS),
        ({**STATE, "state.run.on": "job"}, Duty.RECORDS),
    ],
)
def test_a_session_loads_delta_if_it_keeps_or_names_tables(keys: dict[str, str], duty: Duty) -> None:
    sink, plain = settings_of({"name": "orders", "flush.size": "3", **keys}), settings_of({"flush.size": "3"})
    assert (duty_of(sink), duty_of_all([plain, sink])) == (duty, duty)


def test_a_working_folder_without_rights_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tests may run as root, to whom no folder is closed."""
    check_catalog(tmp_path, {})
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LocalServiceError, match=r"cannot be written to.*hive-site\.xml in SPARK_CONF_DIR"):
        check_catalog(tmp_path, {})
    check_catalog(tmp_path, {"SPARK_CONF_DIR": "/etc/spark"})
