"""How is the bucket laid out? Encoded partitions as a tree with sums, the times that directories stand for, gaps, late files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from kafka_s3.followers.ddl.table import LOOKED_INTO, LoggedObject, TopicObjects
from kafka_s3.objects.format import INFIX
from reading.frames import NO_TIME, counted_files, data_files, taken
from reading.groups import Numbers, groups_by

_NUMBERS: Final = re.compile(r"\d+")
_DATE: Final = re.compile(r"^(19|20)\d{6}$")
UNITS: Final = ("year", "month", "day", "hour", "minute")
MOST_GAPS: Final = 1000
MOST_SLOTS: Final = 1 << 15
"""Names whose times are remembered, a few MiB: those of three years of hours."""
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Slot:
    """The time that a directory stands for: its beginning by the clock of the partitioner's zone, and its length."""

    start: datetime
    unit: str

    @property
    def following(self) -> datetime:
        """When the next one begins."""
        if self.unit in ("year", "month"):
            months = self.start.year * 12 + self.start.month - 1 + (12 if self.unit == "year" else 1)
            return self.start.replace(year=months // 12, month=months % 12 + 1)
        return self.start + timedelta(**{f"{self.unit}s": 1})


@lru_cache(maxsize=MOST_SLOTS)
def slot_of(encoded: str) -> Slot | None:
    """The time of an encoded partition such as `year=2025/month=01/day=15` or `dt=2025-01-15/hr=10`; None where it names none."""
    numbers = [int(text) for text in _split(_NUMBERS.findall(encoded))]
    if not 1 <= len(numbers) <= len(UNITS) or not 1970 <= numbers[0] < 10_000:
        return None
    year, month, day, hour, minute = (*numbers, *(1, 1, 1, 0, 0)[len(numbers) :])
    try:
        return Slot(datetime(year, month, day, hour, minute, tzinfo=UTC), UNITS[len(numbers) - 1])
    except ValueError:
        return None


def _split(texts: list[str]) -> list[str]:
    """`20250115` is three numbers."""
    return [part for text in texts for part in ([text[:4], text[4:6], text[6:]] if _DATE.match(text) else [text])]


def directories(files: pd.DataFrame) -> pd.DataFrame:
    """Each topic and encoded partition: files, records, bytes, first and last record and commit; in order of their names."""
    rows = counted_files(files, "topic", "encoded", "records", "bytes", "min_ms", "max_ms", "committed_ms")
    groups = groups_by(rows["topic"], rows["encoded"])
    places = rows.iloc[groups.first]
    first = groups.lowest(rows["min_ms"].where(rows["min_ms"] != NO_TIME, _NEVER))
    found = pd.DataFrame({
        "topic": places["topic"].astype(object).to_numpy(), "encoded": places["encoded"].astype(object).to_numpy(),
        "files": groups.sizes(), "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]),
        "first_ms": np.where(first == _NEVER, NO_TIME, first), "last_ms": groups.highest(rows["max_ms"]),
        "first_commit_ms": groups.lowest(rows["committed_ms"]), "last_commit_ms": groups.highest(rows["committed_ms"]),
    })  # fmt: skip
    return found.sort_values(["topic", "encoded"], ignore_index=True)


def topic_objects(files: pd.DataFrame, topic: str) -> TopicObjects | None:
    """What the log says of a topic's objects, as the generator of tables takes it; None where the topic has none."""
    own = taken(files, (files["topic"] == topic).to_numpy(), ("role", "encoded", "folder", "name", "bytes", "format"))
    rows = data_files(own)
    if rows.empty:
        return None
    last = rows.tail(LOOKED_INTO).iloc[::-1]
    keys = last["folder"].astype(str) + last["name"].astype(str)
    facts = zip(keys, last["bytes"].tolist(), last["encoded"].astype(str), last["format"].astype(str), strict=True)
    newest = [LoggedObject(*one) for one in facts]
    roles, encoded = set(own["role"].unique()), rows["encoded"].unique()
    return TopicObjects(topic, newest, [str(name) for name in encoded], tuple(role for role in INFIX if role in roles))


def children(found: pd.DataFrame, at: str) -> pd.DataFrame:
    """What lies directly below `topic/part/...` (blank: the topics): name, path, whether more lies below, and the sums of all below."""
    prefix = f"{at.strip('/')}/" if at.strip("/") else ""
    paths = [f"{topic}/{encoded.strip('/')}/" for topic, encoded in zip(found["topic"], found["encoded"], strict=True)]
    parts = ((row, path[len(prefix) :].partition("/")) for row, path in enumerate(paths) if path.startswith(prefix))
    below = [(row, name, rest) for row, (name, _, rest) in parts if name]
    rows = found.iloc[[row for row, _, _ in below]]
    codes, names = pd.factorize(np.array([name for _, name, _ in below], object), sort=True)
    groups = groups_by(pd.Series(codes))
    first = groups.lowest(rows["first_ms"].where(rows["first_ms"] != NO_TIME, _NEVER))
    deeper = groups.highest(pd.Series([int(rest != "") for _, _, rest in below], dtype=np.int64))
    made = pd.DataFrame({
        "name": names[codes[groups.first]], "directories": groups.sizes(), "files": groups.sums(rows["files"]),
        "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]), "first_ms": np.where(first == _NEVER, NO_TIME, first),
        "last_ms": groups.highest(rows["last_ms"]), "last_commit_ms": groups.highest(rows["last_commit_ms"]), "deeper": deeper.astype(bool),
    })  # fmt: skip
    return made.assign(path=prefix + made["name"]).sort_values("name", ignore_index=True)


def are_times(found: pd.DataFrame) -> bool:
    """Whether any directory names a time: of others neither gaps nor late files can be told."""
    return any(slot_of(name) for name in found["encoded"])


def by_kafka_partition(files: pd.DataFrame) -> pd.DataFrame:
    """Each topic-partition: files, records, bytes, and its `share` of the topic's records, the largest first."""
    rows = counted_files(files, "topic", "partition", "records", "bytes")
    groups = groups_by(rows["topic"], rows["partition"])
    places = rows.iloc[groups.first]
    found = pd.DataFrame({
        "topic": places["topic"].astype(object).to_numpy(), "partition": places["partition"].to_numpy(), "files": groups.sizes(),
        "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]),
    })  # fmt: skip
    found["share"] = found["records"] / found.groupby("topic")["records"].transform("sum").clip(lower=1)
    return found.sort_values(["share", "topic", "partition"], ascending=[False, True, True], ignore_index=True)


def gaps(found: pd.DataFrame) -> pd.DataFrame:
    """Times between a topic's first and last directory that have none: topic, unit, `after` and `before` which directory, how many."""
    rows = []
    for topic, own in found.groupby("topic"):
        slots = sorted({(slot.start, slot.unit, name) for name in own["encoded"] if (slot := slot_of(name))})
        for (start, unit, name), (later, _, other) in pairwise(slots):
            missing = _between(Slot(start, unit), later)
            if missing:
                rows.append((topic, unit, name, other, missing))
    return pd.DataFrame(rows[:MOST_GAPS], columns=["topic", "unit", "after", "before", "missing"])


def _between(slot: Slot, later: datetime) -> int:
    if slot.unit in ("year", "month"):
        months = (later.year - slot.start.year) * 12 + later.month - slot.start.month
        return max(months // (12 if slot.unit == "year" else 1) - 1, 0)
    return max(int((later - slot.start) / (slot.following - slot.start)) - 1, 0)


def late(files: pd.DataFrame) -> pd.DataFrame:
    """Directories that got a file when the same topic-partition had begun a later one: files, records, and by how much at most."""
    rows = counted_files(files, "topic", "partition", "first_offset", "encoded", "records", "committed_ms")
    place = groups_by(rows["topic"], rows["partition"]).of_row
    order = np.lexsort((rows["first_offset"].to_numpy(), place))
    starts = _starts(rows["encoded"])[order]
    behind = pd.Series(starts).groupby(place[order]).cummax().to_numpy() - starts
    chosen = behind > 0
    grouped = rows.iloc[order[chosen]].assign(behind_s=behind[chosen]).groupby(["topic", "encoded"], observed=True)
    made = grouped.agg(
        files=("records", "size"),
        records=("records", "sum"),
        behind_s=("behind_s", "max"),
        at_ms=("committed_ms", "max"),
    )
    return made.reset_index().sort_values("behind_s", ascending=False, ignore_index=True)


def _starts(encoded: pd.Series) -> Numbers:
    """When each row's directory begins, in seconds; not a number where it is no time."""
    slots = [slot_of(str(name)) for name in encoded.cat.categories]
    starts = np.array([slot.start.timestamp() if slot else np.nan for slot in slots], dtype=float)
    return starts[encoded.cat.codes.to_numpy()] if len(starts) else np.full(len(encoded), np.nan)


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
