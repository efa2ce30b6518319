"""What was produced, what is in the bucket, and how is a sink run as a process? Reads without the product's code, so as to judge it."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition

STATE = "_kafka_s3/"
ROOT = Path(__file__).parents[2]
BASE = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "s3.region": "us-east-1",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
PARTITIONER = "io.confluent.connect.storage.partitioner."


@dataclass(frozen=True)
class Given:
    """A record to produce."""

    value: bytes | None
    partition: int = 0
    timestamp_ms: int = 1_736_935_200_000  # 2025-01-15T10:00:00Z
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def document(**fields: Any) -> bytes:
    """A JSON value as most producers write it."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def produce(servers: str, topic: str, records: Iterable[Given]) -> None:
    """Sends the records, in order."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for record in records:
        producer.produce(
            topic, record.value, record.key, partition=record.partition, timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(30) == 0


def kafka_records(servers: str, topic: str, partitions: int) -> dict[tuple[int, int], bytes | None]:
    """Every record of a topic as Kafka has it, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False})
    found: dict[tuple[int, int], bytes | None] = {}
    for partition in range(partitions):
        low, head = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, low)])
        position = low
        while position < head:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found[partition, message.offset()] = message.value()
            position = message.offset() + 1
    consumer.close()
    return found


def group_offsets(servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """What a consumer group has committed, by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    committed = consumer.committed([TopicPartition(topic, partition) for partition in range(partitions)], timeout=10)
    consumer.close()
    return {place.partition: place.offset for place in committed}


class Bucket:
    """A bucket, as any S3 client sees it."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.name = name
        self.client = boto3.client("s3", endpoint_url=endpoint)

    def listing(self) -> dict[str, str]:
        """The ETag of every object."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def get(self, key: str) -> bytes:
        """An object's bytes."""
        with self.client.get_object(Bucket=self.name, Key=key)["Body"] as body:
            return bytes(body.read())

    def data_keys(self) -> list[str]:
        """The objects that are no state of a sink, in order."""
        return sorted(key for key in self.listing() if not key.startswith(STATE))

    def rows(self, key: str) -> list[dict[str, Any]]:
        """The records of an object."""
        content = self.get(key)
        if key.endswith(".parquet"):
            return list(pq.read_table(io.BytesIO(content)).to_pylist())
        text = gzip.decompress(content) if key.endswith(".gz") else content
        return [json.loads(line) for line in text.splitlines()]

    def contents(self) -> dict[str, list[dict[str, Any]]]:
        """The records of every data object."""
        return {key: self.rows(key) for key in self.data_keys()}

    def entries(self, sink: str) -> list[dict[str, Any]]:
        """A sink's commit log, in order."""
        folder = f"{STATE}{sink}/commits/"
        return [json.loads(self.get(key)) for key in sorted(self.listing()) if key.startswith(folder)]

    def dead_letters(self, sink: str) -> list[dict[str, Any]]:
        """The lines of a sink's dead letter files."""
        keys = sorted(key for key in self.listing() if key.startswith(f"{STATE}{sink}/dead-letters/"))
        return [json.loads(line) for key in keys for line in gzip.decompress(self.get(key)).splitlines()]

    def tags(self, key: str) -> dict[str, str]:
        """An object's tags."""
        found = self.client.get_object_tagging(Bucket=self.name, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def close(self) -> None:
        """Gives the connections back."""
        self.client.close()


@dataclass
class SinkProcess:
    """A process of this Python with the product on its path; its output goes to a file, so that no pipe fills up."""

    command: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> SinkProcess:
        """Starts it."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'bundle'}{os.pathsep}{ROOT}", **self.environment}
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # of the Spark in this process
            environment.pop(name, None)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *self.command], stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
            )
        return self

    def output(self) -> str:
        """Everything it has written so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 120) -> int:
        """Its exit code, negative for a signal."""
        assert self.process is not None
        return self.process.wait(seconds)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def __enter__(self) -> SinkProcess:
        """The started process."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Nothing is left behind, whatever the test found."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


def eventually(holds: Callable[[], bool], *, seconds: float = 60, what: Callable[[], str] = str) -> None:
    """Waits until it holds, or fails with what is there instead."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)
