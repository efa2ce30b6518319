"""How do columns and schemas change, and do a Delta table, its folder and the commit log agree? Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from kafka_s3.followers.ddl.table import LoggedObject
from reading.delta import ColumnsAt, FolderFiles, TableLog
from reading.frames import data_files


@dataclass(frozen=True, slots=True)
class Behind:
    """What the log has of a topic that its table has not yet: entries, files, records."""

    entries: int
    files: int
    records: int


def objects_of(files: pd.DataFrame, topic: str) -> pd.DataFrame:
    """A topic's Parquet objects with values, as the log has them: `version`, `records`, `bytes`, `folder`, `name`."""
    rows = data_files(files, "topic", "version", "records", "bytes", "format", "folder", "name")
    return rows[((rows["topic"] == topic) & (rows["format"] == "parquet")).to_numpy()]


def behind(objects: pd.DataFrame, position: int) -> Behind:
    """What of a topic's objects came after an entry of the log."""
    later = objects[(objects["version"] > position).to_numpy()]
    return Behind(int(later["version"].nunique()), len(later), int(later["records"].sum()))


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


def versions_table(table: TableLog) -> pd.DataFrame:
    """A row for each version, newest first; `entries` as a text."""
    rows = [
        (one.version, one.at_ms, one.operation, "" if one.first < 0 else _range(one.first, one.last), one.added, one.removed, one.rows,
         one.bytes, one.rescued, len(one.left_out))
        for one in reversed(table.versions)
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


CHANGES_OF: Final = ("version", "committed_ms", "topic", "partition", "first_offset", "schema")
OBJECTS_OF: Final = ("topic", "schema", "folder", "name", "bytes", "encoded", "format")
"""The columns of files that `changes` and `newest_object` look at, beside KINDS."""


def changes(files: pd.DataFrame) -> pd.DataFrame:
    """Where a topic-partition's files changed their schema: entry, time, the schema before and after."""
    rows = data_files(files, *CHANGES_OF)
    if len(rows["schema"].cat.remove_unused_categories().cat.categories) < 2:
        return rows.iloc[:0].assign(before="", after="").drop(columns="schema")
    rows = rows.sort_values(["topic", "partition", "version", "first_offset"], kind="stable")
    codes = rows["schema"].cat.codes.to_numpy()
    place = rows["partition"].to_numpy() + rows["topic"].cat.codes.to_numpy().astype(np.int64) * (1 << 31)
    changed = np.flatnonzero((codes[1:] != codes[:-1]) & (place[1:] == place[:-1])) + 1
    names = rows["schema"].astype(object).to_numpy()
    found = rows.iloc[changed][["version", "committed_ms", "topic", "partition", "first_offset"]]
    return found.assign(before=names[changed - 1], after=names[changed]).reset_index(drop=True)


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
        back = int((own["before"] == first["after"]).sum())
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


def newest_object(files: pd.DataFrame, topic: str, schema: str) -> LoggedObject | None:
    """The newest object with values of a topic's schema, None where there is none."""
    rows = data_files(files, *OBJECTS_OF)
    own = rows[((rows["topic"] == topic) & (rows["schema"] == schema)).to_numpy()]
    if own.empty:
        return None
    last = own.iloc[-1]
    return LoggedObject(
        f"{last['folder']}{last['name']}", int(last["bytes"]), str(last["encoded"]), str(last["format"])
    )
