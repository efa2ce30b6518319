"""What is found where a table, of whatever format, is compared with the log and the bucket?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.follower import by_topic
from kafka_s3.followers.delta.planner import TablePlanner, TableState
from kafka_s3.model.files import DataFile


def topics_with_tables(log: CommitLog) -> list[str]:
    """The topics of which the log has Parquet objects. Raises StorageError, LogDamaged."""
    return sorted(by_topic(log.entries()))


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


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did to one table: files added and taken out, and those left out, by key, with the reason."""

    topic: str
    added: int = 0
    removed: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


def absent_objects(
    found: TableCheck,
    ours: Mapping[str, DataFile],
    held: Mapping[str, tuple[int, int | None]],
    *,
    planner: TablePlanner,
    state: TableState,
    rebuild: str,
) -> list[TableDifference]:
    """Return the objects of the log that are not in the table, unless files of other writers hold as many records.

    `ours` and `held` are by path, the latter with sizes and numbers of records. `rebuild` is the command for those that can come in.
    """
    absent = [file for path, file in ours.items() if path not in held]
    others = [count or 0 for path, (_, count) in held.items() if path not in ours]
    records = sum(file.records for file in absent)
    if absent and others and sum(others) >= records:
        found.rewritten = len(absent)
        return []
    if absent and others:
        text = (
            f"{len(absent)} objects with {records} records were replaced by {len(others)} files of other writers, which hold {sum(others)} "
            f"records. Were rows deleted? If not: {rebuild} puts it right."
        )
        return [TableDifference(DifferenceKind.WRONG_COUNT, found.address, text)]
    reasons = planner.reasons_out(state, absent)
    differences = []
    for file in absent:
        why = f", and stays out: {reasons[file.key]}." if file.key in reasons else f". {rebuild} puts it right."
        text = f"The object of {file.records} records is not in the table{why}"
        differences.append(TableDifference(DifferenceKind.NOT_IN_TABLE, file.key, text))
    return differences
