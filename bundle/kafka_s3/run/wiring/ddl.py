"""How does a configuration become tables of a query engine? Its log names the objects; the registry or the objects know the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_s3.connect.config.classes import REGISTRY_CONVERTERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.table_names import TableNames
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.columns import json_columns
from kafka_s3.followers.ddl.table import ExternalTable, NoTable, TopicObjects, topics_of
from kafka_s3.followers.ddl.topic_table import table_of
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.latest_schemas import latest_schemas
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import ObjectStore


def tables_of_sink(settings: Settings, store: ObjectStore, wanted: Sequence[str] = ()) -> Iterator[ExternalTable]:
    """The tables of the topics that are wanted, of all without; one after the other.

    Raises ConfigError for a topic without an object, NoTable where objects cannot be a table, StorageError, CommitError, RegistryError.
    """
    log = CommitLog(store, state_paths(settings), clock_ms=now_ms)
    known = topics_of(log.entries())
    for topic in wanted or known:
        if topic not in known:
            hint = f"Topics with objects: {', '.join(known) or 'none yet; run the sink first'}."
            raise ConfigError([Problem("--topic", topic, "has no object in the log.", hint)])
    if not known:
        raise NoTable(f"Sink {settings.name} has written no object yet, so that there is no table. Run it first.")
    for topic in wanted or known:
        objects, bucket = known[topic], settings.text("s3.bucket.name")
        yield table_in_bucket(settings, store, objects, bucket=bucket, known=_registered(settings, objects))


def table_in_bucket(
    settings: Settings | None,
    store: ObjectStore,
    objects: TopicObjects,
    *,
    bucket: str,
    known: TableColumns | None = None,
) -> ExternalTable:
    """The table of one topic's objects, also of a sink whose settings are not known. Raises NoTable, StorageError."""
    delta = settings.flag("delta.enable") if settings is not None else None
    if settings is not None and delta and settings.text("delta.writer") == "spark":
        name = TableNames(settings.text("delta.table.name")).of(objects.topic)
        raise NoTable(f"Topic {objects.topic} has a table that Spark writes, {name}: query it by that name.")
    return table_of(store, objects, bucket=bucket, delta=delta, known=known)


def _registered(settings: Settings, objects: TopicObjects) -> TableColumns | None:
    """The columns by the registry, where JSON is written of values as they come: the objects themselves need not name all fields."""
    changed = settings.names("transforms") or settings.flag("record.metadata.enable")
    by_registry = settings.text("value.converter") in REGISTRY_CONVERTERS and objects.newest[0].format == "json"
    if not by_registry or changed:
        return None
    with latest_schemas(settings) as latest:
        schema = latest(objects.topic)  # None, where it is registered under another name: the objects have to tell
    return None if schema is None else json_columns(schema, decimals=settings.text("json.decimal.format").upper())
