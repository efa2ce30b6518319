"""Which followers does a configuration ask for, in which order, and how do its topics become tables of a query engine?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

import numpy as np

from kafka_s3.connect.config.classes import NOTIFICATION_GROUP, REGISTRY_CONVERTERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.joda.buckets import bucket_start
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.naming.table_names import TableNames
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.followers import Follower
from kafka_s3.engine.loop.rewrites import FollowedVersion, no_tables
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.ddl.columns import json_columns, table_of
from kafka_s3.followers.ddl.iceberg import CatalogTable
from kafka_s3.followers.ddl.table import ExternalTable, NoTable, TopicObjects, topics_of
from kafka_s3.followers.dead_letter_reporters import LETTER_LINES_S, DeadLetterLog, DeadLetterTopic
from kafka_s3.followers.done_markers import CompleteDirectories, write_marker
from kafka_s3.followers.group_offsets import GroupOffsets
from kafka_s3.followers.log_tables import LogTables
from kafka_s3.followers.notifications import Notifications, Notifier, SnsTopic, SqsQueue, Webhook
from kafka_s3.followers.tagging import ObjectTags, Tagging
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.protocols import Brokers, StateProgress
from kafka_s3.model.timing import RateLimiter, now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.clients import group_of
from kafka_s3.run.wiring.conversion import latest_schemas
from kafka_s3.run.wiring.partitioning import bucket_names, directory
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.compaction import Compactor
    from kafka_s3.followers.state import StateTables
    from kafka_s3.run.wiring.delta import Spark
    from kafka_s3.run.wiring.table_guard import OpenTables


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What followers are made with beside the settings; `spark` is that of Delta tables, `tables` those that are open,
    `states` what keeps state tables, `states_kept` who hears how far they are. `look` makes the sink look for rewrites that are asked for.
    """

    brokers: Brokers
    store: ObjectStore
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    spark: Spark | None = None
    tables: OpenTables | None = None
    states: StateTables | None = None
    look: Callable[[], None] = lambda: None
    states_kept: Callable[[Mapping[str, StateProgress]], None] = lambda topics: None


def followers_of(settings: Settings, around: Surroundings) -> list[Follower]:
    """The followers of a configuration, in the order in which they catch up."""
    makers = (
        _object_tags, _dead_letter_topic, _dead_letter_log, _glue_tables, _done_markers, _notifications, _delta_tables,
        _iceberg_tables, _state_tables, _own_compaction,
    )  # fmt: skip
    found = [make(settings, around) for make in makers]
    return [*(follower for follower in found if follower is not None), LogTables(around.warn)]


def followed_by_tables(settings: Settings, store: ObjectStore) -> FollowedVersion:
    """How far the tables of a sink have followed its log, as they noted it."""
    keys = list[str]()
    if settings.flag("delta.enable"):
        from kafka_s3.run.wiring.delta import position_key

        keys.append(position_key(settings))
    if settings.flag("iceberg.enable"):
        from kafka_s3.run.wiring.iceberg import iceberg_position_key

        keys.append(iceberg_position_key(settings))
    if not keys:
        return no_tables
    from kafka_s3.followers.delta.follower import followed_to

    return lambda topics: followed_to(store, keys, topics)


def tables_without_spark(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Callable[[str], None]
) -> Iterator[Follower]:
    """The followers that keep a sink's tables, for a command that owns the log; those that Spark writes are left to the sink."""
    if settings.flag("delta.enable"):
        from kafka_s3.run.wiring.delta import delta_tables, written_by_spark  # loads delta-rs

        if not written_by_spark(settings):
            yield delta_tables(settings, store, clock_ms=clock_ms, warn=warn)
    if settings.flag("iceberg.enable"):
        from kafka_s3.run.wiring.iceberg import iceberg_follower

        yield iceberg_follower(settings, store, clock_ms=clock_ms, warn=warn)


def group_offsets(settings: Settings, brokers: Brokers, warn: Callable[[str], None]) -> GroupOffsets | None:
    """Return the follower that mirrors the sink's positions to a consumer group, None if none does."""
    if not settings.flag("consumer.group.mirror.enable"):
        return None
    return GroupOffsets(brokers, group_of(settings), settings.strict, warn=warn)


def tagging_of(settings: Settings) -> Tagging | None:
    """How objects are tagged, None where they are not."""
    if not settings.flag("s3.object.tagging") or settings.number("s3.part.retries") == 0:
        return None  # no attempt at all with s3.part.retries=0, as in the original (SEMANTICS A1.3)
    pairs = dict(pair.split(":", 1) for pair in settings.names("s3.object.tagging.key.value.pairs"))
    return Tagging(pairs, settings.text("s3.object.behavior.on.tagging.error") == "fail")


def _object_tags(settings: Settings, around: Surroundings) -> Follower | None:
    tagging = tagging_of(settings)
    return None if tagging is None else ObjectTags(tagging, around.warn)


def _dead_letter_topic(settings: Settings, around: Surroundings) -> Follower | None:
    topic = settings.text("errors.deadletterqueue.topic.name")
    if not topic:
        return None
    return DeadLetterTopic(
        around.brokers,
        around.store,
        state_paths(settings),
        topic,
        replication=settings.number("errors.deadletterqueue.topic.replication.factor"),
        context=settings.flag("errors.deadletterqueue.context.headers.enable"),
        warn=around.warn,
    )


def _dead_letter_log(settings: Settings, around: Surroundings) -> Follower | None:
    if not settings.flag("errors.log.enable"):
        return None
    limiter = None if settings.strict else RateLimiter(LETTER_LINES_S)
    return DeadLetterLog(
        around.store, settings.name, settings.flag("errors.log.include.messages"), around.warn, limiter
    )


def _glue_tables(settings: Settings, around: Surroundings) -> Follower | None:
    """The tables of the catalog, with the credentials of S3."""
    database = settings.text("glue.database.name")
    if not database:
        return None
    from kafka_s3.followers.glue import GlueCatalog, GlueTables  # loads botocore
    from kafka_s3.store.s3 import aws_client

    options, endpoint = store_options(settings), settings.text("aws.endpoint.url") or None
    catalog = GlueCatalog(database, aws_client("glue", options, endpoint))

    def table_of(objects: TopicObjects) -> ExternalTable:
        return table_in_bucket(settings, around.store, objects, bucket=options.bucket)

    return GlueTables(catalog, table_of, around.clock_ms, around.warn)


def _done_markers(settings: Settings, around: Surroundings) -> Follower | None:
    marker = settings.text("done.marker.name")
    if not marker:
        return None
    complete, end_of = write_marker(marker), end_of_directory(settings)
    return CompleteDirectories(complete, end_of, around.brokers, around.clock_ms, around.warn)


def _own_compaction(settings: Settings, around: Surroundings) -> Follower | None:
    """What asks for the compaction of complete directories."""
    if not settings.flag("compact.enable"):
        return None
    from kafka_s3.followers.compaction import COMPACTION, DirectoryCompaction  # loads pyarrow

    target = settings.number("compact.target.bytes")
    complete = DirectoryCompaction(
        lambda: compactor_of(settings, around.store),
        target,
        target,
        around.warn,
        settings.names("compact.sort.by"),
        settings.flag("compact.across.partitions"),
        around.look,
    )
    end_of = end_of_directory(settings)
    return CompleteDirectories(complete, end_of, around.brokers, around.clock_ms, around.warn, COMPACTION)


def compactor_of(settings: Settings, store: ObjectStore) -> Compactor:
    """What makes one object from several of a sink's."""
    from kafka_s3.followers.compaction import Compactor  # loads pyarrow

    return Compactor(
        store,
        object_names(settings),
        separator=settings.text("format.bytearray.separator").encode(),
        part_size=settings.number("s3.part.size"),
        width=max(settings.number("filename.offset.zero.pad.width"), 1),
    )


def _delta_tables(settings: Settings, around: Surroundings) -> Follower | None:
    if not settings.flag("delta.enable"):
        return None
    from kafka_s3.run.wiring.delta import delta_tables  # loads delta-rs

    tables = None if around.tables is None else around.tables.delta
    return delta_tables(
        settings, around.store, clock_ms=around.clock_ms, warn=around.warn, spark=around.spark, tables=tables
    )


def _iceberg_tables(settings: Settings, around: Surroundings) -> Follower | None:
    if not settings.flag("iceberg.enable"):
        return None
    from kafka_s3.run.wiring.iceberg import iceberg_follower

    tables = None if around.tables is None else around.tables.iceberg
    return iceberg_follower(settings, around.store, clock_ms=around.clock_ms, warn=around.warn, tables=tables)


def _state_tables(settings: Settings, around: Surroundings) -> Follower | None:
    from kafka_s3.run.wiring.state import kept_by_sink, state_follower

    if not kept_by_sink(settings):
        return None
    return state_follower(
        settings, around.store, around.states, clock_ms=around.clock_ms, warn=around.warn, report=around.states_kept
    )


HOUR_MS: Final = 3_600_000
MOST_BUCKETS: Final = 10_000
NEVER: Final = 2**62
"""When a directory's time is over that has the name of so many buckets: all records go there."""


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


def _notifications(settings: Settings, around: Surroundings) -> Follower | None:
    if not settings.text("notification.class"):
        return None
    return Notifications(_notifier(settings), settings.text("s3.bucket.name"))


def _notifier(settings: Settings) -> Notifier:
    name, target = settings.text("notification.class"), settings.text("notification.target")
    if name == "webhook":
        return Webhook(target)
    if name in ("sns", "sqs"):
        from kafka_s3.store.s3 import aws_client

        client = aws_client(name, store_options(settings), settings.text("aws.endpoint.url") or None)
        return SnsTopic(client, target) if name == "sns" else SqsQueue(client, target)
    found: Notifier = entry_points(group=NOTIFICATION_GROUP)[name].load()(settings)
    return found


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
    found = table_of(store, objects, bucket=bucket, delta=delta, known=known)
    return found if settings is None else replace(found, iceberg=_in_catalog(settings, objects.topic))


def _in_catalog(settings: Settings, topic: str) -> CatalogTable | None:
    """How query engines find the Iceberg table of a topic, None where the sink keeps none."""
    if not settings.flag("iceberg.enable"):
        return None
    from kafka_s3.run.wiring.iceberg import CATALOG, table_names, warehouse_of

    return CatalogTable(
        settings.text(f"{CATALOG}type"),
        settings.text(f"{CATALOG}uri"),
        warehouse_of(settings),
        table_names(settings).of(topic).parts,
        str(settings.prefixed(CATALOG).get("name") or "iceberg"),
        store_options(settings).region,
    )


def _registered(settings: Settings, objects: TopicObjects) -> TableColumns | None:
    """The columns by the registry, where JSON is written of values as they come: the objects themselves need not name all fields."""
    changed = settings.names("transforms") or settings.flag("record.metadata.enable")
    by_registry = settings.text("value.converter") in REGISTRY_CONVERTERS and objects.newest[0].format == "json"
    if not by_registry or changed:
        return None
    with latest_schemas(settings) as latest:
        schema = latest(
            objects.topic
        )  # None, where it is registered under another name: the objects have to be looked into
    return None if schema is None else json_columns(schema, decimals=settings.text("json.decimal.format").upper())
