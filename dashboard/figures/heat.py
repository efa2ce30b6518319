"""When do records come, and how large are the files of each hour? Directories that are times, as a map of days and hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from figures.partitions import Slot, slot_of
from reading.frames import counted_files
from reading.groups import groups_by

MOST_ROWS: Final = 92
"""A quarter of days; a shorter time, or a directory of the tree, shows older ones."""


@dataclass(frozen=True, slots=True)
class Heat:
    """A cell for each hour of a day, or each day of a month: `row` and `column` as texts, files, records, bytes, `median_bytes`.

    `titles` are those of rows and columns, `columns` every text of the latter in order; `left_out` rows are older than those shown.
    """

    cells: pd.DataFrame
    titles: tuple[str, str]
    columns: tuple[str, ...]
    left_out: int


def heat(files: pd.DataFrame, at: str = "") -> Heat | None:
    """The map of the files of records below `topic/part/...` (blank: all); None where no directory names an hour or a day."""
    rows = _below(counted_files(files, "topic", "encoded", "records", "bytes"), at)
    slots = [slot_of(str(name)) for name in rows["encoded"].cat.categories]
    codes = rows["encoded"].cat.codes.to_numpy()
    units = {slot.unit for code in np.unique(codes) if (slot := slots[code]) is not None}
    hours = bool(units & {"hour", "minute"})
    if not hours and "day" not in units:
        return None
    fitting = [slot if slot and slot.unit in (("hour", "minute") if hours else ("day",)) else None for slot in slots]
    cells = _cells(rows, fitting, codes, "%Y-%m-%d %H" if hours else "%Y-%m %d")
    shown = cells["row"].drop_duplicates().tail(MOST_ROWS)
    left_out = cells["row"].nunique() - len(shown)
    titles = ("day", "hour") if hours else ("month", "day")
    columns = tuple(f"{number:02d}" for number in (range(24) if hours else range(1, 32)))
    return Heat(cells[cells["row"].isin(shown)].reset_index(drop=True), titles, columns, left_out)


def _below(rows: pd.DataFrame, at: str) -> pd.DataFrame:
    """The rows of a topic, and of the directories whose names begin so."""
    topic, _, folder = at.strip("/").partition("/")
    if not topic:
        return rows
    names = rows["encoded"].cat.categories
    chosen = np.array([f"{str(name).strip('/')}/".startswith(f"{folder}/") if folder else True for name in names], bool)
    inside = chosen[rows["encoded"].cat.codes.to_numpy()] if len(names) else np.zeros(len(rows), bool)
    found: pd.DataFrame = rows[(rows["topic"] == topic).to_numpy() & inside]
    return found


def _cells(rows: pd.DataFrame, slots: list[Slot | None], codes: np.ndarray, pattern: str) -> pd.DataFrame:
    """The sums of each cell; several directories may be of one hour: those of several topics, or of its minutes."""
    texts = [slot.start.strftime(pattern) if slot else "" for slot in slots]
    numbers, names = pd.factorize(np.array(texts, dtype=object))
    of_row = numbers[codes]
    timed = np.array([bool(text) for text in texts], bool)[codes]
    rows, places = rows[timed], pd.Series(of_row[timed])
    groups = groups_by(places)
    found = pd.DataFrame({
        "cell": [str(names[place]) for place in places.to_numpy()[groups.first]], "files": groups.sizes(),
        "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]), "median_bytes": groups.medians(rows["bytes"])[0],
    })  # fmt: skip
    parts = found["cell"].str.rpartition(" ")
    made = found.assign(row=parts[0], column=parts[2]).drop(columns="cell")
    ordered: pd.DataFrame = made.sort_values(["row", "column"], ignore_index=True)
    return ordered
