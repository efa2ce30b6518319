"""Which tables must the records of a sink fit, before a file is written? Its Delta table, its Iceberg table, or both: one guard decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.task.table_guard.columns import promoted
from kafka_s3.followers.delta.guard import ExpectedColumns, GuardedSource, ReadableTable, Together, as_they_are
from kafka_s3.model.protocols import Source
from kafka_s3.run.wiring.delta import cached_of, table_layout, tables_of, written_by_spark
from kafka_s3.run.wiring.iceberg import iceberg_tables
from kafka_s3.run.wiring.pipeline import evolution_of, mode_key_of
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.run.wiring.delta import Tables
    from kafka_s3.run.wiring.iceberg import IcebergTables


@dataclass(frozen=True, slots=True)
class OpenTables:
    """The tables of a sink that are open already, so that guard and followers read each once; None where there are none of a kind."""

    delta: Tables | None = None
    iceberg: IcebergTables | None = None


def open_tables(settings: Settings, store: ObjectStore, warn: Callable[[str], None]) -> OpenTables:
    """The tables of a sink; of Delta those that Spark writes are not among them."""
    delta = settings.flag("delta.enable") and not written_by_spark(settings)
    return OpenTables(
        tables_of(settings, store) if delta else None,
        iceberg_tables(settings, store, warn=warn) if settings.flag("iceberg.enable") else None,
    )


def guarded(
    settings: Settings, source: Source, store: ObjectStore, *, bucket: ObjectStore, tables: OpenTables | None = None
) -> Source:
    """The engine of a sink that has tables. `store` has the engine's uploads, which need not be the bucket's (an outcome)."""
    tables = tables or open_tables(settings, store, print)
    getters: list[Callable[[str], ReadableTable]] = []
    if tables.iceberg is not None:
        getters.append(tables.iceberg)
    if settings.flag("delta.enable"):
        getters.append(cached_of(settings, bucket) if tables.delta is None else tables.delta)

    def table(topic: str) -> ReadableTable:
        found = [getter(topic) for getter in getters]
        return found[0] if len(found) == 1 else Together(found)

    evolution = evolution_of(settings)
    assert evolution is not None, "only sinks with tables are guarded"
    expected = ExpectedColumns(
        table,
        evolution.mode,
        fields=table_layout(settings).fields,
        form=promoted if tables.iceberg is not None else as_they_are,
        mode_key=mode_key_of(settings),
    )
    return GuardedSource(source, store, expected, evolution.mode)
