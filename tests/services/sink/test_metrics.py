"""What do Prometheus and an OpenTelemetry collector get of a sink that works on Spark? Everything that the examples ask for."""

from __future__ import annotations

import gzip
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.errors import SinkError
from kafka_s3.model.timing import now_ms
from kafka_s3.run.metrics.sink_metrics import INSTRUMENTS
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.running import metering, open_session, run_until_drained
from kafka_s3.state import states_on_spark
from kafka_s3_testing.services.process import free_ports
from tests.support.kafka import Given, document, produce
from tests.support.metrics import named_in_examples, panels
from tests.support.prometheus import prometheus
from tests.support.state_world import STATE
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

HOURLY = {
    "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner", "locale": "en", "timezone": "UTC",
    "timestamp.extractor": "Record", "rotate.interval.ms": "3600000", "errors.tolerance": "all", "flush.size": "2",
}  # fmt: skip


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportMetricsServiceRequest]]]:
    """A collector's address, and what it was sent."""
    messages: list[ExportMetricsServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            messages.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body) if packed else body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", messages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Metered:
    """A topic with three records and a dead letter of which a file is committed and one record is in an open one; its sink's port."""

    topic: str
    port: int


@contextmanager
def metered(here: Surroundings, topic: str, **options: str) -> Iterator[Metered]:
    """While the sink is there, with all done that can be."""
    (port,) = free_ports(1)
    produce(here.servers, topic, [*(Given(document(n=n)) for n in range(2)), Given(b"{broken"), Given(document(n=3))])
    kept = {**STATE, "state.table": "metered.${topic}", "state.run.on": "sink", "state.interval.ms": "0"}
    config = here.config(topic, **HOURLY, **kept, **{"metrics.prometheus.port": str(port)}, **options)
    settings = resolved(validate(config).usable())
    here.spark.sql("CREATE SCHEMA IF NOT EXISTS metered")
    with (
        metering([settings]) as meters,
        open_session(settings, clock_ms=now_ms, meters=meters) as sink_session,
    ):
        sink = sink_on_spark(
            settings, here.spark, observer=sink_session.observer, store=sink_session.store, states=states_on_spark
        )
        run_until_drained(sink, settings, Event(), channel=sink_session.channel)
        yield Metered(topic, port)
        with pytest.raises(SinkError, match=r"metrics\.prometheus\.port"), metering([settings]):
            pass


def test_prometheus_and_a_collector_get_all_that_the_dashboard_and_the_rules_ask_for(
    here: Surroundings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("metered")
    with collector() as (url, messages):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with (
            metered(here, name, **{"metrics.otlp.enable": "true"}) as sink,
            urllib.request.urlopen(f"http://127.0.0.1:{sink.port}/metrics", timeout=30) as answer,
        ):
            page = answer.read().decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    assert named_in_examples() <= {sample.name for sample in samples}

    def total(metric: str, **labels: str) -> float:
        return sum(one.value for one in samples if one.name == metric and labels.items() <= one.labels.items())

    assert total("kafka_s3_records_total", topic=name, result="written") == 2
    assert total("kafka_s3_dead_letters_total", topic=name, stage="VALUE_CONVERTER") == 1
    assert total("kafka_s3_lag_records", topic=name) == 2, "an open record, and the dead letter in front of it"
    assert total("kafka_s3_request_seconds_count", operation="upload_part") >= 1, "sent by a task of Spark"
    assert total("kafka_s3_request_seconds_count", operation="complete_multipart_upload") == 2, "sent by the driver"
    assert total("kafka_s3_phase", phase="running") == 1
    last = messages[-1].resource_metrics[0].scope_metrics[0].metrics
    assert {one.name for one in last} == {one.name for one in INSTRUMENTS}
    phases = {
        next(tag.value.string_value for tag in point.attributes if tag.key == "phase"): point.as_int
        for one in last
        if one.name == "kafka_s3_phase"
        for point in one.gauge.data_points
    }
    assert phases["stopped"] == 1, "the last message is sent when the sink has ended"


def test_a_real_prometheus_loads_the_rules_and_answers_every_query_of_the_dashboard(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    with metered(here, topic("scraped")) as sink, prometheus(tmp_path, sink.port) as server:
        eventually(lambda: bool(server.samples("rate(kafka_s3_records_total[1m])")), what=lambda: "no two looks")
        assert [one for one in panels() if not server.samples(one)] == []
        eventually(
            lambda: server.rules()["KafkaS3DeadLetters"]["state"] == "firing",
            what=lambda: "the first dead letter of a topic is an alert, too",
        )
        rules = server.rules()
    assert {rule["health"] for rule in rules.values()} == {"ok"}
    states = {name: rule["state"] for name, rule in rules.items() if rule["state"] != "inactive"}
    assert states == {"KafkaS3DeadLetters": "firing", "KafkaS3LateRecords": "pending"}, "the records are of last year"
