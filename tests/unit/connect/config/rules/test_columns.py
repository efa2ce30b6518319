"""Directories with the name of a column are reported before anything is written."""

from __future__ import annotations

import json

import pytest

from kafka_s3.connect.config.validate import validate
from tests.support.memory_world import BASE

STORAGE = "io.confluent.connect.storage.partitioner."
PARQUET = {
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "flush.size": "10",
    "timezone": "UTC",
    "locale": "en",
}


def schema(*names: str) -> str:
    return json.dumps({"type": "struct", "fields": [{"field": name, "type": "int64"} for name in names]})


@pytest.mark.parametrize(
    ("partitioner", "fields", "reported"),
    [
        ({"partitioner.class": STORAGE + "HourlyPartitioner"}, ("id", "Hour"), ["value.schema"]),
        ({"partitioner.class": STORAGE + "DailyPartitioner"}, ("id", "hour"), []),
        ({"partitioner.class": STORAGE + "DefaultPartitioner"}, ("partition",), ["value.schema"]),
        ({"partitioner.class": STORAGE + "FieldPartitioner", "partition.field.name": "id"}, ("id",), []),
        ({"partitioner.class": STORAGE + "FieldPartitioner", "partition.field.name": "id,Id"}, ("id",), ["partition.field.name"]),
        ({"partitioner.class": STORAGE + "TimeBasedPartitioner", "partition.duration.ms": "3600000",
          "path.format": "'dt'=YYYY-MM-dd/'dt'=HH"}, ("dt",), ["path.format", "value.schema"]),
        ({"partitioner.class": "com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner", "partition.duration.ms": "3600000",
          "partition.field.name": "country", "path.format": "'day'=dd"}, ("country", "Day"), ["value.schema"]),
        ({"partitioner.class": "header", "partition.header.name": "tenant"}, ("Tenant",), ["value.schema"]),
        ({"partitioner.class": "key"}, ("key",), ["value.schema"]),
        ({"partitioner.class": "key", "partition.key.field": "id"}, ("key",), []),
    ],
)  # fmt: skip
def test_a_directory_with_the_name_of_a_column_is_reported(
    partitioner: dict[str, str], fields: tuple[str, ...], reported: list[str]
) -> None:
    checked = validate({**BASE, **PARQUET, **partitioner, "value.schema": schema(*fields)})
    assert [warning.key for warning in checked.warnings] == reported
    assert checked.problems == ()
