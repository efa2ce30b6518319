"""Which partition columns do directories give, and can an engine work their values out? From the encoded partitions of the log."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kafka_s3.followers.ddl.table import PartitionKey

DATE: Final = "date"
UNITS: Final = ("year", "month", "day", "hour", "minute")
_SHORT: Final = {"y": "year", "mon": "month", "m": "month", "d": "day", "h": "hour", "hr": "hour", "min": "minute"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_keys(encoded_partitions: Sequence[str], own: Collection[str]) -> tuple[PartitionKey, ...]:
    """The levels of `name=value` directories, in order; none where directories are of another form, or have different levels.

    `own` are the columns of the records. A level of that name may be a field partitioner's, whose values nobody can work out.
    """
    rows = [name.strip("/").split("/") if name.strip("/") else [] for name in encoded_partitions]
    names = {tuple(part.partition("=")[0] if "=" in part else "" for part in row) for row in rows}
    if len(names) != 1 or not all(levels := next(iter(names))):
        return ()
    spelt = {name.lower() for name in own}
    values = [[row[level].partition("=")[2] for row in rows] for level in range(len(levels))]
    return tuple(
        PartitionKey(name) if name.lower() in spelt else _timed(name, found)
        for name, found in zip(levels, values, strict=True)
    )


def clashes(keys: Iterable[PartitionKey], own: Iterable[str]) -> list[str]:
    """The columns of the records that a directory's column hides: engines do not tell names apart by case."""
    names = {key.name.lower() for key in keys}
    return [name for name in own if name.lower() in names]


def by_time(keys: Sequence[PartitionKey]) -> bool:
    """Whether all levels are times, so that the directories can be worked out."""
    return bool(keys) and all(key.unit for key in keys)


def _timed(name: str, values: Sequence[str]) -> PartitionKey:
    if all(_DATE.fullmatch(value) for value in values):
        return PartitionKey(name, DATE, 10, min(values), max(values))
    unit = _SHORT.get(name.lower(), name.lower())
    if unit not in UNITS or not all(value.isascii() and value.isdigit() for value in values):
        return PartitionKey(name)
    widths = {len(value) for value in values}
    digits = widths.pop() if len(widths) == 1 else 0
    return PartitionKey(name, unit, digits, min(values, key=int), max(values, key=int))
