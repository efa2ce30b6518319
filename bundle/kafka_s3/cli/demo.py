"""`kafka-s3 demo`: what does the product do? A real broker and an S3 server on this machine, and the sink between them."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from kafka_s3.cli.display import ProgressObserver, bucket_tree, totals_table
from kafka_s3.cli.run import run_sink, stop_on_signals
from kafka_s3.config.validate import validate
from kafka_s3.embedded.kafka import EmbeddedKafka
from kafka_s3.embedded.orders import PARTITIONS, TOPICS, demo_records
from kafka_s3.embedded.s3 import EmbeddedS3
from kafka_s3.kafka import KafkaBrokers
from kafka_s3.source import Message


def demo(
    records: Annotated[int, typer.Option(help="How many orders and payments to produce.")] = 200_000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave broker and S3 running until Ctrl-C.")] = False,
    config: Annotated[Path, typer.Option(help="The sink's configuration.")] = Path("examples/orders.json"),
) -> None:
    """Start a real Kafka broker and an S3 server, produce orders (some of them broken) and run the sink on them."""
    from kafka_s3.config.read import read_config

    out = Console()
    raw = read_config(config)
    out.print("[bold]1[/] starting Kafka (KRaft, one node) and S3 ...")
    with EmbeddedKafka() as kafka, EmbeddedS3() as s3:
        os.environ.update(s3.environment)
        s3.create_bucket(raw["s3.bucket.name"])
        out.print(f"  Kafka at {kafka.bootstrap_servers}, S3 at {s3.endpoint_url}", highlight=False)
        brokers = KafkaBrokers(kafka.bootstrap_servers)
        malformed = _produce(out, brokers, records)
        ours = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "store.url": s3.endpoint_url}
        _sink(out, {**raw, **ours}, config=config, malformed=malformed)
        _next_steps(out, config, kafka.bootstrap_servers, s3, keep)


def _produce(out: Console, brokers: KafkaBrokers, count: int) -> int:
    out.print(f"[bold]2[/] producing {count:,} records to {', '.join(TOPICS)} ...", highlight=False)
    malformed = 0
    for topic in TOPICS:
        brokers.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
    with brokers.sending() as send:
        for record in track(demo_records(count), total=count, description="  producing", console=out):
            message = Message(record.key, record.value, record.headers, record.timestamp_ms)
            send(record.topic, message, partition=record.partition)
            malformed += record.malformed
    return malformed


def _sink(out: Console, raw: dict[str, str], *, config: Path, malformed: int) -> None:
    from kafka_s3.spark.launch import sink_on_spark
    from kafka_s3.spark.session import spark_session

    settings = validate(raw).usable().resolved()
    out.print(f"[bold]3[/] running the sink of {config} ...", highlight=False)
    spark = spark_session(name=settings.name)
    stop = Event()
    stop_on_signals(stop)
    began = time.monotonic()
    try:
        with ProgressObserver(out) as bar:
            sink = sink_on_spark(settings, spark, observer=bar)
            run_sink(sink, settings, stop, available_now=True, flush=True)
        seconds = time.monotonic() - began
        out.print(bucket_tree(settings.text("s3.bucket.name"), sink.store.list("")))
        out.print(totals_table(sink.log.state))
        totals = sink.log.state.totals
        out.print(
            f"  {totals.read / seconds:,.0f} records/s; {malformed:,} records were broken on purpose", highlight=False
        )
    finally:
        spark.stop()


def _next_steps(out: Console, config: Path, servers: str, s3: EmbeddedS3, keep: bool) -> None:
    out.print("\n[bold]Next[/]")
    out.print(
        f"  kafka-s3 validate {config} --worker examples/worker.properties   # every problem of a configuration at once"
    )
    if not keep:
        out.print(
            "  kafka-s3 demo --keep                              # leave Kafka and S3 up, to try the other commands on them"
        )
        return
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in s3.environment.items())
    out.print(f"  export {exports}", highlight=False, soft_wrap=True)
    out.print(
        f"  kafka-s3 run {config} --set kafka.bootstrap.servers={servers} --set store.url={s3.endpoint_url}",
        highlight=False,
        soft_wrap=True,
    )
    out.print("Kafka and S3 stay up until Ctrl-C.")
    stop = Event()
    stop_on_signals(stop)
    stop.wait()
