"""How does a configuration become Delta tables? The composition: settings and a bucket in, the follower and its parts out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import quote

from kafka_s3.config.settings import Settings
from kafka_s3.delta.columns import Mode
from kafka_s3.delta.copying import Copying, SparkTables
from kafka_s3.delta.entries import Teller
from kafka_s3.delta.follower import DeltaTables, Taker
from kafka_s3.delta.guard import GuardedSource, Known
from kafka_s3.delta.intake import Intake
from kafka_s3.delta.layout import Layout
from kafka_s3.delta.names import TableNames, place
from kafka_s3.delta.noted import NotedColumns
from kafka_s3.delta.registering import Catalog, Registering
from kafka_s3.delta.states import APP
from kafka_s3.errors import ConfigError, Problem
from kafka_s3.pipeline import state_paths
from kafka_s3.source import Source
from kafka_s3.storage.options import store_options
from kafka_s3.storage.rust_options import RustOptions
from kafka_s3.storage.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.delta.table import Table
    from kafka_s3.delta.zero_copy import ZeroCopy

    Tables: TypeAlias = Callable[[str], Table]

SPARK = "spark"
NEEDS_SPARK = "needs a Spark that knows Delta, and there is none here."


class Spark(Catalog, SparkTables, Protocol):
    """What the Spark that runs the sink does for tables."""

    def url(self, key: str) -> str:
        """Where Spark finds an object or a folder of the bucket."""
        ...


def delta_tables(
    settings: Settings,
    store: ObjectStore,
    *,
    clock_ms: Callable[[], int],
    warn: Callable[[str], None],
    spark: Spark | None = None,
    tables: Tables | None = None,
) -> DeltaTables:
    """The follower of a sink whose `delta.enable` is true. Raises ConfigError where it needs Spark and gets none.

    `tables` are those of delta-rs that the sink has open already.
    """
    paths, teller = state_paths(settings), Teller(warn)
    if written_by_spark(settings):
        if spark is None:
            raise ConfigError([Problem("delta.writer", SPARK, NEEDS_SPARK, "Run the sink on Spark, or leave it out.")])
        names = TableNames(settings.text("delta.table.name"))
        topics, noted = settings.names("topics"), noted_of(settings, store)
        own = _own_places(settings, spark)
        copying = Copying(intake_of(settings, store), paths, spark, names, teller, noted, own, topics)
        return DeltaTables(copying, store, place_of(settings), clock_ms=clock_ms)
    from kafka_s3.delta.zero_copy import ZeroCopy  # loads delta-rs

    tables = tables or tables_of(settings, store)
    taker: Taker
    taker = inner = ZeroCopy(intake_of(settings, store), settings.name, tables, clock_ms, teller)
    if settings.text("delta.table.name") and spark is not None:
        taker = _registering(settings, inner, spark, clock_ms=clock_ms, warn=warn)
    return DeltaTables(taker, store, place_of(settings), clock_ms=clock_ms)


def _own_places(settings: Settings, spark: Spark) -> Callable[[str], set[str]]:
    """Where a topic's objects lie, in each spelling."""
    layout, bucket = layout_of(settings), settings.text("s3.bucket.name")

    def own(topic: str) -> set[str]:
        folder = layout.folder(topic)
        return {place(spark.url(folder)), place(f"s3://{bucket}/{folder}")}

    return own


def _registering(
    settings: Settings, inner: ZeroCopy, spark: Spark, *, clock_ms: Callable[[], int], warn: Callable[[str], None]
) -> Registering:
    layout, names = layout_of(settings), TableNames(settings.text("delta.table.name"))

    def location(topic: str) -> str:
        return spark.url(layout.folder(topic).rstrip("/"))

    return Registering(inner, spark, names, location, clock_ms=clock_ms, warn=warn)


def written_by_spark(settings: Settings) -> bool:
    """Whether Spark writes the tables, as copies."""
    return settings.text("delta.writer") == SPARK


def place_of(settings: Settings) -> str:
    """The key of the object that says how far the tables have come: copies under another name are other tables."""
    paths = state_paths(settings)
    if not written_by_spark(settings):
        return paths.follower("delta")
    digest = hashlib.sha256(settings.text("delta.table.name").encode()).hexdigest()[:8]
    return paths.follower(f"delta-spark-{digest}")


def guarded(
    settings: Settings, source: Source, store: ObjectStore, *, bucket: ObjectStore, tables: Tables | None = None
) -> Source:
    """The engine of a sink whose `delta.enable` is true. `store` has the engine's uploads, which need not be the bucket's (a rehearsal).

    `tables` are those of delta-rs that the sink has open already.
    """
    mode = Mode(settings.text("delta.schema.evolution.mode"))
    known: Callable[[str], Known]
    known = noted_of(settings, bucket) if written_by_spark(settings) else tables or tables_of(settings, store)
    return GuardedSource(source, store, known, mode, layout_of(settings).fields)


def shared_tables(settings: Settings, store: ObjectStore) -> Tables | None:
    """Tables of delta-rs for a guard and a follower together, so that each is read once; None where Spark writes them."""
    return None if written_by_spark(settings) else tables_of(settings, store)


def noted_of(settings: Settings, store: ObjectStore) -> Callable[[str], NotedColumns]:
    """Gives the noted columns of a topic's table, where Spark writes it."""
    paths, names = state_paths(settings), TableNames(settings.text("delta.table.name"))
    held: dict[str, NotedColumns] = {}

    def noted(topic: str) -> NotedColumns:
        if topic not in held:
            held[topic] = NotedColumns(store, paths.follower(f"delta-columns/{topic}"), names.of(topic))
        return held[topic]

    return noted


def intake_of(settings: Settings, store: ObjectStore) -> Intake:
    """How the sink's files are taken into tables."""
    return Intake(
        store,
        layout_of(settings),
        Mode(settings.text("delta.schema.evolution.mode")),
        tolerant=settings.text("errors.tolerance") == "all",
    )


def layout_of(settings: Settings) -> Layout:
    """How the sink's objects lie below `topics.dir`."""
    by_field = settings.text("partitioner.class") == "field"
    return Layout(
        settings.text("topics.dir"),
        fields=frozenset(settings.names("partition.field.name")) if by_field else frozenset(),
        quoted=by_field and settings.text("partition.value.encoding") == "url",
    )


def tables_of(settings: Settings, store: ObjectStore) -> Tables:
    """Gives the table of a topic, as delta-rs writes it; the same one each time."""
    from kafka_s3.delta.table import Table  # loads delta-rs

    layout, options = layout_of(settings), store_options(settings)
    rust = RustOptions(options)
    held: dict[str, Table] = {}

    def table(topic: str) -> Table:
        if topic not in held:
            folder = layout.folder(topic)
            address = f"s3://{options.bucket}/{quote(folder.rstrip('/'))}"
            held[topic] = Table(address, app=f"{APP}{settings.name}", options=rust, store=store, folder=folder)
        return held[topic]

    return table
