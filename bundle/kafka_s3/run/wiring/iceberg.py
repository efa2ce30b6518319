"""How does a configuration become Iceberg tables? The composition: settings and a bucket in, catalog, tables and the follower out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_s3.connect.config.settings import Settings, masking
from kafka_s3.connect.naming.partition_terms import partition_terms
from kafka_s3.connect.naming.table_names import TableNames
from kafka_s3.engine.task.table_guard.columns import Mode, iceberg_columns
from kafka_s3.followers.delta.follower import ChangeReporter, FollowingTables, ZeroCopy
from kafka_s3.followers.delta.planner import TableLayout, TablePlanner
from kafka_s3.model.errors import TableError
from kafka_s3.model.text import Secret
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.delta import table_layout
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store, aws_client
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from kafka_s3.followers.iceberg.maintain import Tidied
    from kafka_s3.followers.iceberg.table import IcebergTable

    IcebergTables: TypeAlias = Callable[[str], IcebergTable]

ICEBERG: Final = "Iceberg tables"
CATALOG: Final = "iceberg.catalog."
NAME: Final = "iceberg.table.name"
MODE: Final = "iceberg.schema.evolution.mode"
CUT_SHORT: Final = frozenset("?#")
"""Iceberg's readers take a location for a URL, and these for the end of its path."""


def iceberg_follower(
    settings: Settings,
    store: ObjectStore,
    *,
    clock_ms: Callable[[], int],
    warn: Callable[[str], None],
    tables: IcebergTables | None = None,
) -> FollowingTables:
    """The follower of a sink whose `iceberg.enable` is true; `tables` are those that the sink has open already."""
    reporter = ChangeReporter(warn, ICEBERG)
    table = tables or iceberg_tables(settings, store, warn=warn)
    planner = iceberg_planner(settings, store)
    writer = ZeroCopy(planner, settings.name, table, clock_ms, reporter, rebuild="kafka-s3 iceberg rebuild")
    return FollowingTables(
        ICEBERG,
        writer,
        store,
        key=iceberg_position_key(settings),
        clock_ms=clock_ms,
        metadata=lambda topic: table(topic).metadata_location,
    )


def iceberg_position_key(settings: Settings) -> str:
    """The key of the object that says how far the tables have come: those of another catalog or name are other tables."""
    names = (f"{CATALOG}type", f"{CATALOG}uri", f"{CATALOG}warehouse", NAME)
    identity = json.dumps([settings.text(name) for name in names]).encode()
    return state_paths(settings).follower(f"iceberg-{hashlib.sha256(identity).hexdigest()[:8]}")


def iceberg_planner(settings: Settings, store: ObjectStore) -> TablePlanner:
    """How the sink's files are taken into tables."""
    return TablePlanner(
        store,
        iceberg_layout(settings),
        Mode(settings.text(MODE)),
        tolerant=settings.text("errors.tolerance") == "all",
        columns_of=iceberg_columns,
        mode_key=MODE,
        unreadable=CUT_SHORT,
    )


def iceberg_layout(settings: Settings) -> TableLayout:
    """How the sink's objects lie below `topics.dir`, and which of their directories give columns."""
    terms = partition_terms(settings.text("iceberg.partition.by"))
    named = frozenset(term.column for term in terms if term.transform == "identity")
    return replace(table_layout(settings), columns=named if terms else None)


def iceberg_tables(
    settings: Settings, store: ObjectStore, *, warn: Callable[[str], None], catalog: Callable[[], Catalog] | None = None
) -> IcebergTables:
    """Gives the table of a topic; the same one each time."""
    from kafka_s3.followers.iceberg.table import IcebergTable  # loads pyiceberg

    layout, names = iceberg_layout(settings), table_names(settings)
    bucket, hide = settings.text("s3.bucket.name"), masking(settings)
    terms = partition_terms(settings.text("iceberg.partition.by"))
    opened = catalog or cache(lambda: catalog_of(settings, store))

    @cache
    def table(topic: str) -> IcebergTable:
        root = f"s3://{bucket}/{layout.folder(topic)}"
        parts = names.of(topic).parts
        return IcebergTable(
            parts, opened, settings.name, root, terms, warn, hide, namespace_location(settings, parts[:-1])
        )

    return table


def table_names(settings: Settings) -> TableNames:
    """What the tables are called."""
    return TableNames(settings.text(NAME), NAME)


def warehouse_of(settings: Settings) -> str:
    """Where the catalog puts the tables' own metadata; blank where a REST catalog decides that."""
    given = settings.text(f"{CATALOG}warehouse")
    return (
        given
        if given or settings.text(f"{CATALOG}type") == "rest"
        else f"s3://{store_options(settings).bucket}/iceberg"
    )


def namespace_location(settings: Settings, namespace: Sequence[str]) -> str:
    """Where a namespace lies that the sink makes: a Hive metastore would put it into a warehouse of its own, seldom in S3. Else blank."""
    hive = settings.text(f"{CATALOG}type") == "hive"
    return f"{warehouse_of(settings).rstrip('/')}/{'.'.join(namespace)}.db" if hive else ""


def catalog_of(settings: Settings, store: ObjectStore) -> Catalog:
    """The catalog of a configuration. pyiceberg's own files and environment variables do not count."""
    from kafka_s3.followers.iceberg.bucket_io import io_properties  # loads pyiceberg

    kind = settings.text(f"{CATALOG}type")
    given = {
        key: value.reveal() if isinstance(value, Secret) else value for key, value in settings.prefixed(CATALOG).items()
    }
    properties: dict[str, Any] = {key: value for key, value in given.items() if key not in ("type", "name") and value}
    if where := warehouse_of(settings):
        properties["warehouse"] = where
    return _opened(
        settings, kind, given.get("name", "iceberg"), {**properties, **io_properties(buckets_of(settings, store))}
    )


def buckets_of(settings: Settings, store: ObjectStore) -> Callable[[str], ObjectStore]:
    """Gives the store of a bucket: the sink's own, or one that is reached with the same settings."""
    options = store_options(settings)
    return lambda name: store if name == options.bucket else S3Store(replace(options, bucket=name))


def tidy_tables(
    settings: Settings, store: ObjectStore, *, topics: Sequence[str], dry_run: bool
) -> Iterator[tuple[str, Tidied | TableError | None]]:
    """Maintains each topic's table: what was done, None where there is no table yet, or what kept it from that."""
    from kafka_s3.followers.iceberg.maintain import tidy

    table, buckets = iceberg_tables(settings, store, warn=print), buckets_of(settings, store)
    for topic in topics:
        done: Tidied | TableError | None
        try:
            done = tidy(table(topic), buckets, topic=topic, now_ms=now_ms(), dry_run=dry_run)
        except TableError as error:
            done = error
        yield topic, done


def _opened(settings: Settings, kind: str, name: str, properties: dict[str, Any]) -> Catalog:
    if kind == "sql":
        return _sql_catalog(name, properties)
    if kind == "glue":
        from pyiceberg.catalog.glue import GlueCatalog

        options, endpoint = store_options(settings), settings.text("aws.endpoint.url") or None
        client = aws_client("glue", options, endpoint)
        return GlueCatalog(name, client=client, **properties)
    if kind == "hive":
        from pyiceberg.catalog.hive import HiveCatalog

        return HiveCatalog(name, **properties)
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog(name, **properties)


def _sql_catalog(name: str, properties: dict[str, Any]) -> Catalog:
    """A catalog in a database, whose connections never keep a transaction whose COMMIT failed: the next read would see what never was.

    SQLAlchemy hands on such connections. SQLite's COMMIT fails while another process reads; others end the transaction themselves.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import event

    def roll_back(connection: Any, record: object) -> None:
        del record
        if connection is not None:
            connection.rollback()

    catalog = SqlCatalog(name, **properties)
    event.listen(catalog.engine, "checkin", roll_back)
    return catalog
