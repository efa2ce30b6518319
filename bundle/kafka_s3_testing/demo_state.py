"""What does the demo show of state tables? Orders by status, live: how many changes the history has, and how many orders there are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from threading import Event
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from kafka_s3.cli.display import new_table, show_line
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.producing import sending
from kafka_s3.model.files import Reason
from kafka_s3.model.timing import now_ms
from kafka_s3.run.spark.process import SharedSession
from kafka_s3.run.wiring.running import open_session, run_until_drained
from kafka_s3_testing.services.demo_records import PARTITIONS, STATUS_TOPIC, STATUSES, status_records

CONFIG: Final = "examples/order-status.json"
CHANGES: Final = 5_000
PORTION: Final = 1_000
DELETED: Final = "(deleted)"


def show_states(out: Console, config: Mapping[str, str], shared: SharedSession, stop: Event) -> None:
    """Sends changes of orders in portions; after each the sink commits and merges, and the table shows both. The bucket is there."""
    from kafka_s3.run.spark.launch import sink_on_spark  # loads pyspark
    from kafka_s3.spark import read_committed
    from kafka_s3.state import states_on_spark

    spark = shared.for_sink("states")
    settings = resolved(validate(config).usable())
    brokers = KafkaBrokers(settings.text("kafka.bootstrap.servers"))
    brokers.create_topic(STATUS_TOPIC, partitions=PARTITIONS, config={"retention.ms": "-1"})
    spark.sql("CREATE SCHEMA IF NOT EXISTS shop")
    with (
        open_session(settings, clock_ms=now_ms) as session,
        Live(_table({}, {}), console=out, auto_refresh=False) as live,
    ):
        sink = sink_on_spark(settings, spark, observer=session.observer, store=session.store, states=states_on_spark)
        records = status_records(CHANGES)
        for _ in range(CHANGES // PORTION):
            if stop.is_set():
                return
            with sending(brokers.clients) as send:
                for record in islice(records, PORTION):
                    send(record.topic, record.message, partition=record.partition)
            run_until_drained(sink, settings, stop, close=Reason.FLUSH_NOW, channel=session.channel)
            history, state = read_committed(spark, config, STATUS_TOPIC), spark.table("shop.order_status")
            live.update(
                _table(*(_counts(one.groupBy("status").count().collect()) for one in (history, state))), refresh=True
            )
    show_line(out, "  the history has every change, the state table a row for each order that is not deleted")


def _counts(rows: Iterable[tuple[str | None, int]]) -> Mapping[str, int]:
    """How many rows have each status; a deletion has none."""
    return {status or DELETED: count for status, count in rows}


def _table(history: Mapping[str, int], state: Mapping[str, int]) -> Table:
    table = new_table("Orders by status", left=["status"], right=["changes in the history", "orders in the state"])
    for status in (*STATUSES, DELETED):
        table.add_row(status, f"{history.get(status, 0):,}", f"{state.get(status, 0):,}")
    table.add_row("all", f"{sum(history.values()):,}", f"{sum(state.values()):,}")
    return table
