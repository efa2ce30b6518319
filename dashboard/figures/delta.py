"""Do a Delta table, its folder and the commit log agree? How far they are apart, and how columns changed; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

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
