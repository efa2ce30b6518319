"""When do records come, and how large are the files of each hour? Directories that are times, as a map of days and hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from figures.partitions import slot_of
from reading.frames import counted_files
from reading.groups import groups_by

MOST_ROWS: Final = 92
"""A quarter of days; a shorter time, or a directory of the tree, shows older ones."""
HOURS: Final = ("day", "hour")
DAYS: Final = ("month", "day")


@dataclass(frozen=True, slots=True)
class Heat:
    """A cell for each hour of a day, or each day of a month: `row` and `column` as texts, files, records, bytes.

    `titles` are those of rows and columns, `columns` every text of the latter in order; `left_out` rows are older than those shown.
    """

    cells: pd.DataFrame
    titles: tuple[str, str]
    columns: tuple[str, ...]
    left_out: int


def heat(found: pd.DataFrame, at: str = "") -> Heat | None:
    """The map of `partitions.directories` below `topic/part/...` (blank: all); None where none of them names an hour or a day."""
    topic, _, folder = at.strip("/").partition("/")
    rows = found[_below(found["encoded"], folder) & ((found["topic"] == topic).to_numpy() | (not topic))]
    for titles, numbers in ((HOURS, range(24)), (DAYS, range(1, 32))):
        cells = np.array(_cells(rows["encoded"], titles), object)
        timed = cells != ""
        if timed.any():
            return _map(cells[timed], rows[timed], titles, tuple(f"{number:02d}" for number in numbers))
    return None


def medians(warm: Heat, files: pd.DataFrame, at: str = "") -> list[float]:
    """The median size of the files of each cell of the map of the same place, in bytes; of its numbers this alone needs every file."""
    topic, _, folder = at.strip("/").partition("/")
    rows = counted_files(files, "topic", "encoded", "bytes")
    names, codes = rows["encoded"].cat.categories, rows["encoded"].cat.codes.to_numpy()
    numbers, cells = pd.factorize(np.array(_cells(names, warm.titles), object))
    chosen = _below(names, folder)[codes] & ((rows["topic"] == topic).to_numpy() | (not topic))
    of_row = pd.Series(numbers[codes[chosen]])
    groups = groups_by(of_row)
    sizes = groups.medians(rows["bytes"][chosen])[0]
    found = dict(zip(cells[of_row.to_numpy()[groups.first]], sizes, strict=True))
    return [found[f"{row} {column}"] for row, column in zip(warm.cells["row"], warm.cells["column"], strict=True)]


def _map(cells: npt.NDArray[np.object_], rows: pd.DataFrame, titles: tuple[str, str], columns: tuple[str, ...]) -> Heat:
    """The map of directories of these cells: several may be of one hour, those of several topics, or of its minutes."""
    codes, names = pd.factorize(cells, sort=True)
    groups = groups_by(pd.Series(codes))
    parts = [names[code].split(" ") for code in codes[groups.first].tolist()]
    made = pd.DataFrame({
        "files": groups.sums(rows["files"]), "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]),
        "row": [row for row, _ in parts], "column": [column for _, column in parts],
    }).sort_values(["row", "column"])  # fmt: skip
    shown = made["row"].drop_duplicates().tail(MOST_ROWS)
    left_out = made["row"].nunique() - len(shown)
    return Heat(made[made["row"].isin(shown)].reset_index(drop=True), titles, columns, left_out)


def _below(names: Iterable[str], folder: str) -> npt.NDArray[np.bool_]:
    """Which directories lie in a folder; blank: all do."""
    return np.array([not folder or f"{str(name).strip('/')}/".startswith(f"{folder}/") for name in names], bool)


def _cells(names: Iterable[str], titles: tuple[str, str]) -> list[str]:
    """The cell of each directory, `row column`; blank where its time is none of this map's."""
    pattern, units = ("%Y-%m-%d %H", ("hour", "minute")) if titles == HOURS else ("%Y-%m %d", ("day",))
    slots = (slot_of(str(name)) for name in names)
    return [slot.start.strftime(pattern) if slot and slot.unit in units else "" for slot in slots]
