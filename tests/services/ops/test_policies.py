"""Is the printed policy what a sink really asks for? Every request of real runs, recorded on the way, is allowed; every right was used.

What S3 makes of a request is written down here a second time, after AWS's own table of operations and permissions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.connect.schemas.avro_values import long_bytes
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import Fenced
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.policies import rewriting_policy, sink_policy
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.configurations import BASE as PLAIN
from tests.support.configurations import TIME, TOLERANT
from tests.support.direct_sink import drain_directly
from tests.support.glue_server import GlueServer
from tests.support.kafka import Given, produce
from tests.support.memory_world import ORDERS, START_MS, settings_of
from tests.support.repository import ROOT
from tests.support.rewriting import ask_for_compaction
from tests.support.s3_proxy import COMPLETION, Proxy, Refuse, Request, Rule, Which

HOUR_MS = 3_600_000
ACCOUNT = "123456789012"
SCHEMA = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
FORMATS = "io.confluent.connect.s3.format."
CONFIGS: dict[str, dict[str, str | None]] = {
    "json with tags and an ACL": {
        "s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "team:lake", "s3.acl.canned": "bucket-owner-full-control",
        "tail.state.enable": "false", **TOLERANT,
    },
    "a Delta table": {
        "format.class": FORMATS + "parquet.ParquetFormat", "value.schema.inference": "true", "delta.enable": "true",
        "tail.state.enable": "false",
    },
    "open files that are kept": {
        "tail.state.enable": "true", "tail.read.records": "1", "tail.read.bytes": "1", "heartbeat.interval.ms": "60000",
    },
    "schemas in AWS Glue": {
        "value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
        "value.converter.schemas.enable": None, "value.converter.region": REGION, "tail.state.enable": "false",
    },
    "followers": {
        **TIME, "glue.database.name": "followed", "done.marker.name": "_SUCCESS", "notification.class": "sqs", "tail.state.enable": "false",
    },
    "messages to a topic of SNS": {"notification.class": "sns", "tail.state.enable": "false"},
}  # fmt: skip

TARGETS: dict[str, Callable[[str, str], str]] = {
    "sqs": lambda url, name: f"{url}/{ACCOUNT}/{name}",
    "sns": lambda _, name: f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}",
}


def action(request: Request) -> str:
    """The permission that a request needs."""
    if request.target:  # AWSGlue.GetTable, AmazonSQS.SendMessage, sns.Publish
        service, _, operation = request.target.partition(".")
        return f"{service.removeprefix('AWS').removeprefix('Amazon').lower()}:{operation}"
    if not request.key:
        return "s3:ListBucketMultipartUploads" if "uploads" in request.query else "s3:ListBucket"
    match request.method:
        case "GET" | "HEAD":
            return "s3:ListMultipartUploadParts" if "uploadId" in request.query else "s3:GetObject"
        case "DELETE":
            return "s3:AbortMultipartUpload" if "uploadId" in request.query else "s3:DeleteObject"
        case _:
            return "s3:PutObjectTagging" if "tagging" in request.query else "s3:PutObject"


def allowed(statement: dict[str, Any], request: Request) -> bool:
    if request.target:
        return action(request) in statement["Action"]
    place = f"arn:aws:s3:::{request.bucket}" + (f"/{request.key}" if request.key else "")
    prefixes = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", ["*"])
    return (
        action(request) in statement["Action"]
        and any(fnmatchcase(place, resource) for resource in statement["Resource"])
        and (bool(request.key) or any(fnmatchcase(request.query.get("prefix", ""), one) for one in prefixes))
    )


class Recorded:
    """A sink whose every request goes by the proxy, those of delta-rs too."""

    def __init__(self, proxy: Proxy, bucket: str, config: dict[str, str | None]) -> None:
        places = {
            "store.url": proxy.url, "s3.bucket.name": bucket, "s3.region": REGION, "s3.retry.backoff.ms": "1",
            "aws.endpoint.url": proxy.url, "notification.target": TARGETS[config.get("notification.class") or "sqs"](proxy.url, bucket),
        }  # fmt: skip
        self.settings = settings_of({"flush.size": "4", **places, **config})
        self.now = START_MS
        self.store = S3Store(store_options(self.settings))
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        self.kafka.create(ORDERS)

    def opened(self) -> Sink:
        sink = build_sink(self.settings, self.kafka, source=self.kafka, store=self.store, clock_ms=lambda: self.now)
        sink.open()
        return sink

    def add(self, *values: bytes) -> None:
        for value in values:
            offset = len(self.kafka.records[ORDERS])
            self.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))


def client(s3: EmbeddedS3, service: str) -> Any:
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client(service, endpoint_url=s3.endpoint_url, region_name=REGION, **keys)


def in_json(**fields: int) -> bytes:
    return json.dumps(fields).encode()


def in_glue(version: UUID) -> Callable[..., bytes]:
    """Values as Glue's serializer writes them, of the field `n`."""
    return lambda n, **_: bytes([3, 0]) + version.bytes + long_bytes(n)


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_sink_asks_for_is_what_its_policy_allows(name: str, s3: EmbeddedS3, bucket: str) -> None:
    client(s3, "sqs").create_queue(QueueName=bucket)
    client(s3, "sns").create_topic(Name=bucket)
    if "glue.database.name" in CONFIGS[name]:
        client(s3, "glue").create_database(DatabaseInput={"Name": CONFIGS[name]["glue.database.name"]})
    with Proxy(s3.endpoint_url) as proxy, GlueServer(access_key=ACCESS_KEY) as glue, Proxy(glue.url) as registry:
        config, value = CONFIGS[name], in_json
        if "value.converter" in config:
            value = in_glue(glue.register(json.dumps(SCHEMA)))
            config = {**config, "value.converter.endpoint": registry.url}
        world = Recorded(proxy, bucket, config)
        first = world.opened()
        proxy.add(Rule(COMPLETION, Refuse(500, "InternalError")))
        world.add(*(value(n=n) for n in range(6)))
        if "errors.tolerance" in config:
            world.add(b"{broken")
        first.poll_and_commit()
        world.add(*(value(n=n, more=n) for n in range(20, 24)))
        world.now += HOUR_MS
        first.poll_and_commit()
        other = world.opened()
        world.add(*(value(n=n) for n in range(30, 34)))
        with pytest.raises(Fenced):
            first.poll_and_commit()
        other.poll_and_commit()
        world.store.close()
        policy = sink_policy(world.settings)["Statement"]
        requests = [*proxy.requests, *registry.requests]
    refused = [request for request in requests if not any(allowed(one, request) for one in policy)]
    assert refused == []
    granted = {right for one in policy for right in one["Action"]}
    headers_only = {"s3:PutObjectAcl"}  # wanted beside PutObject where a request carries an ACL
    assert granted - headers_only == {action(request) for request in requests}


def rewriting(proxy: Proxy, bucket: str) -> tuple[Recorded, Sink]:
    """A sink whose small files are put together, and a record and a dead letter of which are erased."""
    world = Recorded(proxy, bucket, {"tail.state.enable": "false", "rewrite.grace.ms": "0", **TOLERANT})
    sink = world.opened()
    world.add(*(in_json(n=n) for n in range(8)), b"{broken")
    sink.poll_and_commit()
    assert ask_for_compaction(world, world.store)
    sink.rewrites.look()
    sink.poll_and_commit()
    work = Forgetting(world.settings, world.store, subjects_of(None, "n = 3", None), lambda: world.now, pytest.fail)
    for request in work.requests(work.search()):
        ask_for_rewrite(world.store, work.log.paths, request)
    sink.rewrites.look()
    sink.poll_and_commit()
    world.now += HOUR_MS
    return world, sink


def test_what_a_sink_with_rewrites_asks_for_is_what_its_policy_allows(s3: EmbeddedS3, bucket: str) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        world, sink = rewriting(proxy, bucket)
        sink.poll_and_commit()
        assert sink.log.state.replaced == {}
        world.store.close()
        policy, requests = rewriting_policy(world.settings)["Statement"], list(proxy.requests)
    assert [request for request in requests if not any(allowed(one, request) for one in policy)] == []
    alone = sink_policy(world.settings)["Statement"]
    lacking = {action(request) for request in requests if not any(allowed(one, request) for one in alone)}
    assert lacking == {"s3:DeleteObject"}


def test_without_the_right_to_delete_originals_stay_and_the_sink_goes_on_until_it_has_it(
    s3: EmbeddedS3, bucket: str
) -> None:
    with Proxy(s3.endpoint_url) as proxy:
        world, sink = rewriting(proxy, bucket)
        proxy.add(Rule(Which("DELETE", key="^topics/"), Refuse(403, "AccessDenied"), times=None))
        before = len(list(world.store.list("topics/")))
        sink.poll_and_commit()
        assert len(list(world.store.list("topics/"))) == before
        world.add(*(in_json(n=n) for n in range(10, 14)))
        assert sink.poll_and_commit()
        proxy.clear()
        world.now += HOUR_MS
        sink.poll_and_commit()
        assert sink.log.state.replaced == {}
        assert len(list(world.store.list("topics/"))) == 2
        world.store.close()


def documented(bucket: str, start: str) -> list[dict[str, Any]]:
    """The statements of the policies in docs/security.md whose names begin so."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    page = page.replace("BUCKET", bucket).replace("/SINK/", "/*/")
    blocks = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    statements = [one for block in blocks for one in block["Statement"] if one["Sid"].startswith(start)]
    return [
        {**one, "Resource": [one["Resource"]] if isinstance(one["Resource"], str) else one["Resource"]}
        for one in statements
    ]


@pytest.mark.nightly
def test_what_other_commands_ask_for_is_what_the_documented_policies_allow(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, path = topic("asked"), tmp_path / "asked.json"
    produce(kafka.bootstrap_servers, name, [Given(in_json(n=n)) for n in range(8)])
    config = {
        **PLAIN, "name": "asked", "topics": name, "flush.size": "4", "s3.bucket.name": bucket, "store.url": s3.endpoint_url,
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    drain_directly(config)
    key = f"topics/{name}/partition=0/{name}+0+0000000004.json"
    looking = [["list", "--bucket", bucket], ["status", str(path)], ["check", str(path)]]
    reading = [
        ["verify", str(path)], ["explain", str(path), key], ["explain", str(path), f"{name}:0:5"], ["sweep", str(path)],
        ["ddl", str(path), "--engine", "duckdb"], ["restore", str(path), "--to-topic", f"{name}-back", "--yes"],
    ]  # fmt: skip
    for start, commands in (("Dashboard", looking), ("Maintenance", reading)):
        with Proxy(s3.endpoint_url) as proxy:
            path.write_text(json.dumps({**config, "store.url": proxy.url}))
            for words in commands:
                place = ["--store-url", proxy.url] if "--bucket" in words else []
                done = CliRunner().invoke(app, [*words, *place])
                assert done.exit_code == 0 or words[0] == "check", (words, done.output)  # which knows of no driver
            requests = list(proxy.requests)
        policy = documented(bucket, start)
        assert requests
        assert [one for one in requests if not any(allowed(statement, one) for statement in policy)] == []
