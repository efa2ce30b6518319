"""What do the benchmarks stand on? Their sizes, a broker, a fast S3, and the objects fetched again for a look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from kafka_s3.local.errors import LocalServiceError
from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.local.s3 import EmbeddedS3, Engine

RECORDS = int(os.environ.get("KAFKA_S3_BENCH_RECORDS", "4000000"))
ROUNDS = int(os.environ.get("KAFKA_S3_BENCH_ROUNDS", "3"))
PARTITIONS = 8
BUCKET = "bench"


@contextmanager
def running_broker() -> Iterator[EmbeddedKafka]:
    """A broker with a small, fixed heap."""
    with EmbeddedKafka(java_options=["-Xms512m", "-Xmx512m", "-XX:+UseSerialGC"]) as running:
        yield running


@contextmanager
def running_objects() -> Iterator[EmbeddedS3]:
    """versitygw with the bucket, moto where that cannot be had."""
    try:
        server = EmbeddedS3(engine=Engine.VERSITYGW)
        server.start()
    except LocalServiceError as error:
        print(f"\nmoto serves the objects: {error}")
        server = EmbeddedS3()
        server.start()
    with server:
        os.environ.update(server.environment)
        server.create_bucket(BUCKET)
        yield server


def new_topic(broker: EmbeddedKafka, name: str, partitions: int) -> str:
    """Creates a topic that keeps records of any age."""
    broker.create_topic(name, partitions, config={"retention.ms": "-1"})
    return name


def fetched(server: EmbeddedS3, folder: str, scratch: Path) -> list[Path]:
    """The published objects of a sink, as files with the objects' extensions."""
    client = boto3.client("s3", endpoint_url=server.endpoint_url)
    target = scratch / f"read-{folder}"
    target.mkdir()
    files = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{folder}/"):
        for item in page.get("Contents", []):
            files.append(target / f"{len(files)}{Path(item['Key']).suffix}")
            client.download_file(BUCKET, item["Key"], str(files[-1]))
    client.close()
    return files
