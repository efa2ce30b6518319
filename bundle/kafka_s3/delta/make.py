"""How does a configuration become Delta tables? The composition: settings and a bucket in, the follower and its parts out."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from kafka_s3.config.settings import Settings
from kafka_s3.delta.columns import Mode
from kafka_s3.delta.follower import DeltaTables
from kafka_s3.delta.guard import GuardedSource
from kafka_s3.delta.intake import Intake
from kafka_s3.delta.layout import Layout
from kafka_s3.delta.table import APP, Table
from kafka_s3.pipeline import state_paths
from kafka_s3.source import Source
from kafka_s3.storage.options import store_options
from kafka_s3.storage.rust_options import RustOptions
from kafka_s3.storage.store import ObjectStore


def delta_tables(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Callable[[str], None]
) -> DeltaTables:
    """The follower of a sink whose `delta.enable` is true."""
    return DeltaTables(
        intake_of(settings, store),
        state_paths(settings),
        table=tables_of(settings, store),
        clock_ms=clock_ms,
        warn=warn,
    )


def guarded(settings: Settings, source: Source, store: ObjectStore) -> Source:
    """The engine of a sink whose `delta.enable` is true."""
    mode = Mode(settings.text("delta.schema.evolution.mode"))
    return GuardedSource(source, store, tables_of(settings, store), mode, layout_of(settings).fields)


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


def tables_of(settings: Settings, store: ObjectStore) -> Callable[[str], Table]:
    """Gives the table of a topic."""
    layout, options = layout_of(settings), store_options(settings)
    rust = RustOptions(options)

    def table(topic: str) -> Table:
        folder = layout.folder(topic)
        address = f"s3://{options.bucket}/{quote(folder.rstrip('/'))}"
        return Table(address, app=f"{APP}{settings.name}", options=rust, store=store, folder=folder)

    return table
