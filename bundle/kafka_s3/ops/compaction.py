"""How does an operator compact what a sink wrote? Looks at what would become of it, makes the objects, and has the log's owner take them.

Beside a sink at work the objects are asked for, and the sink puts them into its log within a second or two. Where none is at work the
command takes the log over and does the same itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.compaction import CompactionRules, Merge, ask_for_merges, plan_merges
from kafka_s3.model.errors import ConfigError, Problem, SinkError
from kafka_s3.ops.forecast import GIB, Prices
from kafka_s3.ops.rewrites import WAIT_S, RewriteRequests, Warn, check_topics, who
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import is_block_gzip, state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class CompactionForecast:
    """What a compaction would do: `before` files of `bytes` with `records` become `after`; objects are counted with sidecars."""

    before: int
    after: int
    objects_before: int
    objects_after: int
    records: int
    bytes: int

    @property
    def writes(self) -> int:
        """Writing requests: for each object one to begin its upload, about one part, and one to complete it; and the entry's own."""
        return 3 * self.objects_after + 4

    @property
    def reads(self) -> int:
        """Return the reading requests: each original is read, and looked at before its deletion, which costs nothing."""
        return 2 * self.objects_before

    def document(self, prices: Prices, *, grace_ms: int) -> dict[str, Any]:
        """For programs. Both objects are stored until the originals' grace is over."""
        price = self.writes / 1000 * prices.per_thousand_writes + self.reads / 1000 * prices.per_thousand_reads
        storage = self.bytes / GIB * prices.per_gib_month * grace_ms / (365 / 12 * 86_400_000)
        return {
            "files_before": self.before, "files_after": self.after, "objects_before": self.objects_before,
            "objects_after": self.objects_after, "records": self.records, "bytes": self.bytes, "writes": self.writes,
            "reads": self.reads, "requests_price": price, "storage_price_of_grace": storage,
        }  # fmt: skip


def forecast_of(merges: list[Merge]) -> CompactionForecast:
    """What these merges would do."""
    return CompactionForecast(
        before=sum(merge.files for merge in merges),
        after=len(merges),
        objects_before=sum(merge.files * len(merge.objects) for merge in merges),
        objects_after=sum(len(merge.objects) for merge in merges),
        records=sum(merge.records for merge in merges),
        bytes=sum(merge.bytes for merge in merges),
    )


@dataclass
class Compaction:
    """One sink's. Raises ConfigError where its objects do not allow one."""

    settings: Settings
    store: ObjectStore
    clock_ms: Callable[[], int]
    warn: Warn
    wait_s: float = WAIT_S
    log: CommitLog = field(init=False)

    def __post_init__(self) -> None:
        check_compactable(self.settings)
        self.log = CommitLog(self.store, state_paths(self.settings), clock_ms=self.clock_ms)

    def plan(self, rules: CompactionRules) -> tuple[int, list[Merge]]:
        """The log's last version, and which files would become one. Raises LogDamaged, StorageError, ConfigError."""
        most = self.settings.number("writer.memory.bytes") // 3
        if rules.target_bytes > most:
            rule = (
                f"is above a third of writer.memory.bytes, {most}: originals, object and proof are in memory together."
            )
            raise ConfigError(
                [Problem("--target-size", str(rules.target_bytes), rule, "Give less, or set that higher.")]
            )
        entries = list(self.log.entries())
        waiting = {one.file.key for one in entries[-1].waiting} if entries else set()
        check_topics(rules.topics, entries)
        live = (one for key, one in live_objects(entries).items() if key not in waiting)
        return (entries[-1].version if entries else -1), plan_merges(live, rules)

    def run(self, rules: CompactionRules) -> Iterator[CommitEntry]:
        """Compacts; gives each entry that says so. Raises NotTaken, CommitError, StorageError; what is in the log by then stays."""
        version, merges = self.plan(rules)
        compactor = compactor_of(self.settings, self.store)

        def skipped(merge: Merge, error: SinkError) -> None:
            self.warn(f"{merge.files} files from {merge.first.key} on stay as they are: {error}")

        for request in ask_for_merges(compactor, self.log.paths, merges, version=version, by=who(), skipped=skipped):
            yield self._requests().taken(request)

    def _requests(self) -> RewriteRequests:
        return RewriteRequests(self.settings, self.log, self.clock_ms, self.warn, self.wait_s)


def check_compactable(settings: Settings) -> None:
    """Raises ConfigError where files of a sink cannot be put together."""
    if is_block_gzip(settings):
        rule = "writes Block-GZIP, whose readers find records by the names of files and their indexes."
        remedy = "Let it write larger files: offset.flush.interval.ms, block.gzip.file.interval.ms."
        raise ConfigError([Problem("connector.class", settings.text("connector.class"), rule, remedy)])


def compaction_of(
    settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Warn, wait_s: float = WAIT_S
) -> Compaction:
    """The compaction of a sink of resolved settings. Raises ConfigError."""
    return Compaction(settings, store, clock_ms, warn, wait_s)


def compact_sink(
    settings: Settings, rules: CompactionRules, *, clock_ms: Callable[[], int], warn: Warn
) -> list[CommitEntry]:
    """Compacts what a sink of resolved settings wrote; gives the entries. Raises as `Compaction.run`."""
    with closing(S3Store(store_options(settings))) as store:
        return list(compaction_of(settings, store, clock_ms=clock_ms, warn=warn).run(rules))


def forecast_sink(settings: Settings, rules: CompactionRules, *, clock_ms: Callable[[], int]) -> CompactionForecast:
    """What a compaction of a sink of resolved settings would do. Raises as `Compaction.plan`."""
    with closing(S3Store(store_options(settings))) as store:
        return forecast_of(compaction_of(settings, store, clock_ms=clock_ms, warn=print).plan(rules)[1])
