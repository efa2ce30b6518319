"""Cases of the original's behaviour through real Kafka, Spark and S3."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from kafka_s3.connect.config.validate import resolved
from tests.support.bucket import Bucket
from tests.support.configurations import BASE, PARTITIONER
from tests.support.kafka import Given, document, produce

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

TEN = 1_705_312_800_000  # 2024-01-15T10:00:00Z
MINUTE, HOUR = 60_000, 3_600_000
RECORD_TIME = {"locale": "en", "timezone": "UTC", "timestamp.extractor": "Record"}
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "region", "type": "string", "optional": True}, {"field": "n", "type": "int64"}],
}


class Case:
    """Runs a configuration over what is in Kafka, as `kafka-s3 run --available-now` does, in the tests' Spark session."""

    def __init__(self, kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession) -> None:
        self.kafka, self.s3, self.spark = kafka, s3, spark
        self.bucket = Bucket(s3.endpoint_url, bucket)

    def run(self, topics: str, **config: str) -> dict[str, list[Any]]:
        from threading import Event

        from kafka_s3.connect.config.validate import validate
        from kafka_s3.engine.loop.runner import run_available_now, waiting
        from kafka_s3.run.spark.launch import sink_on_spark

        ours = {
            "name": "case",
            "topics": topics,
            "s3.bucket.name": self.bucket.name,
            "store.url": self.s3.endpoint_url,
            "tasks.max": "4",
        }
        raw = {**BASE, **ours, "kafka.bootstrap.servers": self.kafka.bootstrap_servers, **config}
        settings = resolved(validate({key: value for key, value in raw.items() if value}).usable())
        run_available_now(sink_on_spark(settings, self.spark), backoff_ms=200, wait=waiting(Event()))
        return self.bucket.contents()

    def send(self, topic: str, *records: Given) -> None:
        produce(self.kafka.bootstrap_servers, topic, records)


@pytest.fixture
def case(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, spark: SparkSession) -> Case:
    return Case(kafka, s3, bucket, spark)


def numbered(*numbers: int, partition: int = 0) -> list[Given]:
    return [Given(document(n=n), partition) for n in numbers]


def rows(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_topics_and_partitions_count_for_themselves(case: Case, topic: Callable[..., str]) -> None:
    a, b = topic("a", 2), topic("b")
    case.send(a, *numbered(0, 1, 2, 3), *numbered(10, 11, 12, partition=1))
    case.send(b, *numbered(20, 21))
    assert case.run(f"{a},{b}", **{"flush.size": "3"}) == {
        f"topics/{a}/partition=0/{a}+0+0000000000.json": rows(0, 1, 2),
        f"topics/{a}/partition=1/{a}+1+0000000000.json": rows(10, 11, 12),
    }


def test_record_time_rotates_at_the_interval_and_at_the_hour(case: Case, topic: Callable[..., str]) -> None:
    name = topic("events")
    times = [TEN, TEN + MINUTE - 1, TEN + MINUTE, TEN + HOUR, TEN + HOUR + 1, TEN + 3 * HOUR]
    case.send(name, *(Given(document(n=n), timestamp_ms=at) for n, at in enumerate(times)))
    hourly = {"partitioner.class": PARTITIONER + "HourlyPartitioner", **RECORD_TIME}
    at = f"topics/{name}/year=2024/month=01/day=15/hour"
    assert case.run(name, **hourly, **{"flush.size": "1000", "rotate.interval.ms": str(MINUTE)}) == {
        f"{at}=10/{name}+0+0000000000.json": rows(0, 1),
        f"{at}=10/{name}+0+0000000002.json": rows(2),
        f"{at}=11/{name}+0+0000000003.json": rows(3, 4),
    }


def test_the_zone_decides_the_day_and_names_follow_their_settings(case: Case, topic: Callable[..., str]) -> None:
    name = topic("events")
    case.send(name, Given(document(n=0), timestamp_ms=TEN + 13 * HOUR + HOUR // 2))
    daily = {"partitioner.class": PARTITIONER + "DailyPartitioner", **RECORD_TIME, "timezone": "Europe/Paris"}
    naming = {
        "topics.dir": "lake/raw",
        "file.delim": "-",
        "filename.offset.zero.pad.width": "3",
        "s3.compression.type": "gzip",
    }
    assert case.run(name, **daily, **naming, **{"flush.size": "1"}) == {
        f"lake/raw/{name}/year=2024/month=01/day=16/{name}-0-000.json.gz": rows(0)
    }


def test_fields_of_values_with_a_schema_are_directories(case: Case, topic: Callable[..., str]) -> None:
    name = topic("events")
    values = [{"region": "eu", "n": 1}, {"region": None, "n": 2}, {"region": "eu", "n": 3}]
    case.send(name, *(Given(document(schema=SCHEMA, payload=value)) for value in values))
    fields = {"partitioner.class": PARTITIONER + "FieldPartitioner", "partition.field.name": "region"}
    assert case.run(name, **fields, **{"flush.size": "3", "value.converter.schemas.enable": "true"}) == {
        f"topics/{name}/region=eu/{name}+0+0000000000.json": [values[0], values[2]],
        f"topics/{name}/region=null/{name}+0+0000000001.json": [values[1]],
    }


def test_objects_are_tagged_with_their_offsets(case: Case, topic: Callable[..., str]) -> None:
    name = topic("events")
    case.send(name, *numbered(0, 1, 2))
    tags = {"s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "team:data"}
    (key,) = case.run(name, **tags, **{"flush.size": "3"})
    assert case.bucket.tags(key) == {"startOffset": "0", "endOffset": "2", "recordCount": "3", "team": "data"}


def test_the_managed_cloud_spelling_gives_hours_of_gzip(
    case: Case, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_s3.run.spark import launch

    monkeypatch.setattr(launch, "consumer_properties", lambda settings: {})  # the embedded broker takes no API key
    name = topic("events")
    case.send(name, Given(document(n=0), timestamp_ms=TEN), Given(document(n=1), timestamp_ms=TEN + HOUR))
    cloud = {key: "" for key in (*BASE, "store.url")} | {
        "connector.class": "S3_SINK", "kafka.api.key": "x", "kafka.api.secret": "x", "aws.access.key.id": "x", "aws.secret.access.key": "x",
        "input.data.format": "JSON", "output.data.format": "JSON", "time.interval": "HOURLY", "compression.codec": "JSON - gzip",
        "store.url": case.s3.endpoint_url,
    }  # fmt: skip
    assert case.run(name, **cloud) == {
        f"topics/{name}/year=2024/month=01/day=15/hour=10/{name}+0+0000000000.json.gz": rows(0)
    }


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_schemaless_json_becomes_parquet_that_spark_reads(
    codec: str, case: Case, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("events")
    values = [{"n": 1, "x": 1.5, "s": "a"}, {"n": 2, "x": 2, "s": None}, {"n": 3, "s": "2024-01-15"}]
    case.send(name, *(Given(document(**value)) for value in values))
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}
    (key,) = case.run(name, **parquet, **{"parquet.codec": codec, "flush.size": "3"})
    assert key.endswith(f".{codec}.parquet")
    (tmp_path / "file.parquet").write_bytes(case.bucket.get(key))
    read = case.spark.read.parquet(str(tmp_path / "file.parquet"))
    wanted = case.spark.createDataFrame(
        [(1, 1.5, "a"), (2, 2.0, None), (3, None, "2024-01-15")], "n long, x double, s string"
    )
    assert_df_equality(read, wanted, ignore_nullable=True)


def test_a_second_run_goes_on_where_the_first_one_stopped(case: Case, topic: Callable[..., str]) -> None:
    name = topic("events")
    case.send(name, *numbered(0, 1, 2, 3))
    case.run(name, **{"flush.size": "3"})
    case.send(name, *numbered(4, 5))
    assert case.run(name, **{"flush.size": "3"}) == {
        f"topics/{name}/partition=0/{name}+0+0000000000.json": rows(0, 1, 2),
        f"topics/{name}/partition=0/{name}+0+0000000003.json": rows(3, 4, 5),
    }
    entries = case.bucket.entries("case")
    assert [entry["version"] for entry in entries] == list(range(len(entries)))
    assert json.dumps(entries[-1]["frontier"]) == json.dumps({name: {"0": 6}})
