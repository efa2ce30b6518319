"""`kafka-s3 demo`: what does the product do? Real Kafka, an S3 server and a schema registry on this machine, and sinks between them."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from kafka_s3.cli.dashboard import app_file, shipped
from kafka_s3.cli.display import (
    ProgressObserver,
    bucket_tree,
    console,
    progress_bar,
    show_line,
    styled,
    totals_table,
    totals_verdict,
)
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
from kafka_s3.ops.verify.audit import audit_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.spark.process import SharedSession
from kafka_s3.run.spark.session import delta_session, spark_session
from kafka_s3.run.wiring.clients import plain_reader
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.run.wiring.running import open_session, run_until_drained, stop_on_signals
from kafka_s3_testing.demo_state import CONFIG, show_states
from kafka_s3_testing.services.demo_records import (
    ORDERS_COUNT,
    ORDERS_TOPICS,
    PARTITIONS,
    SHIPMENTS_COUNT,
    SHIPMENTS_TOPIC,
    DemoRecord,
    demo_records,
    register_shipments,
    shipment_records,
)
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.process import free_ports
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.services.s3 import EmbeddedS3

REGISTRY_KEY = "value.converter.schema.registry.url"
CONFIGS = ("examples/orders.json", "examples/shipments.json")
SHIPMENTS_PER_ORDER = SHIPMENTS_COUNT / ORDERS_COUNT
FIRST = 20
"""This part of all records is sent before the sinks get going."""
QUIET = {"errors.log.enable": "false", "kafka.reader": "tasks"}
TOPICS = (*ORDERS_TOPICS, SHIPMENTS_TOPIC)
ICEBERG = {"iceberg.enable": "true", "iceberg.catalog.type": "sql"}
NEEDED = ("pyspark", "fastavro")
"""A package of each extra that every demo needs; what its configurations need is checked with them."""


def demo(
    records: Annotated[
        int,
        typer.Option(help="How many orders and payments to produce, and a tenth as many shipments. 0: only services."),
    ] = ORDERS_COUNT,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka, S3 and the registry running until Ctrl-C.")] = False,
    config: Annotated[list[Path] | None, typer.Option(help="A sink's configuration; by default two examples.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Then serve the dashboard of the first sink's bucket until Ctrl-C.")
    ] = False,
    state: Annotated[
        bool | None,
        typer.Option(
            "--state/--no-state",
            help="Also show a state table: orders by status, live. Default: on a terminal, without --config.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Where the dashboard listens; default: 8501, or the next one that is free."
        ),
    ] = None,
) -> None:
    """Start Kafka, S3 and a schema registry, produce orders in JSON and shipments in Avro (some broken), and run sinks on them."""
    from kafka_s3.connect.config.read import read_config

    if missing := [package for package in NEEDED if find_spec(package) is None]:
        raise LocalServiceError(
            f"The demo needs {', '.join(missing)}, which this environment lacks: pip install 'kafka-s3[spark,local,delta]'"
        )
    out = console()
    stated = (
        records > 0
        and find_spec("delta") is not None
        and (config is None and out.is_terminal if state is None else state)
    )
    sinks = {path: read_config(path).texts for path in (config or map(shipped, CONFIGS))} if records else {}
    kafka, s3, registry = free_ports(3)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="kafka-s3-demo-"))
        catalog = f"sqlite:///{folder}/catalog.db" if config is None and find_spec("pyiceberg") is not None else ""
        services = DemoServices(EmbeddedKafka(kafka), EmbeddedS3(s3), EmbeddedRegistry(registry), catalog)
        os.environ.update(services.s3.environment)
        if dashboard:
            app_file()  # raises ConfigError, before anything starts, where a package is missing
        settings = {path: resolved(validate({**raw, **services.keys(raw)}).usable()) for path, raw in sinks.items()}
        start = partial(spark_session, name="kafka-s3 demo")
        if stated:
            start = partial(delta_session, name="kafka-s3 demo", cores="*", warehouse=Path(folder) / "warehouse")
        with closing(SharedSession(start, sinks=1)) as session:
            if sinks:
                session.begin()  # beside the services
            show_line(out, ("1", "bold"), " starting Kafka (KRaft, one node), S3 and a schema registry ...")
            stack.enter_context(services.running())
            for name, address in (
                ("Kafka", services.kafka.bootstrap_servers), ("S3", services.s3.endpoint_url), ("registry", services.registry.url),
            ):  # fmt: skip
                show_line(out, f"  {name} at {address}")
            if sinks:
                _make(out, services, session, settings, count=records)
            if stated:
                _show_states(out, services, session)
        show_next(out, sinks, services.environment, stays=keep or dashboard)
        if dashboard or keep:
            stop = Event()
            stop_on_signals(stop)
            with _dashboard(services, sinks, port) if dashboard and sinks else nullcontext():
                stop.wait()


def _show_states(out: Console, services: DemoServices, session: SharedSession) -> None:
    from kafka_s3.connect.config.read import read_config

    path, stop = shipped(CONFIG), Event()
    raw = read_config(path).texts
    show_line(out, f"the sink of {shown(path)} keeps the newest value of every key ...")
    services.s3.create_bucket(raw["s3.bucket.name"])
    stop_on_signals(stop)
    show_states(out, {**raw, **services.keys(raw)}, session, stop)


def _make(
    out: Console, services: DemoServices, session: SharedSession, settings: Mapping[Path, Settings], *, count: int
) -> None:
    """Sends a few records, on which the sinks get going, then all others: what they then do in a second is what they do every day."""
    from kafka_s3.run.spark.launch import sink_on_spark  # loads pyspark

    records, stop = _Records(services, count), Event()
    first = f"the first {records.coming(count // FIRST):,} records to {', '.join(TOPICS)}"
    show_line(out, ("2", "bold"), f" producing {first} ...")
    with progress_bar(out) as bar:
        records.send(bar, count // FIRST)
    show_line(out, ("3", "bold"), " waiting for Spark ...")
    spark = session.for_sink("demo")
    stop_on_signals(stop)
    with ExitStack() as stack:
        names = " and ".join(str(shown(path)) for path in settings)
        show_line(out, ("4", "bold"), f" the sinks of {names} get going ...")
        show_line(out, f"  meanwhile producing the other {records.coming(count):,} records")
        with progress_bar(out) as bar, ThreadPool(len(settings)) as pool:
            start = partial(
                _start, services, stack, bar, lambda one, observer: sink_on_spark(one, spark, observer=observer)
            )
            running = [start(path, one) for path, one in settings.items()]
            drained = pool.map(lambda sink: sink.drain(stop), running)
            records.send(bar, count)
            list(drained)
        for step, sink in enumerate(running, start=5):
            if not stop.is_set():
                show_line(out, (str(step), "bold"), f" running the sink of {shown(sink.path)} ...")
                with progress_bar(out) as bar:
                    sink.observer.moves_to(bar)
                    sink.drain(stop)
                sink.show(out, records.malformed)


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
    sink_session = stack.enter_context(open_session(settings, observer=observer, clock_ms=now_ms))
    return _RunningSink(path, settings, observer, made(settings, sink_session.observer), sink_session.channel)


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


@dataclass(frozen=True)
class DemoServices:
    """What the demo starts. `catalog` is the address of a database in which tables become Iceberg tables, too; blank: they do not."""

    kafka: EmbeddedKafka
    s3: EmbeddedS3
    registry: EmbeddedRegistry
    catalog: str = ""

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
    def environment(self) -> dict[str, str]:
        """The variables that the quick starts' configurations refer to, and those of AWS clients."""
        s3 = {"S3": self.s3.endpoint_url, "AWS_ENDPOINT_URL_S3": self.s3.endpoint_url, **self.s3.environment}
        return {"KAFKA": self.kafka.bootstrap_servers, "REGISTRY": self.registry.url, **s3}

    def keys(self, raw: Mapping[str, str]) -> dict[str, str]:
        """The keys of a configuration that say where the services are; what a log line would say of a record, the demo says at the end."""
        registry = {REGISTRY_KEY: self.registry.url} if REGISTRY_KEY in raw else {}
        tables = {**ICEBERG, "iceberg.catalog.uri": self.catalog} if self.catalog and "delta.enable" in raw else {}
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "store.url": self.s3.endpoint_url,
            **registry,
            **tables,
            **QUIET,
        }


class _Records:
    """What is left to be sent, and how many records of each topic were broken on purpose so far."""

    def __init__(self, services: DemoServices, count: int) -> None:
        self._brokers = KafkaBrokers(services.kafka.bootstrap_servers)
        for topic in TOPICS:
            self._brokers.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
        ids = register_shipments(services.registry)
        of_shipments = round(count * SHIPMENTS_PER_ORDER)
        self._left = {demo_records(count): count, shipment_records(ids, of_shipments): of_shipments}
        self._share = of_shipments / max(count, 1)
        self.malformed: Counter[str] = Counter()

    def coming(self, most: int) -> int:
        """How many records `send` sends."""
        return sum(min(wanted, self._left[one]) for one, wanted in self._wanted(most).items())

    def send(self, bar: Progress, most: int) -> None:
        """Sends up to so many orders and payments, and shipments to go with them."""
        wanted, total = self._wanted(most), self.coming(most)
        portion = itertools.chain.from_iterable(itertools.islice(one, number) for one, number in wanted.items())
        task = bar.add_task("producing", total=total, rate="", left="")
        with sending(self._brokers.clients) as send:
            for record in bar.track(portion, total=total, task_id=task):
                send(record.topic, record.message, partition=record.partition)
                if record.malformed:
                    self.malformed[record.topic] += 1
        self._left = {one: max(left - wanted[one], 0) for one, left in self._left.items()}

    def _wanted(self, most: int) -> dict[Iterator[DemoRecord], int]:
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
        """Processes what is in Kafka, to the last record."""
        run_until_drained(self.sink, self.settings, stop, close=Reason.FLUSH_NOW, channel=self.channel)

    def show(self, out: Console, malformed: Counter[str]) -> None:
        """What is in the bucket, and whether it is all that was sent."""
        settings, topics, state = self.settings, self.settings.names("topics"), self.sink.log.state
        folders = object_names(settings).prefixes(topics)
        found = (info for prefix in (*folders, state_paths(settings).root) for info in self.sink.store.list(prefix))
        out.print(bucket_tree(settings.text("s3.bucket.name"), found))
        out.print(totals_table(state))
        out.print(styled("  ") + totals_verdict(state))
        show_line(out, f"  {self.observer.rate:,.0f} records/s")
        report = audit_of(settings, SegmentSelection(), kafka=plain_reader(settings)).run()
        broken, letters = sum(malformed[topic] for topic in topics), sum(tally.dead_letters for tally in report.tallies)
        show_line(out, f"  {broken:,} records were broken on purpose: {letters:,} dead letters")
        show_line(out, f"  verify: {report.verdict()}", style="green" if report.clean else "red")
        for topic in topics:
            written = sum(tally.written for tally in report.tallies if tally.topic_partition.topic == topic)
            self._show_tables(out, topic, written)

    def _show_tables(self, out: Console, topic: str, records: int) -> None:
        """What each engine reads from its table, over the one set of objects."""
        from kafka_s3.run.wiring.table_guard import open_tables  # loads delta-rs or pyiceberg

        opened = open_tables(self.settings, self.sink.store, warn=lambda text: show_line(out, f"  {text}"))
        for engine, tables in (("delta-rs", opened.delta), ("pyiceberg", opened.iceberg)):
            if tables is None or (table := tables(topic)).state() is None:
                continue
            rows, files = table.count_rows(), len(table.paths())
            text = f"  {engine} reads {rows:,} rows in {files} objects of {table.address}"
            show_line(out, text, style="green" if rows == records else "red")
        if opened.delta is not None and opened.iceberg is None:
            show_line(out, "  The same objects can be an Iceberg table, too: pip install 'kafka-s3[iceberg]'")


def show_next(
    out: Console, sinks: Mapping[Path, Mapping[str, str]], environment: Mapping[str, str], *, stays: bool
) -> None:
    """Commands to go on with; those that need the services only while they stay."""

    def line(text: str) -> None:
        show_line(out, f"  {text}")

    out.print()
    show_line(out, ("Next", "bold"))
    command = command_here()
    for path in map(shown, islice(sinks, 1)):
        worker = shown(shipped("examples/worker.properties"))
        line(f"{command} validate {path} --worker {worker}   # every problem of a configuration at once")
    if not stays:
        line(f"{command} demo --keep        # leave the services up, to try the other commands on them")
        needs = "" if find_spec("streamlit") else "; it needs: pip install 'kafka-s3[dashboard]'"
        line(f"{command} demo --dashboard   # the same, with the dashboard{needs}")
        return
    line("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items()))
    for path, raw in zip(map(shown, sinks), sinks.values(), strict=True):
        addresses = {"kafka.bootstrap.servers": "$KAFKA", "store.url": "$S3"}
        addresses |= {REGISTRY_KEY: "$REGISTRY"} if REGISTRY_KEY in raw else {}
        words = " ".join(f"--set {key}={value}" for key, value in addresses.items())
        line(f"{command} run {path} --available-now {words}")
        line(f"{command} verify {path} {words}")
    show_line(out, "Kafka, S3 and registry stay up until Ctrl-C.")


def command_here() -> str:
    """How this program is called in the user's shell: by its name where the PATH leads to it, else by its path."""
    own = Path(sys.executable).parent / "kafka-s3"
    found = shutil.which("kafka-s3")
    if found is not None and Path(found).resolve() == own.resolve():
        return "kafka-s3"
    return str(shown(own)) if own.is_file() else f"{shown(Path(sys.executable))} -m kafka_s3"


def shown(path: Path) -> Path:
    """The path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
