"""How are the Delta tables of a sink kept quick to read? Small files become large ones by the sink's log; what was replaced may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.compaction import CompactionRules
from kafka_s3.followers.delta.findings import topics_with_tables
from kafka_s3.followers.delta.maintain import Chores, Maintained, Maintenance
from kafka_s3.model.errors import TableError, TableUnavailable
from kafka_s3.ops.compaction import Compaction
from kafka_s3.ops.rewrites import WAIT_S, NotTaken, Warn
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.delta import table_layout, tables_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore


def maintain_tables(
    settings: Settings,
    chores: Chores,
    *,
    topics: Sequence[str] | None = None,
    dry_run: bool,
    clock_ms: Callable[[], int],
    warn: Warn,
) -> Iterator[tuple[str, Maintained | TableError | None]]:
    """Maintains each topic's table, or only looks at it: what was done, None where there is no table yet, or what kept it from that.

    `topics` None are all that have objects for one.
    """
    store = S3Store(store_options(settings))
    work, table = maintenance_of(settings, store, clock_ms=clock_ms, warn=warn), tables_of(settings, store)
    for topic in topics_with_tables(work.log) if topics is None else topics:
        done: Maintained | TableError | None
        try:
            done = (work.inspect if dry_run else work.run)(table(topic), chores, topic=topic)
        except TableError as error:
            done = error
        yield topic, done


def maintenance_of(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Warn, wait_s: float = WAIT_S
) -> Maintenance:
    """The chores of a sink of resolved settings; a sink at work has `wait_s` seconds for each rewrite."""
    work = Compaction(settings, store, clock_ms=clock_ms, warn=warn, wait_s=wait_s)

    def compact(topic: str, keys: Set[str]) -> None:
        target = settings.number("compact.target.bytes")
        rules = CompactionRules(
            target,
            until_ms=clock_ms() + 1,
            topics=frozenset({topic}),
            keys=keys,
            sort_by=settings.names("compact.sort.by"),
            across=settings.flag("compact.across.partitions"),
        )
        try:
            for _ in work.run(rules):
                pass
        except NotTaken as error:
            raise TableUnavailable(str(error)) from error

    log = CommitLog(store, state_paths(settings), clock_ms=clock_ms)
    return Maintenance(store, log, table_layout(settings), compact)
