"""What does the local Spark session pass to its JVM and its workers, and what is it for?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.spark.class_archive import Duty
from kafka_s3.run.spark.daemon import REGISTRY, WORKERS_FOR
from kafka_s3.run.spark.session import (
    ARROW,
    COLLECTOR,
    COMPILER,
    HEAP,
    SMALL_COLLECTOR,
    SMALL_COMPILER,
    SMALL_HEAP,
    check_catalog,
    duty_of_all,
    for_workers,
    java_options,
)
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
        ("PATH", "-XX:+UseG1GC", f"{COLLECTOR} {COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseStringDeduplication", f"{COLLECTOR} {COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseG1GC", f"{COMPILER} {HEAP} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC", f"{COMPILER} {HEAP} {ARROW}"),
        ("_JAVA_OPTIONS", "-XX:+UseSerialGC -Xmx1g", f"{COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-XX:-TieredCompilation", f"{COLLECTOR} {HEAP} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC -XX:TieredStopAtLevel=1", f"{HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xms1g", f"{COLLECTOR} {COMPILER} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:InitialRAMPercentage=50", f"{COLLECTOR} {COMPILER} {ARROW}"),
    ],
)
def test_collector_compilers_and_first_heap_that_the_user_chose_stay(
    variable: str, options: str, reported: str
) -> None:
    """With a second collector a JVM does not start."""
    assert java_options({variable: options}) == reported


def test_a_jvm_that_only_hands_out_numbers_is_a_small_one() -> None:
    assert java_options({}, Duty.NUMBERS) == f"{SMALL_COLLECTOR} {SMALL_COMPILER} {SMALL_HEAP} {ARROW}"
    chosen = {"JDK_JAVA_OPTIONS": "-XX:+UseG1GC -XX:TieredStopAtLevel=4 -Xms1g"}
    assert java_options(chosen, Duty.NUMBERS) == ARROW


@pytest.mark.parametrize(
    ("keys", "duty"),
    [
        ({}, Duty.NUMBERS),
        ({"kafka.reader": "tasks"}, Duty.NUMBERS),
        ({"kafka.reader": "spark"}, Duty.QUERIES),
        ({"tasks.run.on": "driver"}, Duty.QUERIES),
        ({**PARQUET, "delta.enable": "true"}, Duty.NUMBERS),
        ({**PARQUET, "delta.enable": "true", "delta.table.name": "main.raw.orders"}, Duty.TABLES),
        ({**STATE, "state.run.on": "sink"}, Duty.TABLES),
        ({**STATE, "state.run.on": "sink", "kafka.reader": "spark"}, Duty.TABLES),
        ({**STATE, "state.run.on": "sink", "state.table.format": "iceberg"}, Duty.QUERIES),
        ({**STATE, "state.run.on": "job"}, Duty.NUMBERS),
    ],
)
def test_a_session_is_for_queries_when_spark_reads_and_for_tables_when_it_keeps_them(
    keys: dict[str, str], duty: Duty
) -> None:
    sink, plain = settings_of({"name": "orders", "flush.size": "3", **keys}), settings_of({"flush.size": "3"})
    assert (duty_of_all([sink]), duty_of_all([plain, sink])) == (duty, duty)


def test_a_working_folder_without_rights_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tests may run as root, to whom no folder is closed."""
    check_catalog(tmp_path, {})
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LocalServiceError, match=r"cannot be written to.*hive-site\.xml in SPARK_CONF_DIR"):
        check_catalog(tmp_path, {})
    check_catalog(tmp_path, {"SPARK_CONF_DIR": "/etc/spark"})


def test_workers_load_the_client_of_a_registry_only_where_a_sink_names_one() -> None:
    plain = settings_of({"flush.size": "3"})
    asking = settings_of(
        {
            "flush.size": "3",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "http://registry:8081",
        }
    )
    variable = f"spark.executorEnv.{WORKERS_FOR}"
    assert for_workers([plain])[variable] != REGISTRY
    assert for_workers([plain, asking]) == {variable: REGISTRY}
    assert for_workers([settings_of({"flush.size": "3", "kafka.reader": "spark"})]) == {}
