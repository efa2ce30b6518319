"""How does an operator compact what a sink wrote? Looks at what would become of it, makes the objects, and has the log's owner take them.

Beside a sink at work the objects are asked for, and the sink puts them into its log within a second or two. Where none is at work the
command takes the log over and does the same itself.
"""

from __future__ import annotations

import getpass
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import CommandRequest, ask_look
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import RequestState, judge_request
from kafka_s3.engine.loop.committer import Committer
from kafka_s3.engine.loop.rewrites import Rewrites
from kafka_s3.followers.compaction import CompactionRules, Merge, ask_for_merges, plan_merges
from kafka_s3.model.errors import CommitError, ConfigError, Problem, SinkError
from kafka_s3.model.files import DataFile
from kafka_s3.ops.forecast import GIB, Prices
from kafka_s3.ops.positions import BY_HAND, DriverAtWork, check_idle
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import is_block_gzip, state_paths
from kafka_s3.run.wiring.sink import compactor_of
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ObjectStore

WAIT_S: Final = 300.0
"""How long a sink at work has to take what is asked for."""
LOOK_S: Final = 0.5
ASK_AGAIN_S: Final = 10.0
QUIET_MS: Final = 60_000
Warn = Callable[[str], None]


class NotTaken(CommitError):
    """The sink has not taken a rewrite, or has refused it; the objects are as they were."""


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
        """Reading requests, deletions left out: they cost nothing."""
        return self.objects_before

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
        live = (one for key, one in live_objects(entries).items() if key not in waiting)
        return (entries[-1].version if entries else -1), plan_merges(live, rules)

    def run(self, rules: CompactionRules) -> Iterator[CommitEntry]:
        """Compacts; gives each entry that says so. Raises NotTaken, CommitError, StorageError; what is in the log by then stays."""
        version, merges = self.plan(rules)
        by = f"{getpass.getuser()}@{socket.gethostname()}{BY_HAND}"
        compactor = compactor_of(self.settings, self.store)

        def skipped(merge: Merge, error: SinkError) -> None:
            self.warn(f"{merge.files} files from {merge.first.key} on stay as they are: {error}")

        for request in ask_for_merges(compactor, self.log.paths, merges, version=version, by=by, skipped=skipped):
            yield self._taken(request)

    def _taken(self, request: CommitEntry) -> CommitEntry:
        """The entry that a request has become, by the sink at work, or by this process where none is."""
        deadline = time.monotonic() + self.wait_s
        key = self.log.paths.rewrite_request(request.commit_id)
        while self.store.head(key) is not None:
            self.log.load()
            try:
                check_idle(self.log, now_ms=self.clock_ms(), within_ms=QUIET_MS)
            except DriverAtWork as error:
                self._ask(request, key)
                if time.monotonic() >= deadline and self.store.head(key) is not None:
                    raise NotTaken(
                        f"Sink {self.log.paths.sink} has not taken a rewrite within {self.wait_s:.0f} s; is it paused? It waits in {key}, "
                        "and the sink takes it when it goes on, or starts."
                    ) from error
            else:
                self._take()
        return self._entry(request)

    def _take(self) -> None:
        """As the owner of the log, which ends any driver that began meanwhile."""
        compactor = compactor_of(self.settings, self.store)
        committer = Committer(self.log, lambda entry, gone: _remade(compactor.remake, entry, gone))
        committer.claim(self.log.state.cluster_id)
        grace_ms = self.settings.number("rewrite.grace.ms")
        rewrites = Rewrites(self.log, committer.commit, self.warn, grace_ms)
        rewrites.settle_requests()
        rewrites.delete_originals()

    def _ask(self, request: CommitEntry, key: str) -> None:
        """Asks the sink at work to look, and gives it a while."""
        asked = CommandRequest(uuid.uuid4().hex, self.clock_ms(), request.driver)
        ask_look(self.store, self.log.paths, asked)
        until = time.monotonic() + min(ASK_AGAIN_S, self.wait_s)
        while time.monotonic() < until and self.store.head(key) is not None:
            time.sleep(LOOK_S)

    def _entry(self, request: CommitEntry) -> CommitEntry:
        since = list(self.log.entries(after=request.version))
        state, why = judge_request(request, since)
        if state is not RequestState.DONE:
            raise NotTaken(
                f"A rewrite was not taken: {why or 'its uploads were gone.'} Nothing has changed; repeat the command."
            )
        return next(entry for entry in since if entry.commit_id == request.commit_id)


def _remade(remake: Callable[..., Any], entry: CommitEntry, gone: list[DataFile]) -> Any:
    if entry.kind is EntryKind.REWRITE:
        return remake(entry, gone)
    raise CommitError(
        f"Commit entry {entry.version} counts files whose uploads are gone; they are made again from Kafka by a run. Start the sink once "
        "with `kafka-s3 run`, stop it, then repeat."
    )


def check_compactable(settings: Settings) -> None:
    """Raises ConfigError where files of a sink cannot be put together."""
    if is_block_gzip(settings):
        rule = "is a format whose readers find records by the names of files and their indexes."
        raise ConfigError(
            [Problem("connector.class", settings.text("connector.class"), rule, "Such a sink is not compacted.")]
        )
    for key in ("delta.enable", "iceberg.enable"):
        if settings.flag(key):
            rule = "keeps tables over the objects, which do not follow a rewrite yet."
            raise ConfigError(
                [Problem(key, "true", rule, "Maintain the tables instead: kafka-s3 delta, kafka-s3 iceberg.")]
            )


def compaction_of(settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int], warn: Warn) -> Compaction:
    """The compaction of a sink of resolved settings. Raises ConfigError."""
    return Compaction(settings, store, clock_ms, warn)


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
