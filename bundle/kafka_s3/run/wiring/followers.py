"""Who else is told of a sink's objects after each commit? What a configuration asks for: Glue tables, done-markers, notifications."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.joda.buckets import bucket_start
from kafka_s3.connect.joda.zones import zone
from kafka_s3.engine.loop.follower import Follower
from kafka_s3.followers.ddl.table import ExternalTable, TopicObjects
from kafka_s3.followers.done_markers import DoneMarkers
from kafka_s3.followers.glue_tables import GlueTables
from kafka_s3.model.protocols import Brokers
from kafka_s3.run.wiring.ddl import table_in_bucket
from kafka_s3.run.wiring.notifying import notifications
from kafka_s3.run.wiring.partitioning import bucket_names, directory
from kafka_s3.store.options import store_options
from kafka_s3.store.store import ObjectStore

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
) -> GlueTables:
    """The tables of the catalog, with the credentials of S3."""
    from kafka_s3.followers.glue_catalog import GlueCatalog  # loads botocore

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
