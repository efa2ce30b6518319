"""Does a failure stay where it happened, with a real Kafka, S3, registry and Spark? One topic fails for a while, the other must not notice.

Latencies of the healthy topic are printed: nothing is asserted of times.
"""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import fastavro

from kafka_s3.engine.loop.runner import run_continuously, waiting
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.process import start_daemon
from tests.support.http_server import Asked, HttpServer
from tests.support.kafka import Given, document, produce
from tests.support.observers import Warnings
from tests.support.s3_proxy import Proxy, Refuse, Rule, Which
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

BATCH = 10
QUICK = {
    "flush.size": str(BATCH), "tasks.max": "2", "s3.part.retries": "2", "s3.retry.backoff.ms": "50", "retry.backoff.ms": "500",
    "errors.retry.delay.max.ms": "2000", "errors.retry.timeout": "-1", "poll.interval.ms": "200",
}  # fmt: skip
SCHEMA: dict[str, Any] = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
GOOD_ID, BAD_ID = 1, 2


@dataclass
class Traffic:
    """Batches of records to topics, each of which becomes one file, and when each was sent."""

    here: Surroundings
    value: Callable[[str, int], bytes]
    sent: dict[str, int] = field(default_factory=Counter)
    at: dict[tuple[str, int], float] = field(default_factory=dict)

    def send(self, *topics: str) -> None:
        for topic in topics:
            first = self.sent[topic]
            values = [Given(self.value(topic, n), 0) for n in range(first, first + BATCH)]
            produce(self.here.servers, topic, values)
            self.at[topic, first] = time.monotonic()
            self.sent[topic] += BATCH

    def found(self, topic: str) -> list[int]:
        """The numbers of the topic's records in objects."""
        keys = [key for key in self.here.bucket.data_keys() if f"/{topic}/" in key]
        return sorted(row["n"] for key in keys for row in self.here.bucket.rows(key))

    def has_all(self, topic: str) -> bool:
        return self.found(topic) == list(range(self.sent[topic]))


@contextmanager
def running(sink: Sink) -> Iterator[None]:
    """The sink works in a thread until the block ends."""
    stop, ended = Event(), list[BaseException]()

    def run() -> None:
        try:
            run_continuously(
                sink, poll_ms=200, backoff_ms=500, longest_backoff_ms=2_000, wait=waiting(stop), stopped=stop.is_set
            )
        except BaseException as error:
            ended.append(error)

    thread = start_daemon(run, "sink")
    try:
        yield
    finally:
        stop.set()
        thread.join(120)
    assert ended == []


def pending(here: Surroundings) -> list[str]:
    """The keys of the uploads that are neither completed nor aborted."""
    listed = here.bucket.client.list_multipart_uploads(Bucket=here.bucket.name)
    return [upload["Key"] for upload in listed.get("Uploads", [])]


def watched(traffic: Traffic, healthy: str, failing: str, *, batches: int) -> list[float]:
    """Sends to both, and waits for what is healthy; how many seconds each of its batches took until it was visible."""
    latencies = []
    for _ in range(batches):
        traffic.send(healthy, failing)
        eventually(
            lambda: traffic.has_all(healthy), seconds=60, what=lambda: f"{traffic.found(healthy)} of {traffic.sent}"
        )
        latencies.append(time.monotonic() - traffic.at[healthy, traffic.sent[healthy] - BATCH])
    return latencies


def reported(latencies: list[float]) -> str:
    return ", ".join(f"{latency:.1f}" for latency in latencies)


def test_a_prefix_that_is_throttled_costs_its_own_topic_only(here: Surroundings, topic: Callable[..., str]) -> None:
    healthy, failing = topic("apart-healthy"), topic("apart-throttled")
    traffic, warnings = Traffic(here, lambda _, n: document(n=n)), Warnings()
    with Proxy(here.s3.endpoint_url) as proxy:
        config = here.config(f"{healthy},{failing}", **{**QUICK, "store.url": proxy.url})
        sink = here.sink(config, observer=warnings)
        with running(sink):
            traffic.send(healthy, failing)
            eventually(lambda: traffic.has_all(healthy) and traffic.has_all(failing))
            storm = proxy.add(Rule(Which(key=f"^topics/{failing}/"), Refuse(503, "SlowDown"), times=None))
            latencies = watched(traffic, healthy, failing, batches=6)
            print(f"seconds until the healthy topic's files were visible: {reported(latencies)}")

            eventually(lambda: any(str(sink.failures.known[tp].error) for tp in sink.failures.known))
            assert {tp.topic for tp in sink.failures.known} == {failing}
            assert traffic.found(failing) == list(range(BATCH))
            assert any(failing in text and "SlowDown" in text for text in sink.open_problems)
            proxy.clear()
            eventually(lambda: traffic.has_all(failing) and not sink.failures.known)
            assert storm.strikes
            eventually(lambda: pending(here) == [])
    assert traffic.has_all(healthy)
    assert any("the others go on" in text for text in warnings.texts)


def test_a_registry_that_hangs_for_one_subject_holds_no_other_topic(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    healthy, failing = topic("apart-registered"), topic("apart-hanging")
    hangs, hung = Event(), Event()

    def answer(asked: Asked) -> tuple[int, Any]:
        if f"/schemas/ids/{BAD_ID}" in asked.path and hangs.is_set():
            hung.wait(300)
        registered = {"subject": f"{healthy}-value", "version": 1, "id": GOOD_ID}
        return 200, {"schema": json.dumps(SCHEMA), **(registered if asked.path.startswith("/subjects") else {})}

    def value(topic: str, n: int) -> bytes:
        content = io.BytesIO()
        fastavro.schemaless_writer(content, SCHEMA, {"n": n})
        return b"\0" + (GOOD_ID if topic == healthy else BAD_ID).to_bytes(4, "big") + content.getvalue()

    traffic, registry, warnings = Traffic(here, value), HttpServer(answer), Warnings()
    registry.start()
    hangs.set()
    config = here.config(
        f"{healthy},{failing}",
        **{
            **QUICK,
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry.url,
            "task.timeout.ms": "15000",
        },
    )
    config.pop("value.converter.schemas.enable", None)
    sink = here.sink(config, observer=warnings)
    try:
        with running(sink):
            latencies = watched(traffic, healthy, failing, batches=4)
            print(f"seconds until the healthy topic's files were visible: {reported(latencies)}")
            assert any(f"{failing}-0" in text and "task.timeout.ms" in text for text in warnings.texts), warnings.texts
            assert traffic.found(failing) == []
            hangs.clear()
            hung.set()
            eventually(lambda: traffic.has_all(failing) and not sink.failures.known)
            eventually(lambda: pending(here) == [])
    finally:
        hangs.clear()
        hung.set()
        registry.stop()
    assert traffic.has_all(healthy)
