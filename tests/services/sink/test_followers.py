"""Do moto's Glue, SNS and SQS, and a webhook get what a sink has written?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest

from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.configurations import FIELD
from tests.support.memory_world import ORDERS, START_MS, settings_of


def ran(s3: EmbeddedS3, bucket: str, *rounds: list[dict[str, Any]], **config: str) -> None:
    """A sink that writes each round's records, one object each, and commits them; a new driver for each round."""
    places = {
        "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url,
        "aws.endpoint.url": s3.endpoint_url,
        "s3.region": REGION,
    }
    settings = settings_of({"flush.size": "1", **places, **config})
    store = S3Store(store_options(settings))
    kafka = MemoryKafka(lambda: make_pipeline(settings), store)
    kafka.create(ORDERS)
    for values in rounds:
        start = len(kafka.records[ORDERS])
        for number, value in enumerate(values):
            kafka.add(ORDERS, MemoryRecord(start + number, START_MS, None, json.dumps(value).encode()))
        sink = build_sink(settings, kafka, source=kafka, store=store, clock_ms=lambda: START_MS)
        sink.open()
        assert sink.poll_and_commit()


def client(s3: EmbeddedS3, service: str) -> Any:
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client(service, endpoint_url=s3.endpoint_url, region_name=REGION, **keys)


def test_glue_has_columns_and_partitions_after_each_commit(s3: EmbeddedS3, bucket: str) -> None:
    glue, database = client(s3, "glue"), f"followed-{bucket}"
    glue.create_database(DatabaseInput={"Name": database})
    first, second = [{"d": "a", "n": 1}, {"d": "b", "n": 2}], [{"d": "c", "n": 3, "text": "x"}]
    ran(s3, bucket, first, second, **{**FIELD, "glue.database.name": database})
    table = glue.get_table(DatabaseName=database, Name="orders")["Table"]
    assert {one["Name"]: one["Type"] for one in table["StorageDescriptor"]["Columns"]} == {
        "n": "bigint",
        "text": "string",
    }
    partitions = glue.get_partitions(DatabaseName=database, TableName="orders")["Partitions"]
    found = {one["Values"][0]: one["StorageDescriptor"]["Location"] for one in partitions}
    assert found == {d: f"s3://{bucket}/topics/orders/d={d}/" for d in "abc"}


def test_a_queue_gets_what_a_topic_is_sent(s3: EmbeddedS3, bucket: str) -> None:
    sns, sqs = client(s3, "sns"), client(s3, "sqs")
    queue = sqs.create_queue(QueueName=bucket)["QueueUrl"]
    ran(s3, bucket, [{"n": 1}], **{"notification.class": "sqs", "notification.target": queue})
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    (direct,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(direct["Body"])["objects"][0]["records"] == 1
    sqs.purge_queue(QueueUrl=queue)
    topic = sns.create_topic(Name=bucket)["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    ran(
        s3,
        bucket,
        [{"n": 1}],
        **{"name": "other", "topics.dir": "other", "notification.class": "sns", "notification.target": topic},
    )
    (through,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(json.loads(through["Body"])["Message"])["sink"] == "other"


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that takes JSON, but not the first time."""
    taken: list[dict[str, Any]] = []
    refused: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            (taken.append(json.loads(body)) if refused else refused.append(body))
            self.send_response(200 if taken else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_that_was_away_is_notified_by_the_next_driver(
    s3: EmbeddedS3, bucket: str, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, taken = webhook
    ran(s3, bucket, [{"n": 1}], [{"n": 2}], **{"notification.class": "webhook", "notification.target": url})
    assert [message["objects"][0]["first_offset"] for message in taken] == [0, 1]
