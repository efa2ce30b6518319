"""Do table, commit log and bucket agree, and how is a table made again from the log?

They agree where every object of the log is in its topic's table, and every file of the table in the bucket. Other writers may rewrite files
(OPTIMIZE): theirs are those that the log does not name, and must hold as many records as those that they replaced.

A rebuild in place is one commit of what differs: the files of the log that are not in the table go in, and all others go out, also those
that other writers have made of ours (OPTIMIZE, UPDATE, DELETE). No object is deleted. From nothing, the table's own log is deleted first,
newest version first, so that a crash in between leaves an older version of the table, which catches up or is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.follower import EntryFiles, by_topic
from kafka_s3.followers.delta.planner import Commit, TablePlan, TablePlanner, TableState
from kafka_s3.followers.delta.table import REMEDY, Table
from kafka_s3.followers.progress import read_positions
from kafka_s3.model.errors import ObjectMissing, TableError, TableRefused
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore


class DifferenceKind(StrEnum):
    """What is wrong."""

    NO_TABLE = "no table"
    REFUSED = "table refused"
    BEHIND = "table behind"
    NOT_IN_TABLE = "object not in table"
    MISSING_OBJECT = "missing object"
    WRONG_SIZE = "wrong size"
    WRONG_COUNT = "wrong count"


@dataclass(frozen=True, slots=True)
class TableDifference:
    """One thing that is wrong: what, where, and a text that ends with the remedy."""

    kind: DifferenceKind
    place: str
    text: str


@dataclass(slots=True)
class TableCheck:
    """What was looked at of one table. `files` and `records` are the log's, `rewritten` those that other writers put into other files."""

    topic: str
    address: str
    version: int | None = None
    position: int = -1
    files: int = 0
    records: int = 0
    rewritten: int = 0
    findings: list[TableDifference] = field(default_factory=list)


REBUILD = "kafka-s3 delta rebuild puts it right."


def topics_with_tables(log: CommitLog) -> list[str]:
    """The topics of which the log has Parquet objects. Raises StorageError, LogDamaged."""
    return sorted(by_topic(log.entries()))


def check_table(log: CommitLog, table_planner: TablePlanner, table: Table, *, topic: str) -> TableCheck:
    """Compares one topic's table. Raises StorageError, CommitError; what the table itself refuses is a finding."""
    entries = by_topic(log.entries()).get(topic, [])
    ours = {table_planner.layout.path(file): file for one in entries for file in one.files}
    found = TableCheck(topic, table.address, files=len(ours), records=sum(file.records for file in ours.values()))
    try:
        state = table.state()
    except TableError as error:
        found.findings.append(TableDifference(DifferenceKind.REFUSED, table.address, str(error)))
        return found
    if state is None:
        if ours:
            text = f"The log has {len(ours)} objects, but there is no table. A run of the sink makes it, as does kafka-s3 delta rebuild."
            found.findings.append(TableDifference(DifferenceKind.NO_TABLE, table.address, text))
        return found
    found.version, found.position = state.version, state.position
    found.findings += _standing(state, entries, address=table.address)
    held = table.files()
    found.findings += _absent(found, ours, held)
    found.findings += _in_bucket(table_planner, topic, held)
    return found


def check_copy(log: CommitLog, store: ObjectStore, key: str, *, topic: str, name: str) -> TableCheck:
    """How far one table has come that Spark writes: what is in it only Spark can say. Raises StorageError, CommitError."""
    entries = by_topic(log.entries()).get(topic, [])
    files = [file for one in entries for file in one.files]
    position = read_positions(store, key).position_of(topic)
    found = TableCheck(topic, name, None, position, len(files), sum(file.records for file in files))
    if entries and entries[-1].version > position:
        found.findings.append(_behind(position, entries, address=name))
    return found


def _standing(state: TableState, entries: list[EntryFiles], *, address: str) -> Iterable[TableDifference]:
    for obstacle in state.obstacles:
        yield TableDifference(
            DifferenceKind.REFUSED,
            address,
            f"The table has {obstacle}, so that objects cannot be added as they are. Drop it.",
        )
    if entries and entries[-1].version > state.position:
        yield _behind(state.position, entries, address=address)


def _behind(position: int, entries: list[EntryFiles], *, address: str) -> TableDifference:
    text = (
        f"The table has come to entry {position}, the log to {entries[-1].version}. A run of the sink lets it catch up."
    )
    return TableDifference(DifferenceKind.BEHIND, address, text)


def _absent(
    found: TableCheck, ours: Mapping[str, DataFile], held: Mapping[str, tuple[int, int | None]]
) -> Iterable[TableDifference]:
    """Objects of the log that are not in the table, unless others' files hold as many records."""
    absent = [file for path, file in ours.items() if path not in held]
    others = {path: counts for path, (_, counts) in held.items() if path not in ours}
    records = sum(file.records for file in absent)
    if absent and others and sum(count or 0 for count in others.values()) >= records:
        found.rewritten = len(absent)
        return
    if absent and others:
        held_count = sum(count or 0 for count in others.values())
        text = (
            f"{len(absent)} objects with {records} records were replaced by {len(others)} files of other writers, which hold {held_count} "
            f"records. Were rows deleted? If not: {REBUILD}"
        )
        yield TableDifference(DifferenceKind.WRONG_COUNT, found.address, text)
        return
    for file in absent:
        yield TableDifference(
            DifferenceKind.NOT_IN_TABLE,
            file.key,
            f"The object of {file.records} records is not in the table. {REBUILD}",
        )


def _in_bucket(
    table_planner: TablePlanner, topic: str, held: Mapping[str, tuple[int, int | None]]
) -> Iterable[TableDifference]:
    folder = table_planner.layout.folder(topic)
    sizes = {info.key.removeprefix(folder): info.size for info in table_planner.store.list(folder)}
    for path, (size, _) in sorted(held.items()):
        if path not in sizes:
            text = "The table has a file that the bucket has not: reading the table fails. Restore it, or kafka-s3 delta rebuild."
            yield TableDifference(DifferenceKind.MISSING_OBJECT, f"{folder}{path}", text)
        elif sizes[path] != size:
            text = f"The object has {sizes[path]} bytes, the table says {size}. Restore it from a bucket version, or {REBUILD}"
            yield TableDifference(DifferenceKind.WRONG_SIZE, f"{folder}{path}", text)


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
