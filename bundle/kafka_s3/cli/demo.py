"""`kafka-s3 demo`: what does the product do? Real Kafka, an S3 server and a schema registry on this machine, and sinks between them."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from kafka_s3.cli.display import ProgressObserver, bucket_tree, totals_table
from kafka_s3.cli.shipped import shipped
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import resolved, validate
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending
from kafka_s3.local import orders, shipments
from kafka_s3.local.kafka import EmbeddedKafka
from kafka_s3.local.registry import EmbeddedRegistry
from kafka_s3.local.s3 import EmbeddedS3
from kafka_s3.model.clock import now_ms
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import Message
from kafka_s3.wiring.running import attended, run_until_drained, stop_on_signals

CONFIGS = ("examples/orders.json", "examples/shipments.json")
SHIPMENTS_PER_ORDER = shipments.DEFAULT_COUNT / orders.DEFAULT_COUNT
TOPICS = (*orders.TOPICS, shipments.TOPIC)
REGISTRY_KEY = "value.converter.schema.registry.url"


@dataclass(frozen=True)
class DemoServices:
    """What the demo starts."""

    kafka: EmbeddedKafka
    s3: EmbeddedS3
    registry: EmbeddedRegistry

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the quick starts' configurations refer to, and those of AWS clients."""
        s3 = {"S3": self.s3.endpoint_url, "AWS_ENDPOINT_URL_S3": self.s3.endpoint_url, **self.s3.environment}
        return {"KAFKA": self.kafka.bootstrap_servers, "REGISTRY": self.registry.url, **s3}

    def keys(self, raw: Mapping[str, str]) -> dict[str, str]:
        """The keys of a configuration that say where the services are."""
        registry = {REGISTRY_KEY: self.registry.url} if REGISTRY_KEY in raw else {}
        return {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "store.url": self.s3.endpoint_url, **registry}


def demo(
    records: Annotated[
        int,
        typer.Option(help="How many orders and payments to produce, and a tenth as many shipments. 0: only services."),
    ] = orders.DEFAULT_COUNT,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Kafka, S3 and registry running until Ctrl-C.")] = False,
    config: Annotated[list[Path] | None, typer.Option(help="A sink's configuration; by default two examples.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Then serve the dashboard of the first sink's bucket until Ctrl-C.")
    ] = False,
) -> None:
    """Start Kafka, S3 and a schema registry, produce orders in JSON and shipments in Avro (some broken), and run sinks on them."""
    from kafka_s3.config.read import read_config

    out = Console()
    sinks = {path: read_config(path).texts for path in (config or map(shipped, CONFIGS))} if records else {}
    out.print("[bold]1[/] starting Kafka (KRaft, one node), S3 and a schema registry ...")
    with _services() as services:
        os.environ.update(services.s3.environment)
        places = {
            "Kafka": services.kafka.bootstrap_servers,
            "S3": services.s3.endpoint_url,
            "registry": services.registry.url,
        }
        for name, place in places.items():
            out.print(f"  {name} at {place}", highlight=False)
        if sinks:
            malformed = _produce(out, services, records)
            _run(out, services, sinks, malformed=malformed)
        _next_steps(out, services, sinks, keep or dashboard)
        if dashboard or keep:
            with _dashboard(services, sinks) if dashboard and sinks else nullcontext():
                _wait_for_ctrl_c()


@contextmanager
def _dashboard(services: DemoServices, sinks: Mapping[Path, dict[str, str]]) -> Iterator[None]:
    """The dashboard's server, while the body runs."""
    path, raw = next(iter(sinks.items()))
    keys = [word for key, value in services.keys(raw).items() for word in ("--set", f"{key}={value}")]
    server = subprocess.Popen([sys.executable, "-m", "kafka_s3", "dashboard", str(path), *keys])
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _wait_for_ctrl_c() -> None:
    stop = Event()
    stop_on_signals(stop)
    stop.wait()


@contextmanager
def _services() -> Iterator[DemoServices]:
    with ExitStack() as stack:
        kafka, s3 = stack.enter_context(EmbeddedKafka()), stack.enter_context(EmbeddedS3())
        yield DemoServices(kafka, s3, stack.enter_context(EmbeddedRegistry()))


def _produce(out: Console, services: DemoServices, count: int) -> Counter[str]:
    """Sends everything; how many records of each topic were broken on purpose."""
    of_shipments = round(count * SHIPMENTS_PER_ORDER)
    total = count + of_shipments
    out.print(f"[bold]2[/] producing {total:,} records to {', '.join(TOPICS)} ...", highlight=False)
    brokers = KafkaBrokers(services.kafka.bootstrap_servers)
    for topic in TOPICS:
        brokers.create_topic(topic, partitions=orders.PARTITIONS, config={"retention.ms": "-1"})
    ids = shipments.register_shipments(services.registry)
    records = itertools.chain(orders.demo_records(count), shipments.shipment_records(ids, of_shipments))
    malformed: Counter[str] = Counter()
    with sending(brokers.clients) as send:
        for record in track(records, total=total, description="  producing", console=out):
            message = Message(record.key, record.value, record.headers, record.timestamp_ms)
            send(record.topic, message, partition=record.partition)
            malformed[record.topic] += record.malformed
    return malformed


def _run(
    out: Console, services: DemoServices, sinks: Mapping[Path, dict[str, str]], *, malformed: Mapping[str, int]
) -> None:
    from kafka_s3.spark.session import spark_session

    settings = {path: resolved(validate({**raw, **services.keys(raw)}).usable()) for path, raw in sinks.items()}
    spark = spark_session(name="kafka-s3 demo")
    stop = Event()
    stop_on_signals(stop)
    try:
        for step, (path, sink) in enumerate(settings.items(), start=3):
            if stop.is_set():
                return
            out.print(f"[bold]{step}[/] running the sink of {_shown(path)} ...", highlight=False)
            services.s3.create_bucket(sink.text("s3.bucket.name"))
            _drain(out, sink, stop, malformed=sum(malformed.get(topic, 0) for topic in sink.names("topics")))
    finally:
        spark.stop()


def _drain(out: Console, settings: Settings, stop: Event, *, malformed: int) -> None:
    """Runs a sink until the topics are worked off, then shows its bucket and its log's totals."""
    from kafka_s3.spark.launch import sink_on_spark
    from kafka_s3.spark.session import spark_session

    began = time.monotonic()
    with ProgressObserver(out) as bar, attended(settings, observer=bar, clock_ms=now_ms) as attendance:
        sink = sink_on_spark(settings, spark_session(name=settings.name), observer=attendance.heartbeat)
        run_until_drained(sink, settings, stop, close=Reason.FLUSH_NOW, channel=attendance.channel)
    seconds = time.monotonic() - began
    out.print(bucket_tree(settings.text("s3.bucket.name"), sink.store.list("")))
    out.print(totals_table(sink.log.state))
    rate = sink.log.state.totals.read / seconds
    out.print(f"  {rate:,.0f} records/s; {malformed:,} records were broken on purpose", highlight=False)


def _shown(path: Path) -> Path:
    """The path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _next_steps(out: Console, services: DemoServices, sinks: Mapping[Path, dict[str, str]], keep: bool) -> None:
    out.print("\n[bold]Next[/]")
    for path in map(_shown, itertools.islice(sinks, 1)):
        worker = _shown(shipped("examples/worker.properties"))
        out.print(
            f"  kafka-s3 validate {path} --worker {worker}   # every problem of a configuration at once",
            highlight=False,
            soft_wrap=True,
        )
    if not keep:
        out.print(
            "  kafka-s3 demo --keep                              # leave the services up, to try the other commands on them"
        )
        return
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in services.environment.items())
    out.print(f"  export {exports}", highlight=False, soft_wrap=True)
    for path, raw in zip(map(_shown, sinks), sinks.values(), strict=True):
        registry = f" --set {REGISTRY_KEY}=$REGISTRY" if REGISTRY_KEY in raw else ""
        out.print(
            f"  kafka-s3 run {path} --set kafka.bootstrap.servers=$KAFKA --set store.url=$S3{registry}",
            highlight=False,
            soft_wrap=True,
        )
    out.print("Kafka, S3 and registry stay up until Ctrl-C.")
