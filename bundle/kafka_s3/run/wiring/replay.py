"""How are the files of a replay made again, and watched by the Delta tables, under a configuration?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.rewrites import Rewrite, Rewritten
from kafka_s3.followers.dead_letter_source import Guard, rewrite_from_letters, unguarded
from kafka_s3.model.files import DataFile
from kafka_s3.model.protocols import Source
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.run.wiring.delta import Tables


def guard_of(settings: Settings, bucket: ObjectStore, *, tables: Tables | None = None) -> Guard:
    """The watch of the sink's Delta tables, where it keeps any; `tables` that are open already are used."""

    def guard(source: Source, store: ObjectStore) -> Source:
        from kafka_s3.run.wiring.delta import guarded  # loads delta-rs

        return guarded(settings, source, store, bucket=bucket, tables=tables)

    return guard if settings.flag("delta.enable") else unguarded


def replays_again(settings: Settings, store: ObjectStore) -> Rewrite:
    """Makes files of an entry of kind replay again, for a sink that finds their uploads gone."""
    paths = state_paths(settings)

    def rewrite(entry: CommitEntry, gone: list[DataFile]) -> Rewritten:
        made = rewrite_from_letters(
            entry, gone, pipeline=make_pipeline(settings), store=store, paths=paths, guard=guard_of(settings, store)
        )
        return Rewritten(made)

    return rewrite
