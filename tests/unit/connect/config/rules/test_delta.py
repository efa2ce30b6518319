"""Which configurations cannot have a Delta table, and what the report says."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.validate import validate
from tests.support.memory_world import BASE

CONFIG = {**BASE, "value.converter.schemas.enable": "true", "flush.size": "10", "delta.enable": "true"}
FORMAT = "io.confluent.connect.s3.format."


@pytest.mark.parametrize("name", ["json.JsonFormat", "avro.AvroFormat", "bytearray.ByteArrayFormat"])
def test_tables_need_parquet_and_the_report_says_so_once(name: str) -> None:
    converter = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"} if "byte" in name else {}
    [problem] = validate({**CONFIG, "format.class": FORMAT + name, **converter}).problems
    assert problem.key == "delta.enable"
    assert "needs Parquet objects" in problem.rule
    assert "parquet.ParquetFormat" in problem.remedy


@pytest.mark.parametrize(("key", "value"), [("directory.delim", "_"), ("file.delim", "/")])
def test_tables_need_a_folder_of_their_own(key: str, value: str) -> None:
    problems = validate({**CONFIG, "format.class": f"{FORMAT}parquet.ParquetFormat", key: value}).problems
    assert key in [problem.key for problem in problems]


def test_modes_are_those_of_databricks_in_any_case() -> None:
    parquet = {**CONFIG, "format.class": f"{FORMAT}parquet.ParquetFormat"}
    settings = validate({**parquet, "delta.schema.evolution.mode": "failonnewcolumns"}).usable()
    assert settings.text("delta.schema.evolution.mode") == "failOnNewColumns"
    assert validate({**parquet, "delta.schema.evolution.mode": "merge"}).problems


TABLES = {**CONFIG, "format.class": f"{FORMAT}parquet.ParquetFormat"}


@pytest.mark.parametrize("topics", [{"topics": "orders,refunds"}, {"topics": "", "topics.regex": "o.*"}])
def test_several_topics_need_several_names(topics: dict[str, str]) -> None:
    [problem] = validate({**TABLES, **topics, "delta.table.name": "main.raw.orders"}).problems
    assert (problem.key, "${topic}" in problem.remedy) == ("delta.table.name", True)
    assert not validate({**TABLES, **topics, "delta.table.name": "main.raw.${topic}"}).problems


def test_spark_writes_to_tables_that_have_names() -> None:
    [problem] = validate({**TABLES, "delta.writer": "Spark"}).problems
    assert (problem.key, problem.rule) == ("delta.table.name", "is needed with delta.writer=spark.")


def test_what_is_no_name_is_refused_with_an_example() -> None:
    [problem] = validate({**TABLES, "delta.table.name": "orders"}).problems
    assert problem.rule.startswith("must be catalog.schema.table")
    assert "main.raw.${topic}" in problem.remedy
