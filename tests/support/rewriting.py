"""What somebody asks of a sink's log in tests: to put its small objects together, or to forget a record."""

from __future__ import annotations

from typing import Protocol

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges, plan_merges
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import ObjectStore


class SinkWorld(Protocol):
    """A sink with a bucket and a clock."""

    now: int
    settings: Settings


def ask_for_compaction(world: SinkWorld, store: ObjectStore, *, target: int = 1 << 20) -> list[CommitEntry]:
    """Merges all that can be, as `kafka-s3 compact` does beside a sink; gives the requests."""
    log = CommitLog(store, state_paths(world.settings), clock_ms=lambda: world.now)
    entries = list(log.entries())
    if not entries:
        return []
    across = world.settings.flag("compact.across.partitions")
    rules = CompactionRules(target, until_ms=world.now + 1, across=across)
    merges = plan_merges(live_objects(entries).values(), rules)
    compactor = compactor_of(world.settings, store)
    version = entries[-1].version
    return list(
        ask_for_merges(compactor, log.paths, merges, version=version, by="compact", skipped=lambda merge, error: None)
    )
