"""Is the printed policy what a sink really asks for? Every request of real runs, recorded on the way, is allowed; every right was used.

What S3 makes of a request is written down here a second time, after AWS's own table of operations and permissions.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import boto3
import pytest

from kafka_s3.driver.sink import Sink
from kafka_s3.local.memory import MemoryKafka, MemoryRecord
from kafka_s3.local.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from kafka_s3.model.errors import Fenced
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.tools.iam import sink_policy
from kafka_s3.wiring.pipeline import make_pipeline
from kafka_s3.wiring.sink import build_sink
from tests.support.configurations import TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, settings_of
from tests.support.s3_proxy import COMPLETION, Proxy, Refuse, Request, Rule

HOUR_MS = 3_600_000
FORMATS = "io.confluent.connect.s3.format."
CONFIGS = {
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
    "followers": {
        **TIME, "glue.database.name": "followed", "done.marker.name": "_SUCCESS", "notification.class": "sqs", "tail.state.enable": "false",
    },
}  # fmt: skip


def action(request: Request) -> str:
    """The permission that a request needs."""
    if request.target:  # AWSGlue.GetTable, AmazonSQS.SendMessage
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

    def __init__(self, proxy: Proxy, bucket: str, config: dict[str, str]) -> None:
        places = {
            "store.url": proxy.url, "s3.bucket.name": bucket, "s3.region": REGION, "s3.retry.backoff.ms": "1",
            "aws.endpoint.url": proxy.url, "notification.target": f"{proxy.url}/123456789012/{bucket}",
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


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_sink_asks_for_is_what_its_policy_allows(name: str, s3: EmbeddedS3, bucket: str) -> None:
    client(s3, "sqs").create_queue(QueueName=bucket)
    if "glue.database.name" in CONFIGS[name]:
        client(s3, "glue").create_database(DatabaseInput={"Name": CONFIGS[name]["glue.database.name"]})
    with Proxy(s3.endpoint_url) as proxy:
        world = Recorded(proxy, bucket, CONFIGS[name])
        first = world.opened()
        proxy.add(Rule(COMPLETION, Refuse(500, "InternalError")))
        world.add(*(json.dumps({"n": n}).encode() for n in range(6)))
        if "errors.tolerance" in CONFIGS[name]:
            world.add(b"{broken")
        first.cycle()
        world.add(*(json.dumps({"n": n, "more": n}).encode() for n in range(20, 24)))
        world.now += HOUR_MS
        first.cycle()
        other = world.opened()
        world.add(*(json.dumps({"n": n}).encode() for n in range(30, 34)))
        with pytest.raises(Fenced):
            first.cycle()
        other.cycle()
        world.store.close()
        policy = sink_policy(world.settings)["Statement"]
        requests = list(proxy.requests)
    refused = [request for request in requests if not any(allowed(one, request) for one in policy)]
    assert refused == []
    granted = {right for one in policy for right in one["Action"]}
    headers_only = {"s3:PutObjectAcl"}  # wanted beside PutObject where a request carries an ACL
    assert granted - headers_only == {action(request) for request in requests}
