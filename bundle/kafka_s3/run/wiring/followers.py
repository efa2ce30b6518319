"""Which followers does a configuration ask for beside the Delta tables, and how do its topics become tables of a query engine?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Final

import numpy as np

from kafka_s3.connect.config.classes import NOTIFICATION_GROUP, REGISTRY_CONVERTERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.joda.buckets import bucket_start
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.naming.table_names import TableNames
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.followers import Follower
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.columns import json_columns, table_of
from kafka_s3.followers.ddl.table import ExternalTable, NoTable, TopicObjects, topics_of
from kafka_s3.followers.done_markers import DoneMarkers
from kafka_s3.followers.notifications import Notifications, Notifier, SnsTopic, SqsQueue, Webhook
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.protocols import Brokers
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.conversion import latest_schemas
from kafka_s3.run.wiring.partitioning import bucket_names, directory
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.options import store_options
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


def notifications(settings: Settings) -> Notifications:
    """The follower that tells of each commit."""
    return Notifications(_notifier(settings), settings.text("s3.bucket.name"))


def _notifier(settings: Settings) -> Notifier:
    name, target = settings.text("notification.class"), settings.text("notification.target")
    if name == "webhook":
        return Webhook(target)
    if name in ("sns", "sqs"):
        from kafka_s3.store.credentials import aws_client

        options, endpoint = store_options(settings), settings.text("aws.endpoint.url") or None
        client = aws_client(name, region=options.region, endpoint_url=endpoint, credentials=options.credentials)
        return SnsTopic(client, target) if name == "sns" else SqsQueue(client, target)
    found: Notifier = entry_points(group=NOTIFICATION_GROUP)[name].load()(settings)
    return found


HOUR_MS: Final = 3_600_000
MOST_BUCKETS: Final = 10_000
NEVER: Final = 2**62
"""When a directory's time is over that has the name of so many buckets: all records go there."""


def told(
    settings: Settings,
    store: ObjectStore,
    brokers: Brokers,
    *,
    clock_ms: Callable[[], int],
    warn: Callable[[str], None],
) -> list[Follower]:
    """The followers of a configuration, in the order in which they are told."""
    found: list[Follower] = []
    if settings.text("glue.database.name"):
        found.append(glue_tables(settings, store, clock_ms=clock_ms, warn=warn))
    marker = settings.text("done.marker.name")
    if marker:
        found.append(DoneMarkers(marker, end_of_directory(settings), brokers, clock_ms, warn))
    if settings.text("notification.class"):
        found.append(notifications(settings))
    return found


def glue_tables(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Callable[[str], None]
) -> Follower:
    """The tables of the catalog, with the credentials of S3."""
    from kafka_s3.followers.glue import GlueCatalog, GlueTables  # loads botocore

    options = store_options(settings)
    catalog = GlueCatalog(
        settings.text("glue.database.name"),
        region=options.region,
        endpoint_url=settings.text("aws.endpoint.url") or None,
        credentials=options.credentials,
    )

    def table_of(objects: TopicObjects) -> ExternalTable:
        return table_in_bucket(settings, store, objects, bucket=options.bucket)

    return GlueTables(catalog, table_of, clock_ms, warn)


def end_of_directory(settings: Settings) -> Callable[[int], int]:
    """When the time of a record's directory is over, epoch ms; a pattern may give several buckets one name."""
    duration, where = directory(settings)[0], zone(settings.text("timezone"))
    names = bucket_names(settings, settings.text("directory.delim"))

    def next_start(ms: int) -> int:
        start = int(bucket_start(np.array([ms], np.int64), duration, where)[0])
        following = int(bucket_start(np.array([start + duration], np.int64), duration, where)[0])
        if following > start:
            return following
        return int(
            bucket_start(np.array([start + duration + 2 * HOUR_MS], np.int64), duration, where)[0]
        )  # clocks went back

    @lru_cache(maxsize=1024)
    def of_bucket(end: int) -> int:
        for _ in range(MOST_BUCKETS):
            if len(names.encode(np.array([end - 1, end], np.int64))[1]) > 1:
                return end
            end = next_start(end)
        return NEVER

    return lambda ms: of_bucket(next_start(ms))
