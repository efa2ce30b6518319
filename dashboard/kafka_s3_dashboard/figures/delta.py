"""How do columns and schemas change, and do a Delta table, its folder and the commit log agree? Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from kafka_s3.followers.ddl.table import LoggedObject
from kafka_s3.model.files import Reason, Role
from kafka_s3_dashboard.reading.delta import ColumnsAt, FolderFiles, TableLog, TableVersion
from kafka_s3_dashboard.reading.frames import KINDS, NO_TIME, data_files, made_from_others, taken
from kafka_s3_dashboard.reading.groups import Numbers
from kafka_s3_dashboard.reading.tables import TableStatus


@dataclass(frozen=True, slots=True)
class Behind:
    """What the log has of a topic that its table has not yet: entries, files, records."""

    entries: int
    files: int
    records: int


NOTHING: Final = Behind(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether a table holds what the log says: `missing` since `since_ms` (of the first entry that it lacks), or since it is held.

    It still has `replaced` objects in whose place the log has others since.
    `through_ms` is the time of the newest entry, of those with objects of the topic, that is in the table (NO_TIME: none, or not known).
    """

    status: TableStatus
    through_ms: int
    missing: Behind
    left_out: Behind
    replaced: int
    since_ms: int

    @property
    def verdict(self) -> str:
        """In a word: complete, refuses, behind, has gaps, or unknown."""
        if self.status.position is None:
            return UNKNOWN
        if self.status.held is not None:
            return REFUSES
        if self.missing.files or self.replaced:
            return BEHIND
        return LEFT_OUT if self.status.left_out else COMPLETE


COMPLETE, REFUSES, BEHIND, LEFT_OUT, UNKNOWN = "complete", "refuses", "behind", "objects left out", "unknown"


def completeness_of(objects: pd.DataFrame, swaps: pd.DataFrame, status: TableStatus) -> Completeness:
    """What of a topic's objects, `objects_of` the log, its table lacks, and which of the log's swaps."""
    if status.position is None:
        return Completeness(status, NO_TIME, NOTHING, NOTHING, 0, NO_TIME)
    later = (objects["version"] > status.position).to_numpy()
    topic, values = swaps["topic"] == status.topic, swaps["role"] == Role.VALUE
    swapped = swaps[((swaps["version"] > status.position) & topic & values).to_numpy(dtype=bool)]
    lacking = [*objects["committed_ms"][later & ~objects["made"].to_numpy()], *swapped["committed_ms"]]
    since_ms = int(min(lacking, default=NO_TIME))
    if status.held is not None:
        since_ms = status.held.since_ms
    keys = objects["folder"].astype(str) + objects["name"].astype(str)
    outside = objects[(keys.isin(status.left_out) & objects["live"]).to_numpy() & ~later]
    through_ms = int(objects["committed_ms"][~later].max()) if (~later).any() else NO_TIME
    return Completeness(status, through_ms, behind(objects, status.position), _behind(outside), len(swapped), since_ms)


def objects_of(files: pd.DataFrame, topic: str) -> pd.DataFrame:
    """A topic's Parquet objects with values, as the log has them.

    Columns `version`, `committed_ms`, `records`, `bytes`, `folder`, `name`, `encoded`. Those that were `made` from
    others, and those that are not `live` any more, are among them.
    """
    columns = ("topic", "version", "committed_ms", "records", "bytes", "format", "folder", "name", "encoded")
    found = taken(files, (files["topic"] == topic).to_numpy(), (*columns, *KINDS))
    rows = found[((found["role"] == Role.VALUE) & (found["format"] == "parquet")).to_numpy()]
    return rows.assign(made=made_from_others(rows))


def live(objects: pd.DataFrame) -> pd.DataFrame:
    """Those of a topic's objects that no other has replaced."""
    return objects[objects["live"].to_numpy()]


def behind(objects: pd.DataFrame, position: int) -> Behind:
    """What of a topic's objects was written after an entry of the log."""
    return _behind(objects[((objects["version"] > position) & ~objects["made"]).to_numpy()])


def _behind(objects: pd.DataFrame) -> Behind:
    return Behind(int(objects["version"].nunique()), len(objects), int(objects["records"].sum()))


def rows_in_folder(found: FolderFiles, objects: pd.DataFrame, table: TableLog, folder: str) -> int | None:
    """The rows that a reader of plain Parquet would count: by the log for the sink's objects, by the table for files of others.

    None where neither knows one of the objects, or there are more than were listed.
    """
    if not found.whole:
        return None
    keys = objects["folder"].astype(str) + objects["name"].astype(str)
    known = dict(zip(keys, objects["records"].tolist(), strict=True))
    others = {f"{folder}{path}": rows for path, (_, rows) in table.files.files.items()} if table.files else {}
    counts = [known.get(key, others.get(key)) for key in found.keys]
    return None if None in counts else sum(count or 0 for count in counts)


def files_by_directory(objects: pd.DataFrame) -> pd.DataFrame:
    """How many of a topic's objects, `objects_of` the log, are in each directory: `files`, `records`, `bytes`, the fullest first."""
    groups = objects.groupby(objects["encoded"].astype(str), sort=False)
    rows = groups.agg(files=("records", "size"), records=("records", "sum"), bytes=("bytes", "sum"))
    return (
        rows.rename_axis("directory")
        .reset_index()
        .sort_values("files", ascending=False, ignore_index=True, kind="stable")
    )


def versions_table(versions: Sequence[TableVersion]) -> pd.DataFrame:
    """A row for each version, newest first; `entries` as a text."""
    rows = [
        (one.version, one.at_ms, one.operation, "" if one.first < 0 else _range(one.first, one.last), one.added, one.removed, one.rows,
         one.bytes, one.rescued, len(one.left_out))
        for one in reversed(versions)
    ]  # fmt: skip
    names = ["version", "at_ms", "operation", "entries", "added", "removed", "rows", "bytes", "rescued", "left_out"]
    return pd.DataFrame(rows, columns=names)


def column_changes(columns: Sequence[ColumnsAt]) -> pd.DataFrame:
    """Where the columns of a table changed, newest first: `version`, how many there are, and `change` as a text."""
    before: Mapping[str, str] = {}
    rows = []
    for one in columns:
        types = dict(one.types)
        change = "the first that was read" if not before else "; ".join(differences(before, types))
        rows.append((one.version, len(types), change))
        before = types
    return pd.DataFrame(rows[::-1], columns=["version", "columns", "change"])


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What is new, gone, and of another type between two sets of fields: `new b: long`, `gone a: string`, `c: int to long`."""
    gone = [f"gone {name}: {kind}" for name, kind in before.items() if name not in after]
    new = [f"new {name}: {kind}" for name, kind in after.items() if name not in before]
    other = [f"{name}: {before[name]} to {kind}" for name, kind in after.items() if before.get(name, kind) != kind]
    return [*new, *other, *gone]


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}\u2013{last}"


CHANGES_OF: Final = ("version", "committed_ms", "topic", "partition", "first_offset", "schema", "encoded", "reason")
OBJECTS_OF: Final = ("folder", "name", "bytes", "encoded", "format")
"""The columns of files that `changes` and `object_at` look at, beside KINDS."""


def changes(files: pd.DataFrame) -> pd.DataFrame:
    """Where a topic-partition's files changed their schema: entry, time, the names of the schemas before and after.

    The log has names; of what is in a schema it says that another one closed a file (`Reason.SCHEMA`), also where both have one name.
    `before_at` and `after_at` are the places of the two files among the data files.
    """
    rows = data_files(files, *CHANGES_OF)
    by_reason = (rows["reason"] == Reason.SCHEMA).to_numpy()
    if not by_reason.any() and rows["schema"].nunique() < 2:
        return _changes(rows, np.array([], np.int64), np.array([], np.int64))
    order = np.lexsort((rows["first_offset"], rows["version"], rows["partition"], rows["topic"].cat.codes))
    before, after = _neighbours(rows, order, "topic", "partition")
    named = rows["schema"].cat.codes.to_numpy()[before] != rows["schema"].cat.codes.to_numpy()[after]
    found = {int(one): int(other) for other, one in zip(before[named], after[named], strict=True)}
    within = order[np.argsort(rows["encoded"].cat.codes.to_numpy()[order], kind="stable")]
    before, after = _neighbours(rows, within, "encoded", "topic", "partition")
    closed = by_reason[before]
    found |= {
        int(one): int(other) for other, one in zip(before[closed], after[closed], strict=True) if int(one) not in found
    }
    places = sorted(found, key=lambda place: (rows["version"].iat[place], place))
    return _changes(rows, np.array([found[one] for one in places], np.int64), np.array(places, np.int64))


def closed_by_schema(files: pd.DataFrame) -> int:
    """How many files a record of another schema closed."""
    return int((data_files(files, "reason")["reason"] == Reason.SCHEMA).sum())


def _neighbours(rows: pd.DataFrame, order: Numbers, *columns: str) -> tuple[Numbers, Numbers]:
    """The places of files that follow one another in an order, of those that agree in these columns."""
    same = np.ones(max(len(order) - 1, 0), bool)
    for name in columns:
        values = rows[name].cat.codes.to_numpy() if name != "partition" else rows[name].to_numpy()
        same &= values[order][1:] == values[order][:-1]
    return order[:-1][same], order[1:][same]


def _changes(rows: pd.DataFrame, before: Numbers, after: Numbers) -> pd.DataFrame:
    names = rows["schema"].astype(object).to_numpy()
    found = rows.iloc[after][["version", "committed_ms", "topic", "partition", "first_offset"]]
    return found.assign(before=names[before], after=names[after], before_at=before, after_at=after).reset_index(
        drop=True
    )


def schema_name(name: str, before: str | None = None) -> str:
    """How a schema is called for people; one that follows another of its name gets a name of its own."""
    shown = name or "(no name)"
    return f"{shown}, of other fields" if name == before else shown


def pairs(found: pd.DataFrame) -> pd.DataFrame:
    """The changes of `changes` between the same two schemas of a topic, whichever came first, together; most of them first.

    Columns `topic`, `before` and `after` (as they followed each other first), `changes`, of which `back` in the other direction,
    `partitions`, `first_ms`, `last_ms`.
    """
    texts = found.assign(**{name: found[name].astype(str) for name in ("topic", "before", "after")})
    low, high = texts[["before", "after"]].min(axis=1), texts[["before", "after"]].max(axis=1)
    rows = []
    for (topic, *_), own in texts.groupby(["topic", low, high], sort=False):
        first, times = own.iloc[int(own["committed_ms"].to_numpy().argmin())], own["committed_ms"]
        back = int((own["before"] == first["after"]).sum()) if first["before"] != first["after"] else 0
        rows.append(
            (
                topic,
                first["before"],
                first["after"],
                len(own),
                back,
                own["partition"].nunique(),
                times.min(),
                times.max(),
            )
        )
    names = ["topic", "before", "after", "changes", "back", "partitions", "first_ms", "last_ms"]
    return pd.DataFrame(rows, columns=names).sort_values("changes", ascending=False, ignore_index=True, kind="stable")


def object_at(files: pd.DataFrame, place: int) -> LoggedObject:
    """The object at a place among the data files, see `changes`."""
    one = data_files(files, *OBJECTS_OF).iloc[place]
    return LoggedObject(f"{one['folder']}{one['name']}", int(one["bytes"]), str(one["encoded"]), str(one["format"]))
