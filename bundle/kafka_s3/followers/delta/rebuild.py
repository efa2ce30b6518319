"""How is a table made again from the commit log? In place, by one commit of what differs; or from nothing, where that cannot be.

In place, the files of the log that are not in the table go in, and all others go out: also those that other writers have made of ours
(OPTIMIZE, UPDATE, DELETE). No object is deleted. From nothing, the table's own log is deleted first, newest version first, so that a crash
in between leaves an older version of the table, which catches up or is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.entries import by_topic
from kafka_s3.followers.delta.planner import TablePlan, TablePlanner
from kafka_s3.followers.delta.states import Commit, TableState
from kafka_s3.followers.delta.table import REMEDY, Table
from kafka_s3.model.errors import ObjectMissing, TableRefused
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did to one table: files added and taken out, and those left out, by key, with the reason."""

    topic: str
    added: int = 0
    removed: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


def rebuild(
    log: CommitLog, table_planner: TablePlanner, table: Table, *, topic: str, clock_ms: Callable[[], int]
) -> Rebuilt:
    """Makes a topic's table in place. Raises TableError, StorageError; ObjectMissing where the table would lose records."""
    entries = by_topic(log.entries()).get(topic, [])
    if not entries:
        return Rebuilt(topic)
    state = table.state()
    if state is not None and state.obstacles:
        raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {REMEDY}")
    held = table.files() if state is not None else {}
    files = [file for one in entries for file in one.files]
    wanted = {table_planner.layout.path(file) for file in files}
    lacking = [file for file in files if table_planner.layout.path(file) not in held]
    removed = [path for path in held if path not in wanted]
    if removed:
        _check_objects(table_planner.store, lacking)
    modified = {file.key: one.committed_ms for one in entries for file in one.files}
    plan = table_planner.plan(state, lacking, modified_ms=modified)
    note = {"kafka-s3": "rebuild", "entries": [entries[0].version, entries[-1].version]}
    commit = Commit(entries[-1].version, plan.files, removed, note, clock_ms())
    _apply(table, state, plan, commit)
    return Rebuilt(topic, len(plan.files), len(removed), plan.left_out)


def _apply(table: Table, state: TableState | None, plan: TablePlan, commit: Commit) -> None:
    if state is None:
        table.create(plan.columns, plan.partition_by, commit)
        return
    if plan.columns.fields != state.columns.fields:
        table.evolve(plan.columns, at_ms=commit.at_ms)
        table.state()
    if commit.files or commit.removed or commit.position > state.position:
        table.append(commit)


def _check_objects(store: ObjectStore, files: list[DataFile]) -> None:
    gone = [file.key for file in files if store.head(file.key) is None]
    if gone:
        shown = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
        raise ObjectMissing(
            f"{len(gone)} objects of the log are gone ({shown}); other files of the table may hold their records (OPTIMIZE, then VACUUM), "
            "and would be taken out. Nothing was changed. Restore the objects, or begin from nothing with --fresh, which goes without them."
        )


def forget(store: ObjectStore, folder: str) -> int:
    """Deletes a table's own log, newest version first; the objects stay. Gives how many objects of it there were."""
    keys = sorted((info.key for info in store.list(f"{folder}_delta_log/")), reverse=True)
    pointers = [key for key in keys if key.endswith("_last_checkpoint")]
    for key in [*pointers, *(key for key in keys if key not in pointers)]:
        store.delete(key)
    return len(keys)
