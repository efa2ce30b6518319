"""The first guide's sections on Athena and Glue, command by command: its own example writes, `kafka-s3 ddl` tells, moto's Glue takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from typer.testing import CliRunner

from kafka_s3.cli.ddl import ddl
from kafka_s3.config.validate import validate
from kafka_s3.control.commands import store_config, stored_config
from kafka_s3.local.memory import MemoryKafka, MemoryRecord
from kafka_s3.local.registry import EmbeddedRegistry
from kafka_s3.local.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.schemas.avro_binary import long_bytes
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.wiring.sink import build_sink
from tests.support.memory_world import START_MS, settings_of

EVENTS = TopicPartition("events", 0)
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "event_id", "type": "string"},
        {"name": "event_type", "type": "string"},
        {"name": "timestamp", "type": "long"},
        {"name": "user_id", "type": ["null", "long"], "default": None},
    ],
}
COLUMNS = {"event_id": "string", "event_type": "string", "timestamp": "bigint", "user_id": "bigint"}
AVRO = "io.confluent.connect.avro.AvroConverter"
GUIDE = {
    "name": "events-to-s3", "topics": "events,transactions", "s3.region": REGION, "parquet.codec": "snappy",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "locale": "en-US", "timezone": "UTC",
    "partition.duration.ms": "3600000", "flush.size": "2", "timestamp.extractor": "Record", "value.converter": AVRO,
    "value.converter.schemas.enable": "true",
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


def body(schema_id: int, event: str) -> bytes:
    """An event without user in the registry's wire format."""
    texts = b"".join(long_bytes(len(text)) + text.encode() for text in (event, "click"))
    return b"\0" + schema_id.to_bytes(4, "big") + texts + long_bytes(START_MS) + long_bytes(0)


def ran(s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str, **changes: str) -> dict[str, str]:
    """The configuration of a sink that has written two events; it is stored beside its log, too."""
    places = {
        "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url,
        "value.converter.schema.registry.url": registry.url,
    }
    config = {**GUIDE, **places, **changes}
    settings = settings_of(config)
    store = S3Store(store_options(settings))
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    schema_id = registry.register("events-value", json.dumps(SCHEMA))
    for offset in range(2):
        kafka.add(EVENTS, MemoryRecord(offset, START_MS, None, body(schema_id, f"event-{offset}")))
    sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
    sink.open()
    assert sink.cycle()
    raw = dict(settings.source)
    assert store_config(store, state_paths(settings), stored_config(validate(raw).usable(), now_ms=START_MS))
    return raw


def told(*words: str) -> str:
    app = typer.Typer()
    app.command()(ddl)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def client(s3: EmbeddedS3, service: str) -> Any:
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client(service, endpoint_url=s3.endpoint_url, region_name=REGION, **keys)


def test_the_table_of_the_guide_is_told_and_taken(
    s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str, tmp_path: Path
) -> None:
    path = tmp_path / "events-to-s3.json"
    path.write_text(json.dumps(ran(s3, registry, bucket)))
    text = told(str(path), "--engine", "athena")
    assert text.startswith("CREATE EXTERNAL TABLE `events` (\n  `event_id` string,\n  `event_type` string,\n")
    assert "PARTITIONED BY (`year` string, `month` string, `day` string, `hour` string)" in text
    assert f"STORED AS PARQUET\nLOCATION 's3://{bucket}/topics/events/'" in text
    athena = client(s3, "athena")
    place = {"OutputLocation": f"s3://{bucket}/results/"}
    asked = athena.start_query_execution(QueryString=text, ResultConfiguration=place)
    known = athena.get_query_execution(QueryExecutionId=asked["QueryExecutionId"])["QueryExecution"]
    assert (known["Query"], known["Status"]["State"]) == (text, "SUCCEEDED")

    glue, database = client(s3, "glue"), f"lake-{bucket}"
    glue.create_database(DatabaseInput={"Name": database})
    glue.create_table(DatabaseName=database, TableInput=json.loads(told(str(path), "--engine", "glue")))
    table = glue.get_table(DatabaseName=database, Name="events")["Table"]
    assert {one["Name"]: one["Type"] for one in table["StorageDescriptor"]["Columns"]} == COLUMNS
    assert [one["Name"] for one in table["PartitionKeys"]] == ["year", "month", "day", "hour"]


def test_columns_of_json_objects_come_from_the_registry_and_a_name_will_do(
    s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str
) -> None:
    ran(s3, registry, bucket, **{"format.class": "io.confluent.connect.s3.format.json.JsonFormat"})
    place = ("--bucket", bucket, "--store-url", s3.endpoint_url, "--region", REGION)
    document = json.loads(told("events-to-s3", *place, "--engine", "trino", "--output", "json"))
    (table,) = document["tables"]
    assert (table["topic"], table["notes"]) == ("events", [])
    assert '"user_id" bigint' in table["statements"][0]  # null in every record
