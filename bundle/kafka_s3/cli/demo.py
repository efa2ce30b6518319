"""`kafka-s3 demo`: what does the product do? Real Kafka, an S3 server and a schema registry on this machine, and sinks between them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from kafka_s3.cli.dashboard import app_file
from kafka_s3.cli.demo_text import REGISTRY_KEY, shown, tell_checked, tell_made, tell_next
from kafka_s3.cli.display import ProgressObserver, progress_bar
from kafka_s3.cli.shipped import shipped
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.commands import CommandChannel
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending
from kafka_s3.model.files import Reason
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import Observer
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.verify.audit import audit_of, kafka_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.run.spark.process import SharedSession
from kafka_s3.run.spark.session import spark_session
from kafka_s3.run.wiring.running import attended, run_until_drained, stop_on_signals
from kafka_s3.testing.services import orders, shipments
from kafka_s3.testing.services.kafka import EmbeddedKafka
from kafka_s3.testing.services.process import free_ports
from kafka_s3.testing.services.registry import EmbeddedRegistry
from kafka_s3.testing.services.s3 import EmbeddedS3

CONFIGS = ("examples/orders.json", "examples/shipments.json")
SHIPMENTS_PER_ORDER = shipments.DEFAULT_COUNT / orders.DEFAULT_COUNT
FIRST = 20
"""This part of all records is sent before the sinks get going."""
QUIET = {"errors.log.enable": "false", "kafka.reader": "tasks"}
TOPICS = (*orders.TOPICS, shipments.TOPIC)


@dataclass(frozen=True)
class DemoServices:
    """What the demo starts."""

    kafka: EmbeddedKafka
    s3: EmbeddedS3
    registry: EmbeddedRegistry

    @contextmanager
    def running(self) -> Iterator[None]:
        """All of them while the body runs; they start side by side. Raises LocalServiceError."""
        servers = self.kafka, self.s3, self.registry
        with ExitStack() as stack:
            for server in servers:
                stack.callback(server.stop)
            with ThreadPool(len(servers)) as pool:
                list(pool.map(lambda server: server.start(), servers))
            yield

    @property
    def places(self) -> dict[str, str]:
        """Where each of them is."""
        return {"Kafka": self.kafka.bootstrap_servers, "S3": self.s3.endpoint_url, "registry": self.registry.url}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the quick starts' configurations refer to, and those of AWS clients."""
        s3 = {"S3": self.s3.endpoint_url, "AWS_ENDPOINT_URL_S3": self.s3.endpoint_url, **self.s3.environment}
        return {"KAFKA": self.kafka.bootstrap_servers, "REGISTRY": self.registry.url, **s3}

    def keys(self, raw: Mapping[str, str]) -> dict[str, str]:
        """The keys of a configuration that say where the services are; what a log line would say of a record, the demo says at the end."""
        registry = {REGISTRY_KEY: self.registry.url} if REGISTRY_KEY in raw else {}
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "store.url": self.s3.endpoint_url,
            **registry,
            **QUIET,
        }


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
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Where the dashboard listens; default: 8501, or the next one that is free."
        ),
    ] = None,
) -> None:
    """Start Kafka, S3 and a schema registry, produce orders in JSON and shipments in Avro (some broken), and run sinks on them."""
    from kafka_s3.connect.config.read import read_config

    out = Console()
    sinks = {path: read_config(path).texts for path in (config or map(shipped, CONFIGS))} if records else {}
    kafka, s3, registry = free_ports(3)
    services = DemoServices(EmbeddedKafka(kafka), EmbeddedS3(s3), EmbeddedRegistry(registry))
    os.environ.update(services.s3.environment)
    settings = _checked(services, sinks, dashboard=dashboard)
    with ExitStack() as stack:
        with closing(SharedSession(lambda: spark_session(name="kafka-s3 demo"), sinks=1)) as session:
            if sinks:
                session.begin()  # beside the services
            out.print("[bold]1[/] starting Kafka (KRaft, one node), S3 and a schema registry ...")
            stack.enter_context(services.running())
            for name, place in services.places.items():
                out.print(f"  {name} at {place}", highlight=False)
            if sinks:
                _make(out, services, session, settings, count=records)
        tell_next(out, sinks, services.environment, stays=keep or dashboard)
        if dashboard or keep:
            with _dashboard(services, sinks, port) if dashboard and sinks else nullcontext():
                _wait_for_ctrl_c()


def _checked(services: DemoServices, sinks: Mapping[Path, dict[str, str]], *, dashboard: bool) -> dict[Path, Settings]:
    """The sinks' settings. Raises ConfigError, before anything starts, where one cannot be used or a package is missing."""
    if dashboard:
        app_file()
    return {path: resolved(validate({**raw, **services.keys(raw)}).usable()) for path, raw in sinks.items()}


@contextmanager
def _dashboard(services: DemoServices, sinks: Mapping[Path, dict[str, str]], port: int | None) -> Iterator[None]:
    """The dashboard's server, while the body runs."""
    path, raw = next(iter(sinks.items()))
    keys = [word for key, value in services.keys(raw).items() for word in ("--set", f"{key}={value}")]
    where = [] if port is None else ["--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "kafka_s3", "dashboard", str(path), *keys, *where])
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _wait_for_ctrl_c() -> None:
    stop = Event()
    stop_on_signals(stop)
    stop.wait()


def _make(
    out: Console, services: DemoServices, session: SharedSession, settings: Mapping[Path, Settings], *, count: int
) -> None:
    """Sends a few records, on which the sinks get going, then all others: what they then do in a second is what they do every day."""
    from kafka_s3.run.spark.launch import sink_on_spark  # loads pyspark

    def told(text: str) -> None:
        out.print(text, highlight=False)

    records, stop = _Records(services, count), Event()
    told(f"[bold]2[/] producing the first {records.coming(count // FIRST):,} records to {', '.join(TOPICS)} ...")
    with progress_bar(out) as bar:
        records.send(bar, count // FIRST)
    told("[bold]3[/] waiting for Spark ...")
    spark = session.of("demo")
    stop_on_signals(stop)
    with ExitStack() as stack:
        told(f"[bold]4[/] the sinks of {' and '.join(str(shown(path)) for path in settings)} get going ...")
        told(f"  meanwhile producing the other {records.coming(count):,} records")
        with progress_bar(out) as bar, ThreadPool(len(settings)) as pool:
            start = partial(_start, services, stack, bar, lambda one, told: sink_on_spark(one, spark, observer=told))
            running = [start(path, one) for path, one in settings.items()]
            drained = pool.map(lambda sink: sink.drain(stop), running)
            records.send(bar, count)
            list(drained)
        for step, sink in enumerate(running, start=5):
            if not stop.is_set():
                told(f"[bold]{step}[/] running the sink of {shown(sink.path)} ...")
                with progress_bar(out) as bar:
                    sink.observer.moves_to(bar)
                    sink.drain(stop)
                sink.tell(out, records.malformed)


def _start(
    services: DemoServices,
    stack: ExitStack,
    bar: Progress,
    made: Callable[[Settings, Observer], Sink],
    path: Path,
    settings: Settings,
) -> _RunningSink:
    """A sink with its bucket, and with a heartbeat as long as `stack` is open."""
    services.s3.create_bucket(settings.text("s3.bucket.name"))
    observer = ProgressObserver(bar)
    attendance = stack.enter_context(attended(settings, observer=observer, clock_ms=now_ms))
    return _RunningSink(path, settings, observer, made(settings, attendance.heartbeat), attendance.channel)


class _Records:
    """What is left to be sent, and how many records of each topic were broken on purpose so far."""

    def __init__(self, services: DemoServices, count: int) -> None:
        self._brokers = KafkaBrokers(services.kafka.bootstrap_servers)
        for topic in TOPICS:
            self._brokers.create_topic(topic, partitions=orders.PARTITIONS, config={"retention.ms": "-1"})
        ids = shipments.register_shipments(services.registry)
        of_shipments = round(count * SHIPMENTS_PER_ORDER)
        self._left = {orders.demo_records(count): count, shipments.shipment_records(ids, of_shipments): of_shipments}
        self._share = of_shipments / max(count, 1)
        self.malformed: Counter[str] = Counter()

    def coming(self, most: int) -> int:
        """How many records `send` sends."""
        return sum(min(wanted, self._left[one]) for one, wanted in self._wanted(most).items())

    def send(self, bar: Progress, most: int) -> None:
        """Sends up to so many orders and payments, and shipments to go with them."""
        wanted, total = self._wanted(most), self.coming(most)
        portion = itertools.chain.from_iterable(itertools.islice(one, number) for one, number in wanted.items())
        task = bar.add_task("producing", total=total, told="", left="")
        with sending(self._brokers.clients) as send:
            for record in bar.track(portion, total=total, task_id=task):
                send(record.topic, record.message, partition=record.partition)
                if record.malformed:
                    self.malformed[record.topic] += 1
        self._left = {one: max(left - wanted[one], 0) for one, left in self._left.items()}

    def _wanted(self, most: int) -> dict[Iterator[orders.DemoRecord], int]:
        return dict(zip(self._left, (most, round(most * self._share)), strict=True))


@dataclass(frozen=True)
class _RunningSink:
    """A sink that is run again and again, with its heartbeat in between."""

    path: Path
    settings: Settings
    observer: ProgressObserver
    sink: Sink
    channel: CommandChannel

    def drain(self, stop: Event) -> None:
        """Works off what is in Kafka, to the last record."""
        run_until_drained(self.sink, self.settings, stop, close=Reason.FLUSH_NOW, channel=self.channel)

    def tell(self, out: Console, malformed: Mapping[str, int]) -> None:
        """What is in the bucket, and whether it is all that was sent."""
        tell_made(out, self.settings, self.sink.store, self.sink.log.state)
        out.print(f"  {self.observer.rate:,.0f} records/s", highlight=False)
        report = audit_of(self.settings, SegmentSelection(), kafka=kafka_of(self.settings)).run()
        topics = self.settings.names("topics")
        tell_checked(out, report, malformed=sum(malformed.get(topic, 0) for topic in topics))
