"""The first guide's sections on Athena and Glue, command by command: its complete example writes, `kafka-s3 ddl` tells the tables.

moto's Athena and Glue take what is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from typer.testing import CliRunner

from kafka_s3.cli.tables import ddl
from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.schemas.avro_values import long_bytes
from kafka_s3.engine.control.stored_settings import store_config
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options, stored_config
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.memory_world import START_MS, settings_of

EVENTS = TopicPartition("events", 0)
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "event_id", "type": "string"},
        {"name": "event_type", "type": "string"},
        {"name": "timestamp", "type": "long"},
        {"name": "user_id", "type": ["null", "string"], "default": None},
    ],
}
WIDER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "country", "type": ["null", "string"], "default": None}]}
COLUMNS = {"event_id": "string", "event_type": "string", "timestamp": "bigint", "user_id": "string"}
"""Those of the guide's own statement for Athena."""
AVRO = "io.confluent.connect.avro.AvroConverter"
GUIDE = {
    "name": "events-to-s3", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "tasks.max": "6", "topics": "events,transactions",
    "s3.region": REGION, "s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "parquet.codec": "snappy",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "locale": "en-US", "timezone": "UTC",
    "partition.duration.ms": "3600000", "flush.size": "50000", "rotate.interval.ms": "600000", "s3.part.size": "52428800",
    "key.converter": AVRO, "value.converter": AVRO, "value.converter.schemas.enable": None, "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dlq-s3-sink", "errors.deadletterqueue.topic.replication.factor": "3",
}  # fmt: skip
"""Its complete example, but for bucket and addresses."""
GUIDES_TABLE = """CREATE EXTERNAL TABLE events (
event_id STRING,
event_type STRING,
timestamp BIGINT,
user_id STRING
)
PARTITIONED BY (year STRING, month STRING, day STRING, hour STRING)
STORED AS PARQUET
LOCATION 's3://{bucket}/topics/events/'"""
OF_GLUE = {"s3.part.size": "52428800", "schema.compatibility": "FULL"}
"""What it sets for Glue."""


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


def body(schema_id: int, event: str, *more: bytes) -> bytes:
    """An event without user in the registry's wire format."""
    texts = b"".join(long_bytes(len(text)) + text.encode() for text in (event, "click"))
    return b"\0" + schema_id.to_bytes(4, "big") + texts + long_bytes(START_MS) + long_bytes(0) + b"".join(more)


def ran(s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str, **changes: str) -> dict[str, Any]:
    """The configuration of a sink that has written two events, and later one of a wider schema; it is stored beside its log, too."""
    places = {
        "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url,
        "key.converter.schema.registry.url": registry.url,
        "value.converter.schema.registry.url": registry.url,
    }
    settings = settings_of({**GUIDE, **places, "flush.size": "2", **changes})
    store = S3Store(store_options(settings))
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    first, second = (registry.register("events-value", json.dumps(schema)) for schema in (SCHEMA, WIDER))
    values = [body(first, "event-0"), body(first, "event-1"), body(second, "event-2", long_bytes(0))]
    for begin, end in ((0, 2), (2, 3)):
        for offset in range(begin, end):
            kafka.add(EVENTS, MemoryRecord(offset, START_MS, None, values[offset]))
        sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
        sink.open()
        sink.poll()
        sink.drain(close=Reason.FLUSH_NOW)
    raw = dict(settings.source)
    assert store_config(store, state_paths(settings), stored_config(validate(raw).usable(), now_ms=START_MS))
    return raw


def reported(*words: str) -> str:
    app = typer.Typer()
    app.command()(ddl)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def client(s3: EmbeddedS3, service: str) -> Any:
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client(service, endpoint_url=s3.endpoint_url, region_name=REGION, **keys)


def asked(s3: EmbeddedS3, bucket: str, text: str) -> None:
    """Gives Athena a statement, which moto takes as it is."""
    athena = client(s3, "athena")
    place = {"OutputLocation": f"s3://{bucket}/results/"}
    number = athena.start_query_execution(QueryString=text, ResultConfiguration=place)["QueryExecutionId"]
    known = athena.get_query_execution(QueryExecutionId=number)["QueryExecution"]
    assert (known["Query"], known["Status"]["State"]) == (text, "SUCCEEDED")


def test_the_guides_section_on_athena(s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "events-to-s3.json"
    path.write_text(json.dumps(ran(s3, registry, bucket)))
    text = reported(str(path), "--engine", "athena")
    columns = "".join(f"  `{name}` {type_},\n" for name, type_ in COLUMNS.items())
    assert text.startswith(f"CREATE EXTERNAL TABLE `events` (\n{columns}  `country` string\n)")
    assert "PARTITIONED BY (`year` string, `month` string, `day` string, `hour` string)" in text
    assert f"STORED AS PARQUET\nLOCATION 's3://{bucket}/topics/events/'" in text
    for statement in (GUIDES_TABLE.format(bucket=bucket), text):
        asked(s3, bucket, statement)
    asked(s3, bucket, "MSCK REPAIR TABLE events")  # not needed: directories are projected
    assert "'projection.enabled'='true'" in text.replace(" = ", "=")


def test_the_guides_section_on_glue(s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str, tmp_path: Path) -> None:
    glue, database = client(s3, "glue"), f"lake-{bucket}"
    glue.create_database(DatabaseInput={"Name": database})
    path = tmp_path / "events-to-s3.json"
    path.write_text(
        json.dumps(
            ran(
                s3, registry, bucket, **OF_GLUE, **{"glue.database.name": database, "aws.endpoint.url": s3.endpoint_url}
            )
        )
    )
    kept = glue.get_table(DatabaseName=database, Name="events")["Table"]
    assert {one["Name"]: one["Type"] for one in kept["StorageDescriptor"]["Columns"]} == {
        **COLUMNS,
        "country": "string",
    }
    (partition,) = glue.get_partitions(DatabaseName=database, TableName="events")["Partitions"]
    assert partition["Values"] == ["2024", "01", "15", "10"]
    place = partition["StorageDescriptor"]["Location"]
    assert place == f"s3://{bucket}/topics/events/year=2024/month=01/day=15/hour=10/"

    glue.delete_table(DatabaseName=database, Name="events")  # the same by hand, without the follower
    glue.create_table(DatabaseName=database, TableInput=json.loads(reported(str(path), "--engine", "glue")))
    table = glue.get_table(DatabaseName=database, Name="events")["Table"]
    for name in ("StorageDescriptor", "PartitionKeys", "Parameters"):
        assert table[name] == kept[name]


def test_columns_of_json_objects_come_from_the_registry_and_a_name_will_do(
    s3: EmbeddedS3, registry: EmbeddedRegistry, bucket: str
) -> None:
    ran(s3, registry, bucket, **{"format.class": "io.confluent.connect.s3.format.json.JsonFormat"})
    place = ("--bucket", bucket, "--store-url", s3.endpoint_url, "--region", REGION)
    document = json.loads(reported("events-to-s3", *place, "--engine", "trino", "--output", "json"))
    (table,) = document["tables"]
    assert (table["topic"], table["notes"]) == ("events", [])
    assert '"user_id" varchar' in table["statements"][0]  # null in every record
