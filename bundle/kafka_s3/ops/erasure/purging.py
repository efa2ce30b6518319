"""How does the history of tables forget erased records? Earlier versions leave them, with the bounds of columns that they keep.

A table's log names replaced files, so that earlier versions can be read as long as these are there, and keeps the smallest and the largest
value of their columns for longer. Once a table has followed the erasure, everything but its newest version goes. Objects of the sink stay:
it deletes the originals when `rewrite.grace.ms` is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.heartbeat import read_heartbeat
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.findings import topics_with_tables
from kafka_s3.model.errors import TableUnavailable
from kafka_s3.ops.rewrites import LOOK_S, WAIT_S, Warn
from kafka_s3.run.wiring.followers import followed_by_tables, tables_without_spark
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import ObjectStore

TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Purged:
    """A table whose history is gone: how many objects of its own metadata were deleted."""

    table: str
    objects: int


@dataclass(frozen=True, slots=True)
class Purging:
    """That of one sink's tables. A sink at work has `wait_s` seconds to bring them up to the log."""

    settings: Settings
    store: ObjectStore
    clock_ms: Callable[[], int]
    warn: Warn
    wait_s: float = WAIT_S

    def run(self, topics: Sequence[str] = ()) -> Iterator[Purged]:
        """Purges the tables of these topics, of all without. Raises TableError, StorageError, LogDamaged; what is done by then stays."""
        log = CommitLog(self.store, state_paths(self.settings), clock_ms=self.clock_ms)
        known = topics_with_tables(log)
        chosen = [topic for topic in topics or known if topic in known]
        if not chosen or not (self.settings.flag("delta.enable") or self.settings.flag("iceberg.enable")):
            return
        self._await_tables(log, chosen)
        for topic in chosen:
            yield from self._of_delta(topic)
            yield from self._of_iceberg(topic)

    def _await_tables(self, log: CommitLog, topics: Sequence[str]) -> None:
        wanted, followed = log.load().version, followed_by_tables(self.settings, self.store)
        until = time.monotonic() + self.wait_s
        while followed(topics) < wanted:
            beat = read_heartbeat(self.store, log.paths)
            if beat is None or not beat.alive(self.clock_ms()):
                for tables in tables_without_spark(self.settings, self.store, clock_ms=self.clock_ms, warn=self.warn):
                    tables.catch_up(log)
                return
            if time.monotonic() >= until:
                raise TableUnavailable(
                    f"The tables of {', '.join(topics)} have come to entry {followed(topics)}, the log to {wanted}: their history stays. "
                    "kafka-s3 status says why they do not follow; repeat the command with --purge then."
                )
            time.sleep(LOOK_S)

    def _of_delta(self, topic: str) -> Iterator[Purged]:
        if not self.settings.flag("delta.enable"):
            return
        from kafka_s3.run.wiring.delta import tables_of  # loads delta-rs

        table = tables_of(self.settings, self.store)(topic)
        if table.state() is not None:
            yield Purged(table.address, table.forget_history())

    def _of_iceberg(self, topic: str) -> Iterator[Purged]:
        if not self.settings.flag("iceberg.enable"):
            return
        from kafka_s3.followers.iceberg.bucket_io import bucket_and_key
        from kafka_s3.run.wiring.iceberg import buckets_of, iceberg_tables  # loads pyiceberg

        table, buckets = (
            iceberg_tables(self.settings, self.store, warn=self.warn)(topic),
            buckets_of(self.settings, self.store),
        )

        def delete(location: str) -> None:
            bucket, key = bucket_and_key(location)
            buckets(bucket).delete(key)

        for attempt in range(1, TRIES + 1):
            try:
                if table.state() is not None:
                    yield Purged(table.address, table.forget_history(delete))
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise
