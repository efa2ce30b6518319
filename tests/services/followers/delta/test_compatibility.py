"""`schema.compatibility` decides what files hold, `delta.schema.evolution.mode` what the table makes of it: the table of docs/delta.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from kafka_s3.model.errors import RecordError
from kafka_s3_testing.sink_run import RunSink
from tests.support.memory_world import BASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = {"field": "n", "type": "int32"}
FIELDS = {1: [N], 2: [N, {"field": "a", "type": "int64", "optional": True}]}


def value(version: int, **payload: int) -> bytes:
    schema = {"type": "struct", "name": "order", "version": version, "fields": FIELDS[version]}
    return json.dumps({"schema": schema, "payload": payload}).encode()


RECORDS = [value(1, n=1), value(2, n=2, a=12), value(1, n=3), value(2, n=4, a=14)]
ADDED = [(1, None, "0"), (2, 12, "0"), (3, None, "0"), (4, 14, "0")]
PLAIN = [(1, "0"), (2, "0"), (3, "0"), (4, "0")]
RESCUED = [(1, None, "0"), (2, '{"a":12}', "0"), (3, None, "0"), (4, '{"a":14}', "0")]
NOT_THERE = [(1, None, "0"), (2, None, "0"), (3, None, "0"), (4, None, "0")]
WITH_A, WITHOUT_A = "n int, a bigint, partition string", "n int, partition string"
WITH_RESCUED = "n int, _rescued_data string, partition string"


def config(compatibility: str, mode: str) -> dict[str, str]:
    return {
        **BASE, "flush.size": "100", "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "value.converter.schemas.enable": "true", "schema.compatibility": compatibility, "delta.enable": "true",
        "delta.schema.evolution.mode": mode,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("compatibility", "mode", "rows", "columns"),
    [
        ("NONE", "addNewColumns", ADDED, WITH_A),
        pytest.param("BACKWARD", "addNewColumns", ADDED, WITH_A, marks=pytest.mark.nightly),
        pytest.param("BACKWARD", "none", PLAIN, WITHOUT_A, marks=pytest.mark.nightly),
        pytest.param("NONE", "rescue", RESCUED, WITH_RESCUED, marks=pytest.mark.nightly),
        pytest.param("FORWARD", "addNewColumns", PLAIN, WITHOUT_A, marks=pytest.mark.nightly),
        pytest.param("FORWARD", "rescue", NOT_THERE, WITH_RESCUED, marks=pytest.mark.nightly),
    ],
)
def test_the_table_holds_what_files_hold_as_far_as_its_mode_takes_it(
    spark: SparkSession, run_sink: RunSink, tmp_path: Path, compatibility: str, mode: str, rows: list[Any], columns: str
) -> None:
    made = run_sink(config(compatibility, mode), {"orders": RECORDS}).save(tmp_path)

    found = spark.read.format("delta").load(str(made / "topics" / "orders"))
    expected = spark.createDataFrame(rows, columns)
    assert_df_equality(
        found.select(*expected.columns), expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )
    assert set(found.columns) == set(expected.columns)


def test_a_new_column_stops_the_sink_where_it_would_come_into_a_file(run_sink: RunSink) -> None:
    with pytest.raises(RecordError, match="ADD COLUMNS"):
        run_sink(config("FULL", "failOnNewColumns"), {"orders": RECORDS})
