"""How is the bucket laid out? Encoded partitions as a tree with sums, the times that directories stand for, gaps, late files.

Of objects that others replaced only these count, but for late files: those are about when records came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from kafka_s3.connect.joda.pattern import tokens
from kafka_s3.followers.ddl.table import LOOKED_INTO, LoggedObject, TopicObjects
from kafka_s3.model.files import Role
from kafka_s3.objects.format import INFIX
from kafka_s3_dashboard.reading.frames import KINDS, NO_TIME, counted_files, live_files, taken
from kafka_s3_dashboard.reading.groups import Numbers, groups_by

_DATE: Final = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})([01][0-9])([0-3][0-9])(?![0-9])")
"""`20250115` is three numbers."""
_NAME: Final = "(?:[A-Za-z_.]+=)?"
_WHOLE_TIME: Final = re.compile(
    r"(?:(?P<name>[A-Za-z_.]+)=)?(?P<year>(?:19|20)[0-9]{2})"
    + "".join(f"(?:[-/_T]{_NAME}(?P<{unit}>[0-9]{{1,2}})" for unit in ("month", "day", "hour", "minute"))
    + ")?" * 4
    + "/?"
)
YEAR_NAMES: Final = frozenset({"year", "yyyy", "yr", "y"})
MONTH_NAMES: Final = YEAR_NAMES | {"", "month", "ym", "yearmonth", "date", "dt"}
"""What directories of a year, or a month, alone are called: of others with one number or two nothing is known."""
PATTERN_UNITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("YYYY", "yyyy", "xxxx"), "year"), **dict.fromkeys(("M", "MM"), "month"), **dict.fromkeys(("d", "dd"), "day"),
    **dict.fromkeys(("H", "HH"), "hour"), **dict.fromkeys(("m", "mm"), "minute"),
}  # fmt: skip
"""The letters of Joda's patterns that give a time's numbers."""
UNITS: Final = ("year", "month", "day", "hour", "minute")
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


@dataclass(frozen=True, slots=True)
class Leaf:
    """A directory that holds files: a topic and its encoded partitions, which may be written with slashes around."""

    topic: str
    encoded: tuple[str, ...]


Slots = Callable[[str], Slot | None]
"""The time that an encoded partition stands for, None where it stands for none."""


@lru_cache(maxsize=MOST_SLOTS)
def slot_of(encoded: str) -> Slot | None:
    """The time of an encoded partition such as `year=2025/month=01/day=15` or `dt=2025-01-15/hr=10`, where no configuration says it.

    Only what is a time from end to end is taken for one: in `tenant=t01971` and `order=2024/17` numbers are numbers.
    """
    found = _WHOLE_TIME.fullmatch(_DATE.sub(r"\1-\2-\3", encoded))
    if found is None:
        return None
    name, least = (found["name"] or "").casefold(), "month" if found["day"] is None else "day"
    if (found[least] is None and name not in YEAR_NAMES) or (least == "month" and name not in MONTH_NAMES):
        return None
    return _slot([int(number) for number in found.group(*UNITS) if number is not None])


def no_slot(encoded: str) -> Slot | None:
    """Of a partitioner by something else than times."""
    return None


def slots_by(pattern: str) -> Slots:
    """The times of directories that are named by a Joda pattern, in whatever other directories they lie.

    Where its numbers do not make a time (a month by its name, an hour of half a day) they are recognised as without a configuration.
    """
    parts, units = [], []
    for token in tokens(pattern.strip("/")):
        unit = PATTERN_UNITS.get(token.text) if not token.literal else None
        if unit is None and not token.literal:
            return slot_of
        digits = "{4}" if unit == "year" else "{2}" if len(token.text) == 2 else "{1,2}"
        parts.append(re.escape(token.text) if token.literal else f"([0-9]{digits})")
        units += [unit] if unit else []
    if not units or tuple(sorted(units, key=UNITS.index)) != UNITS[: len(units)]:
        return slot_of
    named = re.compile(rf"(?:.*/)?{''.join(parts)}/?", re.DOTALL)

    @lru_cache(maxsize=MOST_SLOTS)
    def of_pattern(encoded: str) -> Slot | None:
        found = named.fullmatch(encoded)
        if found is None:
            return slot_of(encoded)  # of an earlier pattern
        numbers = dict(zip(units, map(int, found.groups()), strict=True))
        return _slot([numbers[unit] for unit in UNITS[: len(units)]])

    return of_pattern


def _slot(numbers: Sequence[int]) -> Slot | None:
    """The time of a year and what is finer, None where there is no such time."""
    year, month, day, hour, minute = (*numbers, *(1, 1, 1, 0, 0)[len(numbers) :])
    try:
        return Slot(datetime(year, month, day, hour, minute, tzinfo=UTC), UNITS[len(numbers) - 1])
    except ValueError:
        return None


def directories(files: pd.DataFrame) -> pd.DataFrame:
    """Each topic and encoded partition: files, records, bytes, first and last record and commit; in order of their names."""
    rows = live_files(files, "topic", "encoded", "records", "bytes", "min_ms", "max_ms", "committed_ms")
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
    own = taken(files, (files["topic"] == topic).to_numpy(), (*KINDS, "encoded", "folder", "name", "bytes", "format"))
    rows = live_files(own)
    rows = rows[(rows["role"] == Role.VALUE).to_numpy()]
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


def leaf(found: pd.DataFrame, at: str) -> Leaf | None:
    """The directory `topic/part/...` of `partitions.directories`, None where no file lies in it itself."""
    topic, _, encoded = at.strip("/").partition("/")
    own = found[(found["topic"] == topic).to_numpy()]["encoded"].astype(str) if topic else found["encoded"].iloc[:0]
    names = tuple(name for name in own if name.strip("/") == encoded)
    return Leaf(topic, names) if names else None


def files_of(files: pd.DataFrame, leaf: Leaf) -> pd.DataFrame:
    """The files of records in a directory, the newest first."""
    rows = live_files(files)
    return rows[((rows["topic"] == leaf.topic) & rows["encoded"].isin(leaf.encoded)).to_numpy()].iloc[::-1]


def are_times(found: pd.DataFrame, slots: Slots = slot_of) -> bool:
    """Whether any directory names a time: of others neither gaps nor late files are known."""
    return any(slots(name) for name in found["encoded"])


def by_kafka_partition(files: pd.DataFrame) -> pd.DataFrame:
    """Each topic-partition: files, records, bytes, and its `share` of the topic's records, the largest first."""
    rows = live_files(files, "topic", "partition", "records", "bytes")
    groups = groups_by(rows["topic"], rows["partition"])
    places = rows.iloc[groups.first]
    found = pd.DataFrame({
        "topic": places["topic"].astype(object).to_numpy(), "partition": places["partition"].to_numpy(), "files": groups.sizes(),
        "records": groups.sums(rows["records"]), "bytes": groups.sums(rows["bytes"]),
    })  # fmt: skip
    found["share"] = found["records"] / found.groupby("topic")["records"].transform("sum").clip(lower=1)
    return found.sort_values(["share", "topic", "partition"], ascending=[False, True, True], ignore_index=True)


def gaps(found: pd.DataFrame, slots: Slots = slot_of) -> pd.DataFrame:
    """Times between a topic's first and last directory that have none: topic, unit, `after` and `before` which directory, how many.

    The largest come first.
    """
    rows = []
    for topic, own in found.groupby("topic"):
        times = sorted({(slot.start, slot.unit, name) for name in own["encoded"] if (slot := slots(name))})
        for (start, unit, name), (later, _, other) in pairwise(times):
            missing = _between(Slot(start, unit), later)
            if missing:
                rows.append((topic, unit, name, other, missing))
    rows.sort(key=lambda row: -row[-1])
    return pd.DataFrame(rows, columns=["topic", "unit", "after", "before", "missing"])


def _between(slot: Slot, later: datetime) -> int:
    if slot.unit in ("year", "month"):
        months = (later.year - slot.start.year) * 12 + later.month - slot.start.month
        return max(months // (12 if slot.unit == "year" else 1) - 1, 0)
    return max(int((later - slot.start) / (slot.following - slot.start)) - 1, 0)


def late(files: pd.DataFrame, slots: Slots = slot_of) -> pd.DataFrame:
    """Directories that got a file when the same topic-partition had begun a later one: files, records, and by how much at most."""
    rows = counted_files(files, "topic", "partition", "first_offset", "encoded", "records", "committed_ms")
    place = groups_by(rows["topic"], rows["partition"]).of_row
    order = np.lexsort((rows["first_offset"].to_numpy(), place))
    starts = _starts(rows["encoded"], slots)[order]
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


def _starts(encoded: pd.Series, slots: Slots) -> Numbers:
    """When each row's directory begins, in seconds; not a number where it is not a time."""
    times = [slots(str(name)) for name in encoded.cat.categories]
    starts = np.array([slot.start.timestamp() if slot else np.nan for slot in times], dtype=float)
    return starts[encoded.cat.codes.to_numpy()] if len(starts) else np.full(len(encoded), np.nan)


MOST_ROWS: Final = 31
"""Days of hours that fit on a screen; more are a map of months and days."""
MOST_MONTHS: Final = 60
"""A shorter time, or a directory of the tree, shows older ones."""
HOURS: Final = ("day", "hour")
DAYS: Final = ("month", "day")
PATTERNS: Final = {HOURS: "%Y-%m-%d %H", DAYS: "%Y-%m %d"}
"""Row and column of a time, by the titles of the map."""


@dataclass(frozen=True, slots=True)
class Heat:
    """A cell for each hour of a day, or each day of a month: `row` and `column` as texts, files, records, bytes.

    `titles` are those of rows and columns, `columns` every text of the latter in order; `left_out` rows are older than those shown. `slots`
    are the times that the directories stand for.
    """

    cells: pd.DataFrame
    titles: tuple[str, str]
    columns: tuple[str, ...]
    left_out: int
    slots: Slots = slot_of

    def cell_of(self, at: datetime) -> tuple[str, str]:
        """Row and column of a time."""
        row, column = at.strftime(PATTERNS[self.titles]).split(" ")
        return row, column


def heat(found: pd.DataFrame, at: str = "", slots: Slots = slot_of) -> Heat | None:
    """The map of `partitions.directories` below `topic/part/...` (blank: all); None where none of them names an hour or a day."""
    topic, _, folder = at.strip("/").partition("/")
    rows = found[_below(found["encoded"], folder) & ((found["topic"] == topic).to_numpy() | (not topic))]
    if not any(slot is not None and slot.unit not in ("year", "month") for slot in map(slots, rows["encoded"])):
        return None
    hours = np.array(_cells(rows["encoded"], HOURS, slots), object)
    days = {cell.partition(" ")[0] for cell in hours[hours != ""]}
    titles, numbers = (HOURS, range(24)) if 0 < len(days) <= MOST_ROWS else (DAYS, range(1, 32))
    cells = np.array(_cells(rows["encoded"], titles, slots), object)
    timed = cells != ""
    columns = tuple(f"{number:02d}" for number in numbers)
    return replace(_map(cells[timed], rows[timed], titles, columns), slots=slots)


def medians(warm: Heat, files: pd.DataFrame, at: str = "") -> list[float]:
    """The median size of the files of each cell of the map of the same place, in bytes; of its numbers this alone needs every file."""
    topic, _, folder = at.strip("/").partition("/")
    rows = live_files(files, "topic", "encoded", "bytes")
    names, codes = rows["encoded"].cat.categories, rows["encoded"].cat.codes.to_numpy()
    numbers, cells = pd.factorize(np.array(_cells(names, warm.titles, warm.slots), object))
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
    shown = made["row"].drop_duplicates().tail(MOST_MONTHS)
    left_out = made["row"].nunique() - len(shown)
    return Heat(made[made["row"].isin(shown)].reset_index(drop=True), titles, columns, left_out)


def _below(names: Iterable[str], folder: str) -> npt.NDArray[np.bool_]:
    """Which directories lie in a folder; blank: all do."""
    return np.array([not folder or f"{str(name).strip('/')}/".startswith(f"{folder}/") for name in names], bool)


def _cells(names: Iterable[str], titles: tuple[str, str], slots: Slots) -> list[str]:
    """The cell of each directory, `row column`; blank where its time is none of this map's."""
    units = ("hour", "minute") if titles == HOURS else ("day", "hour", "minute")
    times = (slots(str(name)) for name in names)
    return [slot.start.strftime(PATTERNS[titles]) if slot and slot.unit in units else "" for slot in times]
