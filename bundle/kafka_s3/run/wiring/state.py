"""How does a configuration become state tables? Settings in; the rules of their content, and what keeps them, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.state_terms import delete_mark, key_terms, order_path, path_of
from kafka_s3.connect.naming.table_names import TableNames
from kafka_s3.engine.task.table_guard.columns import Mode
from kafka_s3.followers.state import FollowingStates, StateMerger, StateNotes, StateRules, StateTables
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.protocols import StateProgress
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import ObjectStore

NEEDS_SPARK = "needs a Spark that knows Delta, and there is none here."


def kept_by_sink(settings: Settings) -> bool:
    """Whether the running sink keeps state tables."""
    return settings.flag("state.enable") and settings.text("state.run.on") == "sink"


def state_rules(settings: Settings) -> StateRules:
    """What the state tables hold."""
    return StateRules(
        key=key_terms(settings.names("state.key")),
        deletes=tuple(map(delete_mark, settings.names("state.delete.on"))),
        order_by=order_path(settings.text("state.order.by")),
        columns=tuple(map(path_of, settings.names("state.columns"))),
        retention_ms=settings.number("state.delete.retention.ms"),
        mode=Mode(settings.text("state.schema.evolution.mode")),
        tolerant=settings.text("errors.tolerance") == "all",
        placeholder=settings.text("state.unavailable.value.placeholder"),
    )


def state_merger(
    settings: Settings,
    store: ObjectStore,
    tables: StateTables,
    *,
    clock_ms: Callable[[], int],
    warn: Callable[[str], None],
) -> StateMerger:
    """What keeps the state tables of a sink whose `state.enable` is true."""
    pattern = settings.text("state.table")
    notes = StateNotes(store, state_paths(settings), pattern)
    return StateMerger(state_rules(settings), notes, tables, TableNames(pattern, "state.table"), clock_ms, warn)


def state_follower(
    settings: Settings,
    store: ObjectStore,
    tables: StateTables | None,
    *,
    clock_ms: Callable[[], int],
    warn: Callable[[str], None],
    report: Callable[[Mapping[str, StateProgress]], None],
) -> FollowingStates:
    """The follower that keeps them beside the sink. Raises ConfigError where there is no Spark for it."""
    if tables is None:
        remedy = "Run the sink on Spark, or set state.run.on=job."
        raise ConfigError([Problem("state.run.on", "sink", NEEDS_SPARK, remedy)])
    merger = state_merger(settings, store, tables, clock_ms=clock_ms, warn=warn)
    interval, entries = settings.number("state.interval.ms"), settings.number("state.interval.entries")
    return FollowingStates(merger, interval, entries, clock_ms, report)
