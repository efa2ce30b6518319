"""How does a configuration become Delta tables? The composition: settings and a bucket in, the follower and its parts out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import quote

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, VALUE_PARTITIONERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.table_names import TableNames, normal_location
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.task.table_guard.columns import Mode
from kafka_s3.followers.delta.copying import CachedColumns, Copying, SparkTables
from kafka_s3.followers.delta.findings import topics_with_tables
from kafka_s3.followers.delta.follower import (
    Catalog,
    ChangeReporter,
    FollowingTables,
    Registering,
    TableWriter,
    ZeroCopy,
)
from kafka_s3.followers.delta.planner import APP, TableLayout, TablePlanner
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import RustOptions, S3Store
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.delta.table import Table

    Tables: TypeAlias = Callable[[str], Table]

DELTA = "Delta tables"
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
) -> FollowingTables:
    """The follower of a sink whose `delta.enable` is true. Raises ConfigError where it needs Spark and gets none.

    `tables` are those of delta-rs that the sink has open already.
    """
    paths, layout, reporter = state_paths(settings), table_layout(settings), ChangeReporter(warn)
    names = TableNames(settings.text("delta.table.name"))
    if written_by_spark(settings):
        if spark is None:
            raise ConfigError([Problem("delta.writer", SPARK, NEEDS_SPARK, "Run the sink on Spark, or leave it out.")])
        url, bucket = spark.url, settings.text("s3.bucket.name")

        def own_locations(topic: str) -> set[str]:
            folder = layout.folder(topic)
            return {normal_location(url(folder)), normal_location(f"s3://{bucket}/{folder}")}

        cached = cached_of(settings, store)
        topics = settings.names("topics")
        copying = Copying(intake_of(settings, store), paths, spark, names, reporter, cached, own_locations, topics)
        return FollowingTables(DELTA, copying, store, key=position_key(settings), clock_ms=clock_ms)
    tables = tables or tables_of(settings, store)
    table_writer: TableWriter
    table_writer = inner = ZeroCopy(intake_of(settings, store), settings.name, tables, clock_ms, reporter)
    if settings.text("delta.table.name") and spark is not None:
        table_writer = Registering(
            inner,
            inner.exists,
            spark,
            names,
            location=partial(_location, spark, layout),
            clock_ms=clock_ms,
            warn=warn,
        )
    return FollowingTables(DELTA, table_writer, store, key=position_key(settings), clock_ms=clock_ms)


def _location(spark: Spark, layout: TableLayout, topic: str) -> str:
    return spark.url(layout.folder(topic).rstrip("/"))


def written_by_spark(settings: Settings) -> bool:
    """Whether Spark writes the tables, as copies."""
    return settings.text("delta.writer") == SPARK


def why_not_maintained(settings: Settings) -> str | None:
    """Why the sink has no tables that are maintained without Spark, for a person; None: it may have some."""
    if not settings.flag("delta.enable"):
        return f"{settings.name} keeps no Delta tables (delta.enable=false)."
    if written_by_spark(settings):
        names = settings.text("delta.table.name")
        where = f"run jobs/maintain_tables.py on it, or OPTIMIZE and VACUUM {names} there."
        return f"{settings.name} leaves its tables to Spark (delta.writer=spark): {where}"
    return None


def topics_of_tables(settings: Settings) -> list[str]:
    """The topics that have objects for a table, by the sink's log."""
    return topics_with_tables(_log_of(settings, S3Store(store_options(settings))))


def _log_of(settings: Settings, store: ObjectStore) -> CommitLog:
    return CommitLog(store, state_paths(settings), clock_ms=now_ms)


def position_key(settings: Settings) -> str:
    """The key of the object that says how far the tables have come: copies under another name are other tables."""
    paths = state_paths(settings)
    if not written_by_spark(settings):
        return paths.follower("delta")
    digest = hashlib.sha256(settings.text("delta.table.name").encode()).hexdigest()[:8]
    return paths.follower(f"delta-spark-{digest}")


def cached_of(settings: Settings, store: ObjectStore) -> Callable[[str], CachedColumns]:
    """Gives the cached columns of a topic's table, where Spark writes it."""
    paths, names = state_paths(settings), TableNames(settings.text("delta.table.name"))

    @cache
    def cached(topic: str) -> CachedColumns:
        return CachedColumns(store, paths.follower(f"delta-columns/{topic}"), names.of(topic))

    return cached


def intake_of(settings: Settings, store: ObjectStore) -> TablePlanner:
    """How the sink's files are taken into tables."""
    return TablePlanner(
        store,
        table_layout(settings),
        Mode(settings.text("delta.schema.evolution.mode")),
        tolerant=settings.text("errors.tolerance") == "all",
    )


def table_layout(settings: Settings) -> TableLayout:
    """How the sink's objects lie below `topics.dir`."""
    name = settings.text("partitioner.class")
    by_field, of_values = name in FIELD_PARTITIONERS, name in FIELD_PARTITIONERS | VALUE_PARTITIONERS
    return TableLayout(
        settings.text("topics.dir"),
        fields=frozenset(settings.names("partition.field.name")) if by_field else frozenset(),
        quoted=of_values and settings.text("partition.value.encoding") == "percent",
    )


def tables_of(settings: Settings, store: ObjectStore) -> Tables:
    """Gives the table of a topic, as delta-rs writes it; the same one each time."""
    from kafka_s3.followers.delta.table import Table  # loads delta-rs

    layout, options = table_layout(settings), store_options(settings)
    rust = RustOptions(options)

    @cache
    def table(topic: str) -> Table:
        folder = layout.folder(topic)
        address = f"s3://{options.bucket}/{quote(folder.rstrip('/'))}"
        return Table(address, app=f"{APP}{settings.name}", options=rust, store=store, folder=folder)

    return table
