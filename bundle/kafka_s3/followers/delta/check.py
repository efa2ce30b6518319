"""Do table, commit log and bucket agree? Every object of the log is in its topic's table, and every file of the table in the bucket.

Other writers may rewrite files (OPTIMIZE): their files are told from ours by the log, and must hold as many records as those that they
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.entries import EntryFiles, by_topic
from kafka_s3.followers.delta.planner import TablePlanner
from kafka_s3.followers.delta.states import TableState
from kafka_s3.followers.progress import read_places
from kafka_s3.model.errors import TableError
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore

if TYPE_CHECKING:
    from kafka_s3.followers.delta.table import Table


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


def check_copy(log: CommitLog, store: ObjectStore, place: str, *, topic: str, name: str) -> TableCheck:
    """How far one table has come that Spark writes: what is in it only Spark can say. Raises StorageError, CommitError."""
    entries = by_topic(log.entries()).get(topic, [])
    files = [file for one in entries for file in one.files]
    position = read_places(store, place).of(topic)
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
