"""Does `kafka-s3 restore` bring back whatever may be chosen of a real bucket, as it was? Read back from Kafka by a plain consumer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.configurations import BASE
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, committed_records, document, produce

HOUR_MS = 3_600_000
T0_MS = 1_736_935_200_000  # 2025-01-15T10:00:00Z
RECORDS = 30
STRING = "org.apache.kafka.connect.storage.StringConverter"
KEPT = {
    "store.kafka.keys": "true", "keys.format.class": BASE["format.class"], "key.converter": STRING,
    "store.kafka.headers": "true", "headers.format.class": BASE["format.class"], "header.converter": STRING,
}  # fmt: skip
BLOCKS = {
    "format.class": "block_gzip", "block.gzip.format": "binary", "block.gzip.include.keys": "true", "key.converter": STRING,
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "rotate.schedule.interval.ms": "1800000", "timezone": "UTC",
}  # fmt: skip


def given(topic: str, partition: int) -> list[Given]:
    """Ten records an hour, each with a key, a header that stands twice, and a value of its own."""
    return [
        Given(
            document(n=n, at=f"{topic}-{partition}"), partition, T0_MS + n // 10 * HOUR_MS, b"k%d" % (n % 7),
            (("trace", b"%d" % n), ("trace", b"again"), ("ü", "ß".encode())),
        )
        for n in range(RECORDS)
    ]  # fmt: skip


class Restores:
    """`kafka-s3 restore` of one configuration."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.words = ["restore", str(path), "--yes", "--output", "json"]
        self.servers = config["kafka.bootstrap.servers"]
        path.write_text(json.dumps(config))

    def to(self, target: str, *words: str) -> dict[str, Any]:
        """What the command says."""
        done = CliRunner().invoke(app, [*self.words, "--to-topic", target, *words])
        assert done.exit_code == 0, done.output
        document: dict[str, Any] = json.loads(done.stdout)
        assert all(one["written"] == (one["records"] or one["written"]) > 0 for one in document["partitions"])
        return document

    def found(self, target: str, partition: int = 0) -> list[Given]:
        return committed_records(self.servers, target, partition)


@pytest.fixture
def config(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str) -> dict[str, Any]:
    own = {"name": "lake", "s3.bucket.name": bucket, "store.url": s3.endpoint_url, "flush.size": "10"}
    return {**BASE, **own, "kafka.bootstrap.servers": kafka.bootstrap_servers}


def test_a_bucket_a_partition_offsets_and_times_come_back_with_keys_headers_and_times(
    config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, items = topic("orders", partitions=2), topic("items")
    places = [(orders, 0), (orders, 1), (items, 0)]
    for name, partition in places:
        produce(config["kafka.bootstrap.servers"], name, given(name, partition))
    config |= {**KEPT, "topics": f"{orders},{items}"}
    drain_directly(config)
    restores = Restores(tmp_path / "lake.json", config)

    notes = restores.to("all-${topic}")["notes"]
    assert notes == [
        "Values come back as the JSON that was written: the same document, blanks and the form of numbers as in the object.",
        "Bytes that are not UTF-8 in keys, header values come back with U+FFFD in the place of these bytes, as the objects hold them; "
        "such records are counted.",
    ]
    for name, partition in places:
        assert restores.found(f"all-{name}", partition) == given(name, partition)

    one = f"offsets-{orders}"
    restores.to(one, "--topic", orders, "--partition", "1", "--from", "5", "--to", "24")
    assert restores.found(one, 1) == given(orders, 1)[5:25]
    assert restores.found(one, 0) == []

    hours = f"hours-{items}"
    restores.to(hours, "--topic", items, "--since", "2025-01-15T11:00:00Z", "--until", "2025-01-15T12:00:00Z")
    assert restores.found(hours) == given(items, 0)[10:20]


def test_a_connectors_objects_and_block_gzip_come_back_by_their_names(
    config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    foreign, blocks = topic("foreign"), topic("blocks")
    client = boto3.client(
        "s3", endpoint_url=config["store.url"], region_name=REGION, aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip
    records = given(foreign, 0)
    for begin in (0, 10, 20):
        name = f"topics/{foreign}/partition=0/{foreign}+0+{begin:010d}"
        file = records[begin : begin + 10]
        for key, lines in (
            (f"{name}.json", [one.value or b"" for one in file]),
            (f"{name}.keys.json", [b'"%s"' % (one.key or b"") for one in file]),
        ):
            client.put_object(Bucket=config["s3.bucket.name"], Key=key, Body=b"".join(line + b"\n" for line in lines))
    connector = Restores(
        tmp_path / "connector.json", {**config, "topics": foreign, "name": "connector", "key.converter": STRING}
    )
    reported = connector.to(f"named-{foreign}", "--by-name")
    assert any("times" in note and "headers" not in note for note in reported["notes"])
    plain = [replace(one, headers=(), timestamp_ms=0) for one in records]
    assert [replace(one, timestamp_ms=0) for one in connector.found(f"named-{foreign}")] == plain

    produce(config["kafka.bootstrap.servers"], blocks, given(blocks, 0))
    del config["flush.size"]
    config |= {**BLOCKS, "name": "blocks", "topics": blocks}
    drain_directly(config)
    packed, pairs = Restores(tmp_path / "blocks.json", config), [(one.key, one.value) for one in given(blocks, 0)]
    for target, words in ((f"logged-{blocks}", ()), (f"named-{blocks}", ("--by-name",))):
        packed.to(target, *words)
        assert [(one.key, one.value) for one in packed.found(target)] == pairs
