"""The texts of the connectors' own guides: what they show goes in as it stands there, or is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.config.validate import check_file, validate
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Reason
from tests.support.memory_world import World

BASIC = """
{
"name": "s3-sink",
"config": {
"connector.class": "io.confluent.connect.s3.S3SinkConnector",
"tasks.max": "3",
"topics": "events",
"s3.bucket.name": "data-lake-bucket",
"s3.region": "us-east-1",
"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
"flush.size": "10000",
"storage.class": "io.confluent.connect.s3.storage.S3Storage",
"partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner"
}
}
"""
WORKER = """
bootstrap.servers=broker:9092
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=true
"""
CLOUD = """
{
   "name" : "confluent-s3-sink",
   "connector.class": "S3_SINK",
   "kafka.api.key": "<my-kafka-api-key>",
   "kafka.api.secret" : "<my-kafka-api-secret>",
   "aws.access.key.id" : "<my-aws-access-key>",
   "aws.secret.access.key": "<my-aws-access-key-secret>",
   "input.data.format": "JSON",
   "output.data.format": "JSON",
   "compression.codec": "JSON - gzip",
   "s3.compression.level": "6",
   "s3.bucket.name": "<my-bucket-name>",
   "time.interval" : "HOURLY",
   "flush.size": "1000",
   "tasks.max" : "1"
   "topics": "<topic-1>, <topic-2>",
}
"""


def files(folder: Path, text: str) -> tuple[Path, Path]:
    sink, worker = folder / "s3-sink.json", folder / "worker.properties"
    sink.write_text(text.strip(), encoding="utf-8")
    worker.write_text(WORKER, encoding="utf-8")
    return sink, worker


def test_the_basic_example_is_hourly_in_utc_as_one_line_shows(tmp_path: Path) -> None:
    sink, worker = files(tmp_path, BASIC)
    checked = check_file(sink, worker_path=worker)
    (reported,) = checked.warnings
    assert checked.problems == ()
    assert reported.key == "partitioner.class"
    for shown in ("partition.duration.ms=3600000", "'hour'=HH", "locale=en", "timezone=UTC"):
        assert shown in reported.rule


def test_the_basic_example_writes_hourly_directories() -> None:
    """Of its topic and format only those that a table in memory has: orders, as JSON."""
    given = json.loads(BASIC)["config"]
    world = World({**given, "topics": "orders", "format.class": "JsonFormat", "timestamp.extractor": "Record"})
    world.add([0])
    sink = world.start()
    sink.poll()
    sink.drain(close=Reason.FLUSH_NOW)
    assert list(world.objects()) == ["topics/orders/year=2024/month=01/day=15/hour=10/orders+0+0000000000.json"]


def test_the_cloud_example_lacks_a_comma_and_its_place_is_named(tmp_path: Path) -> None:
    sink, _ = files(tmp_path, CLOUD)
    with pytest.raises(ConfigError, match="line 16, column 4"):
        read_config(sink)


def test_what_the_cloud_example_leaves_to_the_reader_is_named_and_the_rest_is_valid(tmp_path: Path) -> None:
    mended = json.loads(CLOUD.replace('"1"\n', '"1",\n').replace('2>",\n', '2>"\n'))
    mended["kafka.bootstrap.servers"] = "broker:9092"
    found = validate(mended)
    assert [problem.key for problem in found.problems] == [
        "kafka.api.key", "kafka.api.secret", "aws.access.key.id", "aws.secret.access.key", "s3.bucket.name", "topics",
    ]  # fmt: skip
    assert {problem.remedy for problem in found.problems} == {"Write your own, without the brackets."}
    filled = {key: text.strip("<>").replace("<", "").replace(">", "") for key, text in mended.items()}
    settings = validate(filled).usable()
    assert settings.names("topics") == ("topic-1", "topic-2")
    assert settings.text("errors.deadletterqueue.topic.name") == "dlq-confluent-s3-sink"


@pytest.mark.parametrize("zone", ["EST", "PST", "WET", "UTC"])
@pytest.mark.parametrize("locale", ["en-US", "en-GB", "en-IN", "fr-FR", "en"])
def test_the_cloud_guides_zones_and_locales_are_taken(zone: str, locale: str) -> None:
    """ "For example, you can use EST, PST, WET, or UTC"; "en-US for English (USA)"."""
    config = {
        "name": "s", "connector.class": "S3_SINK", "kafka.api.key": "k", "kafka.api.secret": "s", "aws.access.key.id": "i",
        "aws.secret.access.key": "s", "input.data.format": "JSON", "output.data.format": "JSON", "s3.bucket.name": "bucket",
        "time.interval": "DAILY", "tasks.max": "1", "topics": "t", "kafka.bootstrap.servers": "b:1",
        "timezone": zone, "locale": locale,
    }  # fmt: skip
    assert validate(config).problems == ()
